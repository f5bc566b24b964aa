"""Puts messages into topics, at a rate: what the live sample uses, and any test of a stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, Producer

from stream_assets.errors import ServiceError
from stream_assets.services.addresses import KafkaAddress

REPORT_EVERY_S = 1.0


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
    producer = Producer(
        {**address.for_clients(), "acks": "all", "enable.idempotence": "true", "linger.ms": "20", "log_level": "0"}
    )
    failed: list[KafkaError] = []
    started, told, sent = time.monotonic(), 0.0, 0
    for topic, key, value in messages:
        passed = time.monotonic() - started
        if (seconds is not None and passed > seconds) or failed:
            break
        if rate and sent > passed * rate:
            producer.poll((sent - passed * rate) / rate)
        _produce(producer, topic, key, value, failed)
        sent += 1
        if passed - told > REPORT_EVERY_S:
            told = passed
            report(Published(sent, passed))
    waiting = producer.flush(60)
    if failed or waiting:
        reason = failed[0].str() if failed else f"{waiting:,} messages were not taken within a minute"
        raise ServiceError(
            f"Kafka at {address.bootstrap} did not take every message: {reason}. See `stream services status`."
        )
    return Published(sent, time.monotonic() - started)


def _produce(producer: Producer, topic: str, key: str | None, value: bytes | None, failed: list[KafkaError]) -> None:
    def note(error: KafkaError | None, _: object) -> None:
        if error:
            failed.append(error)

    while True:
        try:
            producer.produce(topic, key=key, value=value, on_delivery=note)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
