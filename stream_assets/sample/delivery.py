"""One delivery of one dataset: the content of its file, and what a correct lake makes of it."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_assets.sample import faults as catalogue
from stream_assets.sample.batch import EVENT_DAY, IS_UPDATE, contract_columns, marked
from stream_assets.sample.faults import DUPLICATE, Fault
from stream_assets.sample.formats import Csv, Envelope, Format, JsonLines, ParquetRows, Record
from stream_assets.sample.manifest import Expect, Injected, Ledger
from stream_assets.sample.plan import Plan, apply_drift, drift_of, is_reordered, keeps_shape, plan_faults
from stream_assets.sample.world import World


@dataclass(frozen=True)
class Dataset:
    """How a dataset is delivered; `envelope_moment` is the column that dates an event's envelope, if it has any."""

    name: str
    file_name: str
    key: str
    event_time: str | None
    faults: tuple[Fault, ...]
    envelope_moment: str | None = None


DATASETS = (
    Dataset("customers", "part-0.jsonl", "customer_id", "updated_at", catalogue.CUSTOMERS),
    Dataset("stores", "part-0.csv", "store_id", None, catalogue.STORES),
    Dataset("campaigns", "part-0.parquet", "campaign_id", None, catalogue.CAMPAIGNS),
    Dataset("orders", "part-0.jsonl", "order_id", "ordered_at", catalogue.ORDERS, "updated_at"),
    Dataset("order_items", "part-0.csv.gz", "order_item_id", "ordered_at", catalogue.ORDER_ITEMS),
    Dataset("payments", "part-0.jsonl.gz", "payment_id", "paid_at", catalogue.PAYMENTS, "updated_at"),
    Dataset("web_events", "part-0.jsonl.zst", "web_event_id", "occurred_at", catalogue.WEB_EVENTS, "occurred_at"),
)


# Place of a fault that is in every record.
WHOLE_FILE = -1


@dataclass(frozen=True)
class Copy:
    """A record that is delivered once more."""

    record: Record
    key: str
    event_day: int


@dataclass(frozen=True)
class Mark:
    """A fault at a place among the records and copies, before these have their place in the file."""

    place: int
    fault: str
    column: str | None
    key: str | None
    event_day: int
    expect: Expect


@dataclass(frozen=True)
class Delivery:
    """One delivery in the making; `again` are records of the previous one that it holds once more."""

    world: World
    dataset: Dataset
    day: int
    batch: pa.Table
    again: tuple[Copy, ...] = ()

    @property
    def file(self) -> str:
        """Return the path of the file in the landing zone."""
        return f"{self.dataset.name}/{self.world.iso_day(self.day)}/{self.dataset.file_name}"

    def fill(self, ledger: Ledger) -> tuple[bytes, tuple[Copy, ...]]:
        """Note in the ledger what the delivery holds.

        Returns:
            The content of the file, and the records the next delivery holds once more.
        """
        rng = self.world.generator(f"faults of {self.dataset.name}", self.day)
        batch = self._drifted(rng, ledger)
        form = self._choose_format(batch)
        records = form.render(contract_columns(batch))
        plan = self._plan(rng, batch)
        copies = [*self._copies(records, plan.repeated), *self.again]
        next_time = tuple(self._copies(records, plan.repeated_next))
        marks = [*self._damage(records, plan, form), *self._mark_copies(copies, first=len(records))]
        self._count(marks, copies, ledger)
        everything = records + [copy.record for copy in copies]
        order = _mix_in(rng, len(records), len(copies))
        self._note(marks, order, form.header_lines, ledger)
        return form.to_bytes([everything[place] for place in order.tolist()]), next_time

    def _drifted(self, rng: np.random.Generator, ledger: Ledger) -> pa.Table:
        drift = drift_of(self.dataset.name, self.day) if self.world.faults else None
        if drift is None:
            return self.batch
        kind, column = drift
        ledger.record(self._injected(Mark(WHOLE_FILE, kind, column, None, self.day, {"drift": kind}), line=None))
        return apply_drift(rng, self.batch, kind, column)

    def _choose_format(self, batch: pa.Table) -> Format:
        table = contract_columns(batch)
        if ".csv" in self.dataset.file_name:
            return Csv(table.column_names[::-1] if is_reordered(self.day) else table.column_names)
        if ".parquet" in self.dataset.file_name:
            return ParquetRows(table.schema)
        if self.dataset.envelope_moment is None:
            return JsonLines()
        rng = self.world.generator(f"envelopes of {self.dataset.name}", self.day)
        return JsonLines(Envelope(marked(batch, IS_UPDATE), self.dataset.envelope_moment, rng))

    def _plan(self, rng: np.random.Generator, batch: pa.Table) -> Plan:
        if not self.world.faults:
            return Plan()
        repeat_next = keeps_shape(self.dataset.name, self.day, has_header=".csv" in self.dataset.file_name)
        return plan_faults(rng, batch, self.dataset.faults, day=self.day, repeat_next=repeat_next)

    def _copies(self, records: list[Record], places: tuple[int, ...]) -> list[Copy]:
        keys, days = self.batch[self.dataset.key], marked(self.batch, EVENT_DAY)
        return [Copy(records[place], keys[place].as_py(), int(days[place])) for place in places]

    def _damage(self, records: list[Record], plan: Plan, form: Format) -> list[Mark]:
        """Damage the chosen records in place."""
        marks = []
        keys, days = self.batch[self.dataset.key], marked(self.batch, EVENT_DAY)
        for place, fault in plan.damaged.items():
            records[place] = fault.damage(records[place], form)
            is_readable = fault.column not in (None, self.dataset.event_time)
            key = None if fault.column in (None, self.dataset.key) else keys[place].as_py()
            event_day = int(days[place]) if is_readable else self.day
            marks.append(Mark(place, fault.name, fault.column, key, event_day, fault.expect))
        return marks

    def _mark_copies(self, copies: list[Copy], *, first: int) -> list[Mark]:
        own = len(copies) - len(self.again)
        names = ["repeated_in_delivery"] * own + ["repeated_in_next_delivery"] * len(self.again)
        return [
            Mark(place, name, None, copy.key, copy.event_day, DUPLICATE)
            for place, (name, copy) in enumerate(zip(names, copies, strict=True), start=first)
        ]

    def _count(self, marks: list[Mark], copies: list[Copy], ledger: Ledger) -> None:
        """Count rows by the day they belong to; a record whose event time is lost belongs to its delivery day."""
        days = np.append(marked(self.batch, EVENT_DAY), [copy.event_day for copy in copies]).astype(np.int64)
        for mark in marks:
            days[mark.place] = mark.event_day
        superseding = days[: self.batch.num_rows][marked(self.batch, IS_UPDATE)]
        ledger.count_rows(self.dataset.name, arrived=self._by_date(days), superseding=self._by_date(superseding))

    def _by_date(self, days: np.ndarray) -> Counter[str]:
        return Counter({self.world.iso_day(day): count for day, count in Counter(days.tolist()).items()})

    def _note(self, marks: list[Mark], order: np.ndarray, header_lines: int, ledger: Ledger) -> None:
        """Record the faults with the lines they ended up on."""
        line_of = np.argsort(order) + header_lines + 1
        for mark in sorted(marks, key=lambda mark: line_of[mark.place]):
            ledger.record(self._injected(mark, line=int(line_of[mark.place])))

    def _injected(self, mark: Mark, *, line: int | None) -> Injected:
        return Injected(
            fault=mark.fault,
            dataset=self.dataset.name,
            delivery_date=self.world.iso_day(self.day),
            file=self.file,
            line=line,
            key=mark.key,
            column=mark.column,
            event_date=self.world.iso_day(mark.event_day),
            expect=mark.expect,
        )


def _mix_in(rng: np.random.Generator, records: int, copies: int) -> np.ndarray:
    """Return the order of the file: records as they are, copies anywhere between them."""
    return np.argsort(np.append(np.arange(records), rng.uniform(0, records, copies)), kind="stable")
