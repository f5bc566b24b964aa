"""The retail world: a deterministic generator of realistic, imperfect deliveries, with an answer key.

`write_sample` fills a landing zone and returns its `Manifest`. No Spark and no Dagster here: numpy and Arrow make the
records, so that a year of data takes about a minute.
"""

from stream_assets.sample.manifest import Injected, Manifest, Totals, read_manifest
from stream_assets.sample.write import write_sample

__all__ = ["Injected", "Manifest", "Totals", "read_manifest", "write_sample"]
