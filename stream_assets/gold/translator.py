"""How dbt nodes look in Dagster: keys, groups, owners, kinds, tags and descriptions."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster_dbt import DagsterDbtTranslator, DagsterDbtTranslatorSettings

from stream_assets.keys import asset_key


class GoldTranslator(DagsterDbtTranslator):
    """Models are `gold/<model>`, sources are the Silver assets they come from."""

    def __init__(self) -> None:
        super().__init__(DagsterDbtTranslatorSettings(enable_asset_checks=True))

    def get_asset_key(self, dbt_resource_props: Mapping[str, Any]) -> dg.AssetKey:
        """`silver/orders` for a source, `gold/fct_orders` for a model."""
        if dbt_resource_props["resource_type"] == "source":
            return asset_key(dbt_resource_props["source_name"], dbt_resource_props["name"])
        return asset_key("gold", dbt_resource_props["name"])

    def get_group_name(self, dbt_resource_props: Mapping[str, Any]) -> str | None:
        """Everything dbt makes is Gold."""
        return "gold"

    def get_description(self, dbt_resource_props: Mapping[str, Any]) -> str:
        """The model's own description, which states its grain; the SQL is in the metadata."""
        return dbt_resource_props.get("description") or dbt_resource_props["name"]

    def get_owners(self, dbt_resource_props: Mapping[str, Any]) -> list[str] | None:
        """The dbt group that owns the model, as a team."""
        group = dbt_resource_props.get("group") or dbt_resource_props.get("config", {}).get("group")
        return [f"team:{group}"] if group else None

    def get_tags(self, dbt_resource_props: Mapping[str, Any]) -> dict[str, str]:
        """The kind of model, by its prefix."""
        prefixes = {"stg": "staging", "int": "intermediate", "dim": "dimension", "fct": "fact", "rpt": "report"}
        stage = prefixes.get(dbt_resource_props["name"].split("_")[0])
        return {"stage": stage} if stage else {}
