"""Puts messages into topics, at a rate: what the live sample uses, and any test of a stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, Producer

from stream_assets.errors import AwayError
from stream_assets.services.addresses import KafkaAddress

REPORT_EVERY_S = 1.0
PATIENCE_S = 60
"""A broker that takes nothing for so long has failed; its client would go on for five minutes."""


@dataclass(frozen=True)
class Published:
    """How far publishing is."""

    messages: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / max(self.seconds, 1e-9)


def publish(
    address: KafkaAddress,
    messages: Iterable[tuple[str, str | None, bytes | None]],
    *,
    rate: float | None = None,
    seconds: float | None = None,
    report: Callable[[Published], None] = lambda _: None,
) -> Published:
    """Publish (topic, key, value) messages, at most `rate` a second and for at most `seconds`; returns when Kafka has all."""
    producer = _producer(address)
    failed: list[KafkaError] = []
    started, told, sent = time.monotonic(), 0.0, 0
    for topic, key, value in messages:
        passed = time.monotonic() - started
        if (seconds is not None and passed > seconds) or failed:
            break
        if rate and sent > passed * rate:
            producer.poll((sent - passed * rate) / rate)
        _produce(producer, failed, topic, key=key, value=value)
        sent += 1
        if passed - told > REPORT_EVERY_S:
            told = passed
            report(Published(sent, passed))
    _flush(producer, address, failed)
    return Published(sent, time.monotonic() - started)


def end_keys(address: KafkaAddress, topic: str, keys: Iterable[tuple[int, bytes]]) -> int:
    """Publish a message without a value for each (partition, key): compaction then removes what was told under the key.

    To the partition it was told in, and not to the one our client would choose: other clients choose otherwise.
    """
    producer, failed, sent = _producer(address), list[KafkaError](), 0
    for partition, key in keys:
        _produce(producer, failed, topic, key=key, value=None, partition=partition)
        sent += 1
    _flush(producer, address, failed)
    return sent


def _producer(address: KafkaAddress) -> Producer:
    safe = {"acks": "all", "enable.idempotence": "true", "message.timeout.ms": str(PATIENCE_S * 1000)}
    return Producer({**address.for_clients(), **safe, "linger.ms": "20", "log_level": "0"})


def _flush(producer: Producer, address: KafkaAddress, failed: Sequence[KafkaError]) -> None:
    waiting = producer.flush(PATIENCE_S)
    if failed or waiting:
        reason = failed[0].str() if failed else f"{waiting:,} messages were not taken within a minute"
        raise AwayError(
            f"Kafka at {address.bootstrap} did not take every message: {reason}. See `stream services status`."
        )


def _produce(producer: Producer, failed: list[KafkaError], topic: str, **message: Any) -> None:
    def note(error: KafkaError | None, _: object) -> None:
        if error:
            failed.append(error)

    while True:
        try:
            producer.produce(topic, **message, on_delivery=note)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
