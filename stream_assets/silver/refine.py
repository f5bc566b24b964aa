"""Refines a range of days: reads Bronze, conforms, counts, and replaces those days in quarantine and Silver.

The rows are conformed once and kept while they are counted and written, so that each commit can carry its own exact
counts and a gate can refuse a partition before any reader sees it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import CHANGES, Contract
from stream_assets.engine import delta
from stream_assets.engine.files import rows_in
from stream_assets.engine.held import is_held, is_let_go
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import newest_version, read_ledger, read_positions
from stream_assets.engine.session import configured, kept, plan_settings
from stream_assets.errors import LakeError, MovedError
from stream_assets.quality.profile import profile_days
from stream_assets.settings import Settings
from stream_assets.silver.audit import VERDICT, audit_table, failed_gates
from stream_assets.silver.conform import NOTHING, Counts, Spread, accepted, conform, count_days, prompt, rejected
from stream_assets.silver.publish import quarantine_table, silver_table, timeline
from stream_assets.silver.resolve import PLACE, as_open, fates, with_resolved
from stream_assets.sources.changes import ALL_KEYS
from stream_assets.sources.corrections import is_correction, split_superseded

REFINE_VERSION = 8
"""Raise when refining computes something else from the same Bronze: every partition is then stale."""
ROWS_PER_FILE = 2_000_000
ROWS_PER_TASK = 100_000
MANY_TASKS = 16
ROWS_AT_ONCE = 1_000_000
"""Records of a dataset whose rows are kept at a time: two datasets at once fit into the memory of a laptop's engine."""
MAX_ROUNDS = 5
NOT_READ = ("_run_id", "_contract_version", "_message_key", "_message_headers")
"""Columns of Bronze that nothing is made from."""

Entries = dict[str, dict[str, Any]]
"""Ledger entries by ISO day."""


@dataclass(frozen=True)
class Refinement:
    """What refining a range of days did."""

    days: Entries = field(default_factory=dict)
    refined: tuple[date, ...] = ()
    """Days written by this run; the others were up to date."""
    history: Entries = field(default_factory=dict)
    """Everything Silver's ledger said before."""
    withheld: Entries = field(default_factory=dict)
    """Days that failed a gate and were not published: what was counted, and the verdict."""
    landed: dict[str, int] = field(default_factory=dict)
    """Records Bronze holds per day asked for, counted there and not by refining."""
    held: tuple[date, ...] = ()
    """Days that stay as they are: rolled back, or past their retention."""


@dataclass(frozen=True)
class Task:
    """Days to refine, and all that is needed for it."""

    settings: Settings
    contract: Contract
    days: list[date]
    inputs: dict[str, str]
    """What each day is computed from; equal inputs give equal rows."""
    run_id: str
    salt: str
    spread: Spread
    bytes_in: int
    """How much was delivered that these days may be made of."""
    history: Entries
    """What Silver's ledger said before."""
    withheld: Entries
    """Days in audit: what they deliver is in no table."""
    is_corrected: bool = False
    """Whether some records may have corrections that stand in for them."""


@dataclass(frozen=True)
class Done:
    """What one round did: entries of the days it published and of those it withheld, and what Bronze holds of them."""

    published: Entries
    withheld: Entries
    landed: dict[str, int]


def refine(
    spark: SparkSession,
    settings: Settings,
    contract: Contract,
    days: Sequence[date],
    *,
    run_id: str,
    salt: str,
    again: bool = False,
) -> Refinement:
    """Bring Silver and quarantine of these days up to date with Bronze; with `again`, also those that are."""
    silver, quarantine = silver_table(settings, contract), quarantine_table(settings, contract)
    delta.ensure(spark, silver)
    delta.ensure(spark, quarantine)
    before = read_ledger(silver.path, days)
    audited = {d: e for d, e in read_ledger(audit_table(settings, contract).path, days).items() if VERDICT in e}
    done = Done({}, {}, {})
    refined: set[date] = set()
    held: set[date] = set()
    # Whatever lands while a day is computed would be missing from it, and a slow run would undo a quicker one: look again.
    for rounds_left in reversed(range(MAX_ROUNDS)):
        landed, inputs = _look(settings, contract, days)
        known = {**before, **done.published, **done.withheld}
        trusted = {**done.published, **done.withheld} if again else known
        stale = [day for day in days if trusted.get(day.isoformat(), {}).get("inputs") != inputs[day.isoformat()]]
        let_go = {day for day in days if is_let_go(known.get(day.isoformat(), {}))}
        held = let_go | {day for day in stale if is_held(known.get(day.isoformat(), {}), inputs[day.isoformat()])}
        stale = [day for day in stale if day not in held]
        if not stale or not landed:
            break
        is_corrected = contract.kind == "entity" or any("corrections" in entry for entry in landed.values())
        law = _as_landed(settings, contract)
        try:
            for some in portions(landed, contract, stale):
                spread, size = _spread(landed, contract, some), _bytes_in(landed, contract, some)
                history, withheld = {**before, **done.published}, {**audited, **done.withheld}
                task = Task(settings, law, some, inputs, run_id, salt, spread, size, history, withheld, is_corrected)
                with configured(spark, plan_settings(_rows_read(settings, contract, landed, some))):
                    done = _together(done, _refine(spark, task))
                refined.update(some)
        except MovedError:
            if not rounds_left:
                raise
    known = {**before, **done.published}
    uncounted = [day for day in days if day.isoformat() not in done.landed]
    return Refinement(
        {d: known[d] for d in (day.isoformat() for day in days) if d in known},
        tuple(sorted(day for day in refined if day.isoformat() in done.published)),
        before,
        done.withheld,
        {**done.landed, **count_bronze(settings, contract, uncounted)},
        tuple(sorted(held)),
    )


def _look(settings: Settings, contract: Contract, days: Sequence[date]) -> tuple[Entries, dict[str, str]]:
    """What has landed by now, and what each day would be computed from."""
    landed = read_ledger(settings.table_path("bronze", contract.name), deliveries_of(contract, days))
    return landed, input_fingerprints(landed, contract, days)


def _together(earlier: Done, later: Done) -> Done:
    """Two rounds as one. A day that the later one decided upon is no longer what the earlier one made of it."""
    decided = {*later.published, *later.withheld}
    published, withheld = (
        {d: e for d, e in part.items() if d not in decided} for part in (earlier.published, earlier.withheld)
    )
    return Done({**published, **later.published}, {**withheld, **later.withheld}, {**earlier.landed, **later.landed})


def deliveries_of(contract: Contract, days: Sequence[date]) -> list[date]:
    """The deliveries that may hold records of these days."""
    late, early = _reach(contract)
    return sorted({day + timedelta(days=n) for day in days for n in range(-early, late + 1)})


def days_of(contract: Contract, deliveries: Sequence[date]) -> list[date]:
    """The days that these deliveries may hold records of."""
    late, early = _reach(contract)
    return sorted({delivery + timedelta(days=n) for delivery in deliveries for n in range(-late, early + 1)})


def _reach(contract: Contract) -> tuple[int, int]:
    """How many days after it happened, and before, a record may be delivered. Only events happen on another day."""
    return (contract.max_lateness, 1) if contract.kind == "event" else (0, 0)


def input_fingerprints(landed: Entries, contract: Contract, days: Sequence[date]) -> dict[str, str]:
    """What each day is computed from: the contract, this code, and the deliveries that may hold records of it."""

    def of(day: date) -> str:
        reach = [delivery.isoformat() for delivery in deliveries_of(contract, [day])]
        told = (f"{d}={landed[d]['files']}{landed[d].get('corrections', '')};" for d in reach if d in landed)
        seen = hashlib.sha256("".join(told).encode()).hexdigest()[:16]
        return f"{REFINE_VERSION}:{contract.shape}:{seen}"

    return {day.isoformat(): of(day) for day in days}


def delivered(inputs: str) -> str:
    """The part of a day's inputs that tells of the deliveries: equal for equal ones, whatever the contract and the code."""
    return inputs.rpartition(":")[2]


def portions(landed: Entries, contract: Contract, days: Sequence[date]) -> list[list[date]]:
    """Days as they are refined together, in order: a long range takes no more memory than a part of it, and what is done stays done.

    Only days of events stand for themselves: versions of an entity depend on each other, and the latest reference wins.
    """
    if contract.kind != "event":
        return [list(days)]
    portions: list[list[date]] = [[]]
    rows = 0
    for day in days:
        more = landed.get(day.isoformat(), {}).get("rows_in", 0)
        if portions[-1] and rows + more > ROWS_AT_ONCE:
            portions.append([])
            rows = 0
        portions[-1].append(day)
        rows += more
    return portions


def _spread(landed: Entries, contract: Contract, days: Sequence[date]) -> Spread:
    """Files that hold no more than a couple of million rows, and no more tasks than the rows are worth, by what landing counted."""
    rows = [landed.get(day.isoformat(), {}).get("rows_in", 0) for day in days]
    tasks = 1 + sum(rows) // ROWS_PER_TASK
    is_known = contract.kind != "entity" and tasks < MANY_TASKS  # an entity's rows of other days are read too
    return Spread(1 + max(rows, default=0) // ROWS_PER_FILE, tasks if is_known else None)


def _rows_read(settings: Settings, contract: Contract, landed: Entries, days: Sequence[date]) -> int:
    """How many records these days may be made of, at most. Versions of an entity are ranked with those of all other days."""
    if contract.kind == "entity":
        return rows_in(settings.table_path("bronze", contract.name))
    return sum(landed.get(day.isoformat(), {}).get("rows_in", 0) for day in deliveries_of(contract, days))


def _bytes_in(landed: Entries, contract: Contract, days: Sequence[date]) -> int:
    """How much was delivered of these days, at most; more than is little if it was landed before anybody counted bytes."""
    reach = (landed.get(delivery.isoformat()) for delivery in deliveries_of(contract, days))
    return sum(entry.get("bytes_in", delta.FEW_BYTES + 1) for entry in reach if entry)


def _as_landed(settings: Settings, contract: Contract) -> Contract:
    """The contract as one of plain records, while only files were landed: placing changes in a log costs a shuffle more."""
    files = contract.files
    if not contract.is_change_log or files is None or files.format == CHANGES:
        return contract
    is_followed = bool(read_positions(settings.table_path("bronze", contract.name)).positions)
    return contract if is_followed else replace(contract, servers=(files,))


def _refine(spark: SparkSession, task: Task) -> Done:
    contract = task.contract
    silver_was = newest_version(task.settings.table_path("silver", contract.name))
    others = [date.fromisoformat(day) for day in task.withheld if date.fromisoformat(day) not in task.days]
    bronze = read_bronze(spark, contract, task.days, without=others)
    superseded = None
    if task.is_corrected:
        bronze, superseded = split_superseded(bronze, read_corrections(spark, contract, task.days))
    replaced = _per_day(superseded) if superseded else {}
    headers = distinct_headers(bronze) if "csv" in contract.formats else []
    conformed = conform(bronze, contract, headers=headers, salt=task.salt, spread=task.spread)
    is_little = task.spread.tasks == 1 and task.bytes_in <= delta.FEW_BYTES
    with kept(conformed, few=is_little) as conformed:
        counted = count_days(conformed, task.contract)
        entries = _with_superseded(_entries(conformed, counted, task), replaced)
        landed = count_bronze(task.settings, contract, task.days)
        stamped = conformed.withColumns({"_run_id": F.lit(task.run_id), "_contract_version": F.lit(contract.version)})
        guilty = failed_gates(contract, entries, task.history, landed)
        withheld = {day: {**entries[day], VERDICT: gates} for day, gates in _settled(task, guilty).items()}
        if guilty:
            if withheld:
                _keep_attempt(spark, task, stamped, withheld)
            entries = {day: entry for day, entry in entries.items() if day not in guilty}
            good = [day for day in task.days if day.isoformat() not in guilty]
            task = replace(task, days=good, withheld=task.withheld | withheld)
            if task.days and contract.kind == "entity":
                # Versions of one key depend on each other, across deliveries: without the withheld ones all is ranked anew.
                return _together(Done({}, withheld, landed), _refine(spark, task))
            stamped = stamped.where(delta.in_days("_event_date", task.days))
        if task.days:
            aside = delta.Size(sum(entry["quarantined"] for entry in entries.values()), counted.rejected_bytes)
            _set_aside(spark, task, stamped, entries, aside, fates(conformed, superseded, contract))
            commit = Commit(task.run_id, contract.name, "silver", contract.version, entries)
            _publish(spark, task, stamped, commit, silver_was)
            _release(task, stamped, entries)
        return Done(entries, withheld, landed)


def _settled(task: Task, guilty: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Without days that something landed for while they were computed: those are computed again, not condemned."""
    if not guilty:
        return guilty
    _, now = _look(task.settings, task.contract, task.days)
    return {day: gates for day, gates in guilty.items() if now[day] == task.inputs[day]}


def _keep_attempt(spark: SparkSession, task: Task, conformed: DataFrame, withheld: Entries) -> None:
    """Put what was computed of the days that failed a gate where people can look at it and readers do not."""
    table = audit_table(task.settings, task.contract)
    delta.ensure(spark, table)
    days = [date.fromisoformat(day) for day in withheld]
    commit = Commit(task.run_id, task.contract.name, "audit", task.contract.version, withheld)
    size = delta.Size(sum(entry["rows_in"] for entry in withheld.values()), task.bytes_in)
    delta.replace_days(table, conformed.where(delta.in_days("_event_date", days)), days=days, commit=commit, size=size)


def _release(task: Task, conformed: DataFrame, entries: Entries) -> None:
    """Take days that pass now out of audit."""
    released = {day: {"inputs": entry["inputs"]} for day, entry in entries.items() if day in task.withheld}
    if released:
        days = [date.fromisoformat(day) for day in released]
        commit = Commit(task.run_id, task.contract.name, "audit", task.contract.version, released)
        table = audit_table(task.settings, task.contract)
        delta.replace_days(table, conformed.where("false"), days=days, commit=commit, size=delta.Size(0, 0))


def count_bronze(settings: Settings, contract: Contract, days: Sequence[date]) -> dict[str, int]:
    """Records Bronze holds per event day, counted in its files by another reader than the one that refines them."""
    path = settings.table_path("bronze", contract.name)
    found = delta.count_by_day(path, ["_event_date"], of="_event_date", days=days)
    return {day.isoformat(): found.get((day,), 0) for day in days}


def read_bronze(
    spark: SparkSession, contract: Contract, days: Sequence[date], *, without: Sequence[date] = ()
) -> DataFrame:
    """The Bronze rows from which these days are computed, `without` deliveries that are withheld."""
    bronze = spark.table(f"`bronze`.`{contract.name}`").drop(*NOT_READ)
    is_sweep = (F.col("_key") == ALL_KEYS) | F.col("_ends_snapshot")
    if contract.kind == "event":
        # By event day alone: what came while the contract allowed more lateness must not get lost. Statistics prune the files.
        return bronze.where(delta.in_days("_event_date", days))
    own = bronze.where(delta.in_days("_delivery_date", days))
    if contract.kind == "reference":
        return own
    if contract.is_change_log and not own.where(is_sweep).isEmpty():
        return bronze.where(f"not ({delta.in_days('_delivery_date', without)})")
    silver = spark.table(f"`silver`.`{contract.name}`").where(delta.in_days("_delivery_date", days))
    touched = own.select("_key").union(silver.select("_key"))
    if contract.is_change_log:
        # With the entity whose row a snapshot happened to end with.
        touched = touched.union(bronze.where(is_sweep).select("_key"))
    history = bronze.where(f"not ({delta.in_days('_delivery_date', [*days, *without])})").join(
        F.broadcast(touched.distinct()), "_key", "left_semi"
    )
    return own.unionByName(history.select(*own.columns))


def read_corrections(spark: SparkSession, contract: Contract, days: Sequence[date]) -> DataFrame | None:
    """Corrections that belong to other days than these, where they may stand in for a record of these: they may correct the day."""
    if contract.kind != "event":
        return None
    bronze = spark.table(f"`bronze`.`{contract.name}`").where(is_correction())
    near = bronze.where(delta.in_days("_delivery_date", deliveries_of(contract, days)))
    return near.where(f"not ({delta.in_days('_event_date', days)})").drop(*NOT_READ)


def distinct_headers(bronze: DataFrame) -> list[str | None]:
    """The headers of the CSV files these rows came in; null stands for rows that came another way."""
    found = {row["_header"] for row in bronze.select("_header").distinct().collect()}
    return sorted(found, key=lambda header: header or "")


def _entries(conformed: DataFrame, counted: Counts, task: Task) -> Entries:
    """The ledger entry of each day, made before anything is written."""
    profiles = profile_days(prompt(conformed, counted.lag), task.contract)
    return {
        d: {**counted.days.get(d, NOTHING), "profile": profiles.get(d, {}), "inputs": task.inputs[d]}
        for d in (day.isoformat() for day in task.days)
    }


def _per_day(rows: DataFrame) -> dict[str, int]:
    counted = rows.groupBy("_event_date").count().collect()
    return {row["_event_date"].isoformat(): row["count"] for row in counted}


def _with_superseded(entries: Entries, replaced: dict[str, int]) -> Entries:
    """Entries in which a record that was corrected counts as a duplicate of its correction."""
    return {
        day: {**e, "rows_in": e["rows_in"] + n, "duplicates": e["duplicates"] + n, "corrected": n}
        if (n := replaced.get(day, 0))
        else e
        for day, e in entries.items()
    }


def _set_aside(
    spark: SparkSession, task: Task, conformed: DataFrame, entries: Entries, aside: delta.Size, fate: DataFrame
) -> None:
    """Replace these days in quarantine. Days that never had a rejected row and have none now need no commit."""
    table = quarantine_table(task.settings, task.contract)
    in_days = delta.in_days("_event_date", task.days)
    held = delta.size_of(table, task.days)
    size = held + aside
    if size.rows:
        open_rows = rejected(conformed).where(in_days).withColumn("_quarantined_at", F.current_timestamp())
        before = spark.table(table.qualified).where(in_days)
        rows = with_resolved(open_rows, before, fate) if held.rows else as_open(open_rows)

        def at_hand() -> DataFrame:
            return as_open(open_rows) if _are_all_rejected(table, task.days, open_rows) else rows

        commit = Commit(task.run_id, task.contract.name, "quarantine", task.contract.version, entries)
        delta.replace_days(table, rows, days=task.days, commit=commit, size=size, at_hand=at_hand)


def _are_all_rejected(table: delta.Table, days: Sequence[date], rejected: DataFrame) -> bool:
    """Whether all that was in quarantine is rejected again. It mostly is, and to find what became of the others takes joins."""
    before = delta.count_by_day(table.path, PLACE, of="_event_date", days=days)
    return not before or before.keys() <= {tuple(row) for row in rejected.select(*PLACE).collect()}


def _publish(spark: SparkSession, task: Task, conformed: DataFrame, commit: Commit, silver_was: int | None) -> None:
    table, rows = silver_table(task.settings, task.contract), accepted(conformed)
    size = delta.Size(sum(entry["accepted"] for entry in commit.days.values()), task.bytes_in)
    if task.contract.kind == "event":
        delta.replace_days(table, rows, days=task.days, commit=commit, size=size)
        return
    size += delta.size_of(table)
    if task.contract.kind == "reference":
        _publish_reference(spark, task.contract, table, rows, commit, size)
    else:
        touched = conformed.select("_key").where("_key is not null").distinct()
        # A key may be gone from a delivery that came again, and so be among no rows at all.
        kept = spark.table(table.qualified).where(f"not ({delta.in_days('_delivery_date', task.days)})")
        others = kept.join(F.broadcast(touched), "_key", "left_anti")
        sweeps = conformed.where("_change.is_sweep") if task.contract.is_change_log else None
        versions = timeline(rows, task.contract, sweeps).select(*table.columns)
        together = versions.unionByName(others.select(*table.columns))
        # What another delivery has told of the same entities meanwhile is in Silver, and not among these rows.
        delta.replace_all(table, together, commit=commit, size=size, since=silver_was)


def _publish_reference(
    spark: SparkSession, contract: Contract, table: delta.Table, rows: DataFrame, commit: Commit, size: delta.Size
) -> None:
    """The latest complete delivery wins, unless it is suspiciously small; an older day never replaces a newer one."""
    latest = max((d for d, entry in commit.days.items() if entry["accepted"]), default=None)
    held = (
        spark.table(table.qualified).agg(F.count(F.lit(1)).alias("rows"), F.max("_delivery_date").alias("day")).first()
    )
    rows_held, day_held = (held["rows"], held["day"]) if held else (0, None)
    if latest is None:
        delta.replace_all(table, spark.table(table.qualified), commit=commit, size=size)
        return
    is_newest = not day_held or day_held.isoformat() <= latest
    arriving = commit.days[latest]["accepted"]
    if is_newest and arriving < contract.min_keep * rows_held:
        raise LakeError(
            f"{contract.name}: the delivery of {latest} has {arriving} rows, the last one {rows_held}. The contract accepts no less than "
            f"{contract.min_keep:.0%}. If the shrinkage is right, lower minKeep in {contract.file.name} for this delivery."
        )
    # Looked up again by the write itself, in its own transaction: a newer delivery may have been published meanwhile.
    newer = spark.table(table.qualified).where(F.col("_delivery_date") > F.lit(latest).cast("date"))
    arrived = rows.where(F.col("_event_date") == F.lit(latest)).select(*table.columns)
    unless_newer = arrived.join(newer.select("_delivery_date").limit(1).hint("broadcast"), F.lit(True), "left_anti")
    delta.replace_all(table, unless_newer.unionByName(newer.select(*table.columns)), commit=commit, size=size)
