"""What our own broker is made with."""

from uuid import UUID

import pytest

from stream_assets.services import broker


def test_no_cluster_is_named_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """One identifier in 64 begins with a dash, and Kafka's storage tool would refuse to format the broker's folder."""
    made = iter((UUID(bytes=b"\xf8" + bytes(15)), UUID(bytes=bytes(16))))
    monkeypatch.setattr(broker, "uuid4", lambda: next(made))
    assert broker._cluster_id() == 22 * "A"
    assert next(made, None) is None
