"""What a certificate says of topics: until when each keeps a person's messages, and why."""

import pytest

from stream_assets.ops.erase.topics import OnTopic, remaining

DAY_MS = 86_400_000
KEYS = ((0, b"person-0042"),)
DELETED = {"cleanup.policy": "delete", "retention.ms": str(7 * DAY_MS)}
FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1"}
COMPACTED = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * DAY_MS)}
BOTH = {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS)}


@pytest.mark.parametrize(
    ("config", "ended", "words"),
    [
        (DELETED, {}, "which Kafka keeps for 7 days; landing drops them"),
        (FOR_EVER, {}, "for ever, by its retention"),
        (COMPACTED, {}, "by its producer, or by --tombstones"),
        (COMPACTED, {"t": 1}, "7 days after they came at the earliest"),
        (BOTH, {}, "for 1 days"),
        (BOTH, {"t": 1}, "when it next compacts the topic; landing"),
    ],
)
def test_what_remains_and_until_when(config: dict[str, str], ended: dict[str, int], words: str) -> None:
    (part,) = remaining([OnTopic("t", 3, KEYS, config)], ended)
    assert words in part["reason"]
    assert (part["topics"], part["messages"]) == (["t"], 3)


def test_only_keys_of_their_own_on_a_compacted_topic_are_ended() -> None:
    """A message without a value means nothing on other topics, and would end what is told of others under a shared key."""
    assert OnTopic("t", 3, KEYS, COMPACTED).can_end
    assert OnTopic("t", 3, KEYS, BOTH).can_end
    assert not OnTopic("t", 3, KEYS, DELETED).can_end
    assert not OnTopic("t", 3, (), COMPACTED).can_end


def test_keys_are_not_shown() -> None:
    """They name the person: an error that quotes what was found must not."""
    assert "person-0042" not in repr(OnTopic("t", 3, KEYS, COMPACTED))
