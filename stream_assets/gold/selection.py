"""What Dagster asks for, in dbt's words. Pure functions on the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stream_assets.gold.sources import SOURCE

UNIT_TESTS = "resource_type:unit_test"
"""They prove the code and not the data, so they run in CI and not with every day."""


def excluded(without_contract: Iterable[str]) -> list[str]:
    """What no run builds: models above data nobody promises."""
    return [f"source:{SOURCE}.{name}+" for name in without_contract]


def is_anything_left(manifest: Mapping[str, Any], without_contract: Iterable[str]) -> bool:
    """Whether some model can be built without those sources."""
    lost: set[str] = set()
    waiting = [uid for uid, source in manifest["sources"].items() if source["name"] in set(without_contract)]
    while waiting:
        uid = waiting.pop()
        if uid not in lost:
            lost.add(uid)
            waiting += manifest["child_map"].get(uid, [])
    return any(uid not in lost for uid in _models(manifest))


def all_of_it(without_contract: Iterable[str]) -> list[str]:
    """Arguments that build the whole project and run its data tests."""
    return ["--exclude", UNIT_TESTS, *excluded(without_contract)]


def some_of_it(manifest: Mapping[str, Any], wanted: Iterable[str]) -> list[str]:
    """Arguments that build exactly these nodes, after the views they read.

    A view lives in the catalogue of the server and goes with it; the tables of the lake come back by themselves.
    """
    wanted = set(wanted)
    nodes = wanted | views_read_by(manifest, wanted)
    names = sorted(f"fqn:{'.'.join(manifest['nodes'][uid]['fqn'])}" for uid in nodes)
    return ["--exclude", UNIT_TESTS, "--indirect-selection", "empty", "--select", *names]


def views_read_by(manifest: Mapping[str, Any], wanted: Iterable[str]) -> set[str]:
    """The views these nodes read, directly or through other views."""
    found: set[str] = set()
    waiting = list(wanted)
    while waiting:
        parents = manifest["nodes"][waiting.pop()]["depends_on"]["nodes"]
        views = {uid for uid in parents if _is_view(manifest, uid)} - found
        found |= views
        waiting += views
    return found


def _is_view(manifest: Mapping[str, Any], uid: str) -> bool:
    return uid in _models(manifest) and manifest["nodes"][uid]["config"]["materialized"] == "view"


def _models(manifest: Mapping[str, Any]) -> list[str]:
    return [uid for uid, node in manifest["nodes"].items() if node["resource_type"] == "model"]
