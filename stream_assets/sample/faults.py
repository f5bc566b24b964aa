"""The catalogue of faults: how each damages a record, and what a correct lake makes of it.

Expectations name every rule a record breaks. A damaged record breaks a record rule alone, a null breaks `required`
alone, a value of the wrong type breaks `type` alone. Which records are damaged is decided in `plan`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from stream_assets.sample.formats import Format, Record, Row
from stream_assets.sample.manifest import Expect

ACCEPTED: Expect = {"accepted": True}
ORPHAN: Expect = {"check": "orphan"}
DUPLICATE: Expect = {"duplicate": True}

EMOJI = "Happy birthday \U0001f382\U0001f469\u200d\U0001f469\u200d\U0001f467!"
RIGHT_TO_LEFT = "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627"
COMBINING = "Cre\u0300me bru\u0302le\u0301e, n\u0303o\u0308 nuts"

_ABSENT = object()


@dataclass(frozen=True)
class Fault:
    """A way to damage a record.

    Attributes:
        name: Kind of fault.
        column: Column at fault, or None when the whole record is damaged and nothing in it can be read.
        damage: Returns the damaged record.
        expect: What has to become of it.
    """

    name: str
    column: str | None
    damage: Callable[[Record, Format], Record]
    expect: Expect


def _quarantine(*rules: str) -> Expect:
    return {"quarantine": sorted(rules)}


def _damaged(name: str, rule: str, damage: Callable[[bytes], bytes]) -> Fault:
    return Fault(name, None, lambda record, _: damage(record), _quarantine(f"validity__record__{rule}"))


def _edited(name: str, column: str, edit: Callable[[Row], None], expect: Expect) -> Fault:
    def damage(record: Record, form: Format) -> Record:
        row = form.decode(record)
        edit(row)
        return form.encode(record, row)

    return Fault(name, column, damage, expect)


def _value(name: str, column: str, value: Any, expect: Expect) -> Fault:
    def edit(row: Row) -> None:
        if value is _ABSENT:
            del row[column]
        else:
            row[column] = value(row) if callable(value) else value

    return _edited(name, column, edit, expect)


def _breaks(name: str, column: str, value: Any, rule: str, *more: str) -> Fault:
    family = "completeness" if rule == "required" else "validity"
    return _value(name, column, value, _quarantine(f"{family}__{column}__{rule}", *more))


def _orphan(dataset: str, column: str, value: str) -> Fault:
    return _value(f"orphan_{dataset}", column, value, ORPHAN)


def _out_of_window(column: str) -> tuple[Fault, ...]:
    return (
        _breaks("timestamp_1970", column, "1970-01-01T00:00:00.000Z", "window"),
        _breaks("timestamp_2099", column, "2099-12-31T23:59:59.000Z", "window"),
    )


def _damaged_json(first: str) -> tuple[Fault, ...]:
    """Return what can happen to a line of JSON; `first` is a required column of text that is not the key."""
    opening = f'"{first}":"'.encode()

    def repeat_key(line: bytes) -> bytes:
        closing = b"}}" if line.endswith(b"}}") else b"}"
        return line.removesuffix(closing) + f',"{first}":"again"'.encode() + closing

    return (
        _damaged("truncated_json", "malformed", lambda line: line[: len(line) * 2 // 3]),
        _damaged("trailing_text", "malformed", lambda line: line + b" and more"),
        _damaged("two_documents", "malformed", lambda line: line + b" " + line),
        _damaged("top_level_array", "malformed", lambda line: b"[" + line + b"]"),
        _damaged("repeated_key", "repeated_key", repeat_key),
        _damaged("empty_line", "empty", lambda _: b""),
        # 0xC3 announces a two-byte character and 0x28 cannot end one.
        _damaged("invalid_utf8", "encoding", lambda line: line.replace(opening, opening + b"\xc3\x28", 1)),
    )


def _damaged_csv(text: str) -> tuple[Fault, ...]:
    """Return what can happen to a line of CSV; `text` is a word every line holds."""
    return (
        _damaged("too_few_fields", "malformed", lambda line: line.rsplit(b",", 1)[0]),
        _damaged("too_many_fields", "malformed", lambda line: line + b",surplus"),
        _damaged("invalid_utf8", "encoding", lambda line: line.replace(text.encode(), text.encode() + b"\xc3\x28", 1)),
    )


ORDERS = (
    *_damaged_json("customer_id"),
    _breaks("text_for_integer", "total_cents", "abc", "type"),
    _breaks("fractional_integer", "discount_cents", 12.5, "type"),
    _breaks("unreadable_timestamp", "ordered_at", "yesterday", "type"),
    _breaks("null_key", "order_id", None, "required"),
    _breaks("null_required", "customer_id", None, "required"),
    _breaks("absent_required", "status", _ABSENT, "required"),
    _breaks("null_event_time", "ordered_at", None, "required"),
    _breaks("negative_amount", "total_cents", -500, "range", "consistency__record__discount_within_total"),
    _breaks("amount_above_maximum", "total_cents", 10_000_001, "range"),
    _breaks("negative_discount", "discount_cents", -1, "range"),
    _breaks("unknown_status", "status", "teleported", "allowed"),
    _breaks("unknown_channel", "channel", "carrier_pigeon", "allowed"),
    _breaks("unknown_currency", "currency", "usd", "pattern"),
    _breaks("invalid_email", "customer_email", "no.at.sign.example.com", "format"),
    _breaks("too_long", "note", "x" * 5000, "length"),
    _value("long_but_legal", "note", "x" * 1900, ACCEPTED),
    _value("unicode_emoji", "note", EMOJI, ACCEPTED),
    _value("unicode_right_to_left", "note", RIGHT_TO_LEFT, ACCEPTED),
    _value("unicode_combining", "note", COMBINING, ACCEPTED),
    _value(
        "discount_above_total",
        "discount_cents",
        lambda row: row["total_cents"] + 100,
        _quarantine("consistency__record__discount_within_total"),
    ),
    _orphan("customer", "customer_id", "cus_nobody"),
    _orphan("store", "store_id", "sto_nowhere"),
    *_out_of_window("ordered_at"),
)

ORDER_ITEMS = (
    *_damaged_csv("prd_"),
    _breaks("text_for_integer", "quantity", "abc", "type"),
    _breaks("fractional_integer", "unit_price_cents", "12.345", "type"),
    _breaks("null_required", "product_id", "", "required"),
    _breaks("quantity_below_minimum", "quantity", 0, "range"),
    _breaks("quantity_above_maximum", "quantity", 1001, "range"),
    _breaks("negative_amount", "unit_price_cents", -1, "range"),
    _breaks("amount_above_maximum", "unit_price_cents", 10_000_001, "range"),
    _breaks("unknown_category", "category", "weapons", "allowed"),
    _value("unicode_right_to_left", "product_name", RIGHT_TO_LEFT, ACCEPTED),
    _orphan("order", "order_id", "ord_nowhere"),
    *_out_of_window("ordered_at"),
)

PAYMENTS = (
    *_damaged_json("customer_id"),
    _breaks("text_for_number", "amount", "abc", "type"),
    _breaks("three_decimals", "amount", 19.995, "type"),
    _breaks("null_required", "amount", None, "required"),
    _breaks("absent_required", "method", _ABSENT, "required"),
    _breaks("negative_amount", "amount", -0.01, "range"),
    _breaks("unknown_status", "status", "lost", "allowed"),
    _breaks("unknown_method", "method", "barter", "allowed"),
    _breaks("unknown_country", "country", "Spain", "pattern"),
    _value("unicode_combining", "card_holder", COMBINING, ACCEPTED),
    _orphan("order", "order_id", "ord_nowhere"),
    _orphan("customer", "customer_id", "cus_nobody"),
    *_out_of_window("paid_at"),
)

WEB_EVENTS = (
    *_damaged_json("session_id"),
    _breaks("null_required", "session_id", None, "required"),
    _breaks("absent_required", "page_url", _ABSENT, "required"),
    _breaks("unknown_event", "event_name", "teleport", "allowed"),
    _breaks("unknown_device", "device", "toaster", "allowed"),
    _breaks("unknown_country", "country", "xx", "pattern"),
    _breaks("too_long", "page_url", "https://shop.example.com/" + "x" * 5000, "length"),
    _value("long_but_legal", "page_url", "https://shop.example.com/" + "x" * 1875, ACCEPTED),
    _value("unicode_emoji", "page_url", "https://shop.example.com/\U0001f381", ACCEPTED),
    *_out_of_window("occurred_at"),
)

CUSTOMERS = (
    *_damaged_json("full_name"),
    _breaks("text_for_boolean", "is_active", "maybe", "type"),
    _breaks("null_required", "full_name", None, "required"),
    _breaks("absent_required", "email", _ABSENT, "required"),
    _breaks("invalid_email", "email", "sparrowhawk@@example", "format"),
    _breaks("unknown_segment", "segment", "royalty", "allowed"),
    _breaks("unknown_country", "country", "us", "pattern"),
    _value("unicode_right_to_left", "full_name", RIGHT_TO_LEFT, ACCEPTED),
    *_out_of_window("updated_at"),
)

STORES = (
    *_damaged_csv("sto_"),
    _breaks("text_for_integer", "square_meters", "abc", "type"),
    _breaks("unreadable_date", "opened_on", "2024-13-45", "type"),
    _breaks("null_required", "store_name", "", "required"),
    _breaks("area_below_minimum", "square_meters", 0, "range"),
    _breaks("unknown_region", "region", "upwards", "allowed"),
    _breaks("invalid_email", "manager_email", "manager at example.com", "format"),
)

CAMPAIGNS = (
    _breaks("null_required", "campaign_name", None, "required"),
    _breaks("negative_amount", "budget_cents", -1, "range"),
    _breaks("unknown_channel", "channel", "skywriting", "allowed"),
    _value(
        "ended_before_start",
        "ended_on",
        lambda row: row["started_on"] - timedelta(days=1),
        _quarantine("consistency__record__ended_after_start"),
    ),
)
