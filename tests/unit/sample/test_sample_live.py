"""The sample as messages: sound JSON but for the faults, in order of arrival, the last one now."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

from stream_assets.sample.live import LIVE, Message, live_messages

NOW = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)


def messages(*, faults: bool, seed: int = 7) -> list[Message]:
    return list(live_messages(days=1, ending=NOW, scale=0.05, seed=seed, faults=faults))


def test_without_faults_every_message_can_be_read() -> None:
    """Every dataset is there, and product names with quotes are written as JSON wants them."""
    made = messages(faults=False)
    assert set(Counter(m.dataset for m in made)) == set(LIVE)
    records = [json.loads(m.value) for m in made]
    assert all(m.key for m in made)
    assert any('"' in record.get("product_name", "") for record in records)


def test_the_last_event_happens_now_and_none_later() -> None:
    moments = [
        datetime.fromisoformat(json.loads(m.value)["timestamp"])
        for m in messages(faults=False)
        if m.dataset == "orders"
    ]
    assert NOW - timedelta(days=1) <= min(moments) <= max(moments) <= NOW


def test_the_same_arguments_give_the_same_messages() -> None:
    assert messages(faults=True) == messages(faults=True)
    assert messages(faults=True) != messages(faults=True, seed=8)


def test_with_faults_some_messages_have_no_readable_key() -> None:
    assert any(m.key is None for m in messages(faults=True))
