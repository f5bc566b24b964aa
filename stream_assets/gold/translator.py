"""How dbt nodes look in Dagster: keys, groups, owners, kinds, tags and descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster_dbt import DagsterDbtTranslator, DagsterDbtTranslatorSettings, DbtProject

from stream_assets.keys import asset_key
from stream_assets.settings import Settings

STAGES = {"stg": "staging", "int": "intermediate", "dim": "dimension", "fct": "fact", "rpt": "report"}


class GoldTranslator(DagsterDbtTranslator):
    """Models are `gold/<model>`, sources are the Silver assets they come from, tests are checks of their model."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            DagsterDbtTranslatorSettings(enable_asset_checks=True, enable_duplicate_source_asset_keys=True)
        )
        self._lake = settings

    def get_asset_spec(self, manifest: Mapping[str, Any], unique_id: str, project: DbtProject | None) -> dg.AssetSpec:
        """Dagster's own spec, with the kinds and the place of the table."""
        spec = super().get_asset_spec(manifest, unique_id, project)
        props = self.get_resource_props(manifest, unique_id)
        if props["resource_type"] == "source":
            return spec
        is_view = props["config"]["materialized"] == "view"
        place = {} if is_view else {"dagster/uri": self._lake.table_path("gold", props["alias"])}
        return spec.replace_attributes(kinds={"dbt", "spark", "view" if is_view else "deltalake"}).merge_attributes(
            metadata=place
        )

    def get_asset_check_spec(
        self, asset_spec: dg.AssetSpec, manifest: Mapping[str, Any], unique_id: str, project: DbtProject | None
    ) -> dg.AssetCheckSpec | None:
        """Dagster's own spec, with the description dbt has for the test: left alone it looks in the test's meta only."""
        spec = super().get_asset_check_spec(asset_spec, manifest, unique_id, project)
        text = manifest["nodes"][unique_id].get("description")
        return spec._replace(description=text.strip()) if spec and text else spec

    def get_asset_key(self, dbt_resource_props: Mapping[str, Any]) -> dg.AssetKey:
        """`silver/orders` for a source, `gold/fct_orders` for a model."""
        if dbt_resource_props["resource_type"] == "source":
            return asset_key(dbt_resource_props["source_name"], dbt_resource_props["name"])
        return asset_key("gold", dbt_resource_props["name"])

    def get_group_name(self, dbt_resource_props: Mapping[str, Any]) -> str:
        """Everything dbt makes is Gold."""
        return "gold"

    def get_description(self, dbt_resource_props: Mapping[str, Any]) -> str:
        """The model's own description, its grain in bold."""
        text = dbt_resource_props.get("description") or dbt_resource_props["name"]
        return text.strip().replace("Grain:", "\n\n**Grain:**", 1)

    def get_owners(self, dbt_resource_props: Mapping[str, Any]) -> list[str] | None:
        """Whoever the model or its dbt group names, as a team and an address."""
        group = dbt_resource_props.get("group")
        if isinstance(group, Mapping):  # the caller has put the group itself in the place of its name
            email = (group.get("owner") or {}).get("email")
            return [f"team:{group['name']}", *([email] if isinstance(email, str) else [])]
        return list(super().get_owners(dbt_resource_props) or []) or None

    def get_tags(self, dbt_resource_props: Mapping[str, Any]) -> dict[str, str]:
        """The stage of a model, by its prefix, and its own dbt tags."""
        stage = STAGES.get(dbt_resource_props["name"].split("_")[0])
        own = super().get_tags(dbt_resource_props)
        return {**own, **({"stage": stage} if stage else {})}
