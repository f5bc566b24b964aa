"""Makes a plan: scope by reason, stale partitions, chunks, estimates, pre-checks and the way back. Changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from stream_assets.contracts.model import Contract
from stream_assets.engine.log import newest_entries, newest_version
from stream_assets.errors import StreamError
from stream_assets.ops.backfill.estimate import BETWEEN_S, START_S, History, Rate, Sizes, rate_of, sizes_of
from stream_assets.ops.backfill.plan import CHUNK_S, Chunk, Item, Plan, Precheck, Reason, groups_of, ranges_of
from stream_assets.ops.backfill.stale import WHOLE, Causes, Lake, Scope, find_stale
from stream_assets.ops.status import dataset_status
from stream_assets.quality.score import CheckResult
from stream_assets.silver.refine import REFINE_VERSION

SPARE_BYTES = 1 << 30
DAYS_PER_CHUNK = 31


@dataclass(frozen=True)
class Facts:
    """What Dagster knows that a plan needs."""

    assets: tuple[str, ...]
    """The selection and everything downstream of it."""
    history: History
    is_cold: bool = False
    """Whether an engine has to be started first."""
    live_runs: tuple[str, ...] = ()
    backfill_runs: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    reason: Reason
    select: str
    first: date | None = None
    last: date | None = None
    days_per_chunk: int = DAYS_PER_CHUNK


@dataclass
class _Work:
    """Sizes of the tables of a plan, each read once."""

    lake: Lake
    history: History
    sizes: dict[str, Sizes] = field(default_factory=dict)
    rates: dict[str, Rate] = field(default_factory=dict)
    ledgers: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def size(self, asset: str) -> Sizes:
        if asset not in self.sizes:
            self.sizes[asset] = sizes_of(f"{self.lake.settings.lake}/{asset}")
        return self.sizes[asset]

    def rate(self, asset: str) -> Rate:
        step = step_of(asset)
        if step not in self.rates:
            self.rates[step] = rate_of(step, self.history)
        return self.rates[step]

    def made(self, asset: str) -> dict[str, dict[str, Any]]:
        """The ledger entry of each day that was made of a table. Quarantine is made with Silver."""
        asset = asset.replace("quarantine/", "silver/")
        if asset not in self.ledgers:
            self.ledgers[asset] = newest_entries(self.lake.log(asset))
        return self.ledgers[asset]

    def rows(self, asset: str, day: str) -> int:
        """Rows to be read for a day of a table: what was read last time, else what lies below it."""
        layer, name = asset.split("/")
        if layer in ("silver", "quarantine"):
            known = self.made(asset).get(day, {}).get("rows_in")
            return self._own(f"bronze/{name}", day) if known is None else known
        return self._own(asset, day)

    def _own(self, asset: str, day: str) -> int:
        size = self.size(asset)
        if day == WHOLE:
            return sum(size.rows.values())
        if asset.startswith("gold/") and not size.rows:
            parents = self.lake.models[asset].parents
            return max((self._own(parent, day) for parent in parents), default=0)
        return size.rows.get(day, 0 if day in self.made(asset) else size.usual_rows)

    def bytes(self, asset: str, days: Iterable[str]) -> int:
        """Bytes to be written for these days of a table."""
        size, made = self.size(asset), self.made(asset)
        if set(size.bytes) <= {""}:  # no days: it is written whole
            return sum(size.bytes.values()) or round(sum(self.rows(asset, d) for d in days) * size.bytes_per_row)
        # Few records are rejected: of a day to come, as many as of those there were.
        rejected = sum(size.bytes.values()) / max(len(made), 1) if asset.startswith("quarantine/") else None
        new = {day: rejected or self.rows(asset, day) * size.bytes_per_row for day in days if day not in made}
        return round(sum(size.bytes.get(day, new.get(day, 0)) for day in days))


def bytes_now(lake: Lake, items: Iterable[Item]) -> int:
    """How large what was made is."""
    work = _Work(lake, History())
    return sum(work.bytes(item.asset, item.days) for item in items)


def step_of(asset: str) -> str:
    """The step that makes an asset."""
    layer, name = asset.split("/")
    return {"bronze": f"land_{name}", "gold": "build_gold"}.get(layer, f"refine_{name}")


def make_plan(lake: Lake, request: Request, facts: Facts) -> Plan:
    """What to do about what is stale."""
    now = datetime.now(UTC)
    assets = _with_landing(facts.assets) if request.reason == "new-source" else facts.assets
    scopes = scopes_of(lake, request, assets)
    stale = find_stale(lake, assets, scopes)
    work = _Work(lake, facts.history)
    items = [
        Item(asset, causes, sum(work.rows(asset, d) for d in causes), work.bytes(asset, causes))
        for asset, causes in stale.items()
    ]
    plan = Plan(
        id=f"{now:%Y%m%dT%H%M%S}-{request.reason}",
        reason=request.reason,
        select=request.select,
        created_at=now.isoformat(timespec="seconds"),
        scope={name: (scope.first.isoformat(), scope.last.isoformat()) for name, scope in scopes.items()},
        items=items,
        chunks=chunks_of(work, stale, request.days_per_chunk, lake.today),
        bases={},
        impact=[],
        prechecks=[],
        versions={a: v for a in stale if (v := newest_version(f"{lake.settings.lake}/{a}")) is not None},
        rollback=[],
        code=code_of(lake, stale),
        overhead_s=facts.history.overhead_s,
    )
    if facts.is_cold and plan.chunks:
        plan.chunks[0] = replace(plan.chunks[0], seconds=round(plan.chunks[0].seconds + START_S, 2))
    plan.bases = {step: f"{rate.basis} ({rate.runs})" for step, rate in sorted(work.rates.items())}
    plan.rollback = [_rollback(item, plan.versions) for item in items if item.asset in plan.versions]
    plan.impact = list(_impact(lake, plan, now))
    plan.prechecks = [*_prechecks(lake, plan, facts, now)]
    return plan


def _with_landing(assets: Iterable[str]) -> tuple[str, ...]:
    """A new source is landed first, whatever layer was selected."""
    refined = {asset.split("/")[1] for asset in assets if asset.startswith(("silver/", "quarantine/"))}
    return tuple(sorted({*assets, *(f"bronze/{name}" for name in refined)}))


def scopes_of(lake: Lake, request: Request, assets: Sequence[str]) -> dict[str, Scope]:
    """The days each dataset is looked at, by the reason."""
    contracts, today = lake.contracts, lake.today
    starts = {
        name: max(c.history_start - timedelta(days=c.max_lateness), today - c.retention)
        for name, c in contracts.items()
    }
    oldest = min(starts.values(), default=today)
    if request.reason == "bug":
        if not (request.first and request.last) or request.first > request.last:
            raise StreamError("A bug has a window: give --from and --to, the days it was in force.")
        return {name: Scope(request.first, request.last) for name in (*contracts, "*")}
    if request.reason == "new-source":
        named = {asset.split("/")[1] for asset in assets}
        first = min((start for name, start in starts.items() if name in named), default=oldest)
        own = {name: Scope(request.first or start, request.last or today) for name, start in starts.items()}
        return own | {"*": Scope(request.first or first, request.last or today)}
    if request.first or request.last:
        raise StreamError(
            f"--reason {request.reason} is about all of history: leave --from and --to out, or say --reason bug."
        )
    return {name: Scope(start, today) for name, start in starts.items()} | {"*": Scope(oldest, today)}


def chunks_of(work: _Work, stale: Mapping[str, Causes], days_per_chunk: int, today: date) -> list[Chunk]:
    """The runs of a plan, in order: about a minute each at most by estimate, and never over a day that is not stale."""
    chunks: list[Chunk] = []
    for stage, assets, days in groups_of(stale, work.lake.models):
        if days == [WHOLE]:
            newest = max((d for causes in stale.values() for d in causes if d != WHOLE), default=today.isoformat())
            chunks.append(_chunk(work, stage, assets, [WHOLE], (newest, newest)))
            continue
        whole = _chunk(work, stage, assets, days, (days[0], days[-1]))
        fixed = _chunk(work, stage, assets, [], ("", "")).seconds
        growing_per_day = max(whole.seconds - fixed, 0.0) / len(days)
        # What a run takes whatever its size must not be most of it.
        room = max(CHUNK_S, 3 * fixed) - fixed
        fitting = int(room / growing_per_day) if growing_per_day else days_per_chunk
        for first, last in ranges_of(days, max(1, min(days_per_chunk, fitting))):
            inside = [d for d in days if first.isoformat() <= d <= last.isoformat()]
            chunks.append(_chunk(work, stage, assets, inside, (first.isoformat(), last.isoformat())))
    return chunks


def _chunk(work: _Work, stage: int, assets: Sequence[str], days: Sequence[str], span: tuple[str, str]) -> Chunk:
    rows: dict[str, int] = {}
    for asset in assets:
        if not asset.startswith("quarantine/"):
            step = step_of(asset)
            rows[step] = rows.get(step, 0) + sum(work.rows(asset, day) for day in days)
    rates = {step_of(asset): work.rate(asset) for asset in assets}
    tables = sum(asset.startswith("gold/") for asset in assets) or 1
    seconds = work.history.overhead_s + BETWEEN_S + sum(rates[step].seconds(n, tables) for step, n in rows.items())
    return Chunk(stage, tuple(assets), *span, sum(rows.values()), round(seconds, 2))


def code_of(lake: Lake, assets: Iterable[str]) -> dict[str, str]:
    """What making these assets means today: the contract and the code behind each."""
    code = {}
    for asset in assets:
        layer, name = asset.split("/")
        own = lake.models[asset].code if layer == "gold" else f"{REFINE_VERSION}:{lake.contracts[name].shape}"
        code[asset] = own
    return code


def _rollback(item: Item, versions: Mapping[str, int]) -> str:
    days = [day for day in item.days if day != WHOLE]
    return f"stream rollback --asset {item.asset} --to {versions[item.asset]}" + (
        f" --partition {days[0]}..{days[-1]}" if days else ""
    )


def _impact(lake: Lake, plan: Plan, now: datetime) -> Iterable[dict[str, Any]]:
    """Readers see the old rows until a day is replaced; a live run may wait for the chunk that is under way."""
    for contract in _datasets(lake, plan):
        budget = dataset_status(contract, lake.log(f"silver/{contract.name}"), now).budget
        left = budget.remaining.total_seconds()
        yield {
            "dataset": contract.name,
            "tier": contract.tier,
            "state": budget.state,
            "remaining_seconds": round(left),
            "delay_seconds": round(plan.longest_s, 1),
            "share_of_remaining": round(plan.longest_s / left, 4) if left > 0 else None,
        }


def _datasets(lake: Lake, plan: Plan) -> list[Contract]:
    names = {item.asset.split("/")[1] for item in plan.items if not item.asset.startswith("gold/")}
    return [contract for name, contract in lake.contracts.items() if name in names]


def _prechecks(lake: Lake, plan: Plan, facts: Facts, now: datetime) -> Iterable[Precheck]:
    yield _disk(lake.settings.lake, plan.bytes)
    if facts.backfill_runs:
        yield Precheck("running", "fail", f"another backfill runs: {', '.join(facts.backfill_runs)}. Let it end first.")
    elif facts.live_runs:
        yield Precheck("running", "warn", f"{len(facts.live_runs)} live runs under way: each chunk waits for them")
    else:
        yield Precheck("running", "ok", "nothing else runs")
    planned = {item.asset for item in plan.items}
    names = {contract.name for contract in _datasets(lake, plan)}
    failing = [c for c in facts.checks if c.is_gate and not c.passed and c.asset.split("/")[1] in names | {"*"}]
    inputs = [c for c in failing if c.asset not in planned]
    told = ", ".join(f"{c.asset} {c.name}" for c in inputs or failing)
    yield Precheck("gates", "fail" if inputs else "warn" if failing else "ok", told or "no gate of the inputs fails")
    old = [name for name in sorted(names) if _is_old(lake, name, now)]
    yield Precheck(
        "inputs",
        "warn" if old else "ok",
        f"last delivery overdue: {', '.join(old)}" if old else "deliveries came on time",
    )
    gone = [row["dataset"] for row in plan.impact if row["state"] == "exhausted"]
    text = f"error budget gone: {', '.join(gone)}. The policy freezes risky backfills until the month is over"
    yield Precheck("tier policy", "fail" if gone else "ok", text if gone else "no error budget is gone")


def _disk(lake: str, needed: int) -> Precheck:
    if "://" in lake:
        return Precheck("disk", "ok", "an object store")
    place = next(folder for folder in (Path(lake), *Path(lake).parents) if folder.exists())
    free = shutil.disk_usage(place).free
    state = "ok" if free > 2 * needed + SPARE_BYTES else "warn" if free > needed + SPARE_BYTES / 2 else "fail"
    return Precheck("disk", state, f"{free / 1e9:,.1f} GB free, {needed / 1e6:,.1f} MB to write")


def _is_old(lake: Lake, name: str, now: datetime) -> bool:
    """Whether the newest delivery of a dataset is older than its freshness target."""
    entries = newest_entries(lake.log(f"bronze/{name}")).values()
    arrived = max((e["arrived"] for e in entries if e.get("arrived")), default=None)
    return arrived is not None and now - datetime.fromisoformat(arrived) > lake.contracts[name].freshness_limit
