"""A contract that was refused still shows in the UI, as an asset nobody can materialize, with what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from stream_assets.errors import ContractError


def build_broken(errors: Sequence[ContractError]) -> dg.Definitions:
    """One unmaterializable asset per refused contract."""
    return dg.Definitions(assets=[_broken_asset(number, error) for number, error in enumerate(errors)])


def _broken_asset(number: int, error: ContractError) -> dg.AssetSpec:
    name = "".join(c if c.isalnum() else "_" for c in Path(error.file).name.removesuffix(".odcs.yaml"))
    return dg.AssetSpec(
        dg.AssetKey(["broken_contract", f"{name}_{number}"]),
        description=f"**This contract was refused and its dataset is not running.**\n\n- file: `{error.file}`\n- field: `{error.field}`\n- problem: {error.problem}\n- remedy: {error.remedy}",
        group_name="broken_contracts",
        kinds={"yaml"},
        tags={"broken": "true"},
        metadata={"file": error.file, "field": error.field, "problem": error.problem, "remedy": error.remedy},
    )
