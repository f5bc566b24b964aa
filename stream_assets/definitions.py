"""The door: what Dagster loads."""

from stream_assets.build import build_defs

defs = build_defs()
