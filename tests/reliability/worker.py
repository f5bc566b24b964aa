"""The victim: lands and refines the days it is given, in a process of its own that can be killed at any moment."""

from __future__ import annotations

import sys
from datetime import date

from stream_assets.bronze.land import land
from stream_assets.contracts.load import load_contracts
from stream_assets.engine.session import open_session
from stream_assets.settings import Settings
from stream_assets.silver.refine import refine

if __name__ == "__main__":
    dataset, run_id, *days = sys.argv[1:]
    settings = Settings.from_env()
    contract = load_contracts(settings.contracts)[dataset]
    spark = open_session(settings)
    wanted = [date.fromisoformat(day) for day in days]
    print("ready", flush=True)
    land(spark, settings, contract, wanted, run_id=run_id)
    print("landed", flush=True)
    refine(spark, settings, contract, wanted, run_id=run_id, salt="salt")
    print("refined", flush=True)
