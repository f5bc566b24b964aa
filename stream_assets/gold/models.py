"""What a dbt model is made of: the tables it reads, whether it has days, and a fingerprint of its code. Pure functions.

A commit of Gold records the code and the versions of what it read, so that a plan can tell which days are stale.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stream_assets.engine.log import newest_version
from stream_assets.gold.selection import views_read_by
from stream_assets.settings import Settings

_SHAPE = ("materialized", "incremental_strategy", "partition_by", "unique_key")
"""Settings of a model that change its table without a word of its SQL."""


@dataclass(frozen=True)
class Model:
    """A table of Gold."""

    name: str
    code: str
    """Fingerprint of its SQL, of the views it reads and of the project's macros they use."""
    parents: frozenset[str]
    """Tables it reads, views looked through: `silver/orders`, `gold/fct_orders`."""
    day: str | None
    """Its day column; none for a table that is replaced as a whole."""

    @property
    def asset(self) -> str:
        """Its asset."""
        return f"gold/{self.name}"


def tables_of(manifest: Mapping[str, Any]) -> dict[str, Model]:
    """Every model that is a table, by asset, parents first."""
    found: dict[str, Model] = {}
    for uid in _in_order(manifest):
        node = manifest["nodes"][uid]
        if node["config"]["materialized"] != "view":
            sources = [uid, *sorted(views_read_by(manifest, [uid]))]
            parents = {p for source in sources for p in _parents(manifest, source)}
            code = hashlib.sha256("".join(_code(manifest, source) for source in sources).encode()).hexdigest()[:12]
            model = Model(node["name"], code, frozenset(parents), _day(node["config"]))
            found[model.asset] = model
    return found


def unread_tables(manifest: Mapping[str, Any]) -> set[str]:
    """Tables of Silver and Gold that no model and no exposure of the project reads.

    Who reads Gold from outside is known by exposures alone: in a project without any, every table of Gold may be read.
    """
    exposures = manifest.get("exposures", {}).values()
    models = [node for uid, node in manifest["nodes"].items() if uid.startswith("model.")]
    read = {uid for node in (*models, *exposures) for uid in node["depends_on"]["nodes"]}
    silver = {f"{s['source_name']}/{s['name']}" for uid, s in manifest["sources"].items() if uid not in read}
    tables = [node for node in models if node["config"]["materialized"] != "view" and node["unique_id"] not in read]
    return silver | {f"gold/{node['name']}" for node in tables if exposures}


def built_from(settings: Settings, models: Mapping[str, Model]) -> tuple[dict[str, str], dict[str, int]]:
    """What a build that begins now is made of: the code of each model, and the version of each table it may read."""
    read = sorted({parent for model in models.values() for parent in model.parents})
    versions = {asset: newest_version(f"{settings.lake}/{asset}") for asset in read}
    return {m.name: m.code for m in models.values()}, {a: v for a, v in versions.items() if v is not None}


def _in_order(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Models, each after those it reads."""
    done: set[str] = set()

    def visit(uid: str) -> Iterator[str]:
        if uid in done or not uid.startswith("model."):
            return
        done.add(uid)
        for parent in manifest["nodes"][uid]["depends_on"]["nodes"]:
            yield from visit(parent)
        yield uid

    for uid in sorted(manifest["nodes"]):
        yield from visit(uid)


def _parents(manifest: Mapping[str, Any], uid: str) -> Iterator[str]:
    for parent in manifest["nodes"][uid]["depends_on"]["nodes"]:
        if source := manifest["sources"].get(parent):
            yield f"{source['source_name']}/{source['name']}"
        elif manifest["nodes"][parent]["config"]["materialized"] != "view":
            yield f"gold/{manifest['nodes'][parent]['name']}"


def _code(manifest: Mapping[str, Any], uid: str) -> str:
    node = manifest["nodes"][uid]
    shape = json.dumps({name: node["config"].get(name) for name in _SHAPE}, sort_keys=True)
    return node.get("raw_code", "") + shape + "".join(_macros(manifest, node))


def _macros(manifest: Mapping[str, Any], node: Mapping[str, Any]) -> list[str]:
    """The project's own macros that the SQL names. Hooks and tests do not make rows."""
    used = [manifest["macros"][uid] for uid in node["depends_on"]["macros"] if uid in manifest["macros"]]
    own = [m for m in used if m["package_name"] == node["package_name"] and m["name"] in node.get("raw_code", "")]
    return sorted(m["macro_sql"] for m in own)


def _day(config: Mapping[str, Any]) -> str | None:
    if config["materialized"] != "incremental" or config.get("incremental_strategy") != "replace_where":
        return None
    day = config.get("partition_by")
    return day if isinstance(day, str) or day is None else day[0]
