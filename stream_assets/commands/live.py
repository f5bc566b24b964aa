"""`stream sample --live`: the sample's events as messages on their topics."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from rich.console import Console

from stream_assets.contracts.load import load_contracts
from stream_assets.sample.live import LIVE, live_messages
from stream_assets.services.addresses import kafka
from stream_assets.settings import Settings
from stream_assets.sources.publish import Published, publish
from stream_assets.sources.topics import ensure_topic, topic_of

console = Console(highlight=False, file=sys.stdout)


def publish_sample(
    settings: Settings, *, days: int, scale: float, seed: int, faults: bool, rate: float | None, seconds: float | None
) -> Published:
    """Make the topics, if need be, and publish the sample's events to them. The last event of the days happens now."""
    contracts, address = load_contracts(settings.contracts), kafka(settings)
    topics = {}
    for name in LIVE:
        server = next(server for server in contracts[name].live_servers if server.kind == "kafka")
        topics[name] = topic_of(settings, contracts[name], server)
        ensure_topic(address, topics[name])
    messages = live_messages(days=days, ending=datetime.now(UTC), scale=scale, seed=seed, faults=faults)
    with Console(stderr=True).status("Making messages …") as status:
        done = publish(
            address,
            ((topics[m.dataset].name, m.key, m.value) for m in messages),
            rate=rate,
            seconds=seconds,
            report=lambda so_far: status.update(f"{so_far.messages:,} messages, {so_far.rate:,.0f} a second"),
        )
    console.print(
        f"Published {done.messages:,} messages in {done.seconds:.1f} s ({done.rate:,.0f} a second) to "
        f"{', '.join(topic.name for topic in topics.values())}.",
        soft_wrap=True,
    )
    return done
