"""Which assets a person asked for, and which of them can be made: a dataset by its name, or a selection of Dagster's."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from typing import Any

import dagster as dg

from stream_assets.engine.session import tables_in
from stream_assets.errors import StreamError
from stream_assets.settings import Settings

Keys = set[dg.AssetKey]


def choose_assets(graph: Any, datasets: Collection[str], select: str | None) -> Keys:
    """Everything; a dataset with all that is made of it, by its name; or what Dagster's selection says."""
    if select is None:
        return set(graph.materializable_asset_keys)
    selection = f'key:"bronze/{select}"+' if select in datasets else select
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            found = dg.AssetSelection.from_string(selection).resolve(graph) & graph.materializable_asset_keys
    except dg.DagsterError as error:
        raise _strange(select, datasets) from error
    if not found:
        raise _strange(select, datasets)
    return set(found)


def _strange(select: str, datasets: Collection[str]) -> StreamError:
    return StreamError(
        f"--select {select} matches nothing. Give the name of a dataset ({', '.join(sorted(datasets))}), or a selection of Dagster's such as "
        """'key:"silver/orders"+' or 'group:bronze'."""
    )


def unmade_silver(settings: Settings, graph: Any, wanted: Keys) -> set[str]:
    """The datasets that wanted Gold is made of, but whose Silver is neither there nor wanted."""
    gold = {key for key in wanted if key.path[0] == "gold"}
    above = dg.AssetSelection.assets(*gold).upstream().resolve(graph) if gold else set()
    read = {key.path[1] for key in above - wanted if key.path[0] == "silver"}
    return read - set(tables_in(settings, "silver")) if read else set()


def unaffected_gold(graph: Any, wanted: Keys, failed: Iterable[str]) -> Keys:
    """The Gold tables among these that are made of no failed dataset."""
    bad = dg.AssetSelection.assets(*[dg.AssetKey(["silver", name]) for name in failed]).downstream().resolve(graph)
    return {key for key in wanted - bad if key.path[0] == "gold"}


def only_landed(graph: Any, wanted: Keys) -> list[str]:
    """The datasets that are wanted up to Bronze, and no further."""
    silver = {key.path[1] for key in wanted if key.path[0] == "silver"}
    landed = {key.path[1] for key in wanted if key.path[0] == "bronze"}
    return sorted(name for name in landed - silver if dg.AssetKey(["silver", name]) in graph.materializable_asset_keys)
