"""The victim: lands a topic, then refines the days it is given, in a process of its own that can be killed at any moment."""

from __future__ import annotations

import sys
from datetime import date

from stream_assets.bronze.follow import catch_up
from stream_assets.contracts.load import load_contracts
from stream_assets.engine.session import open_session
from stream_assets.settings import Settings
from stream_assets.silver.refine import refine

if __name__ == "__main__":
    run_id, *days = sys.argv[1:]
    settings = Settings.from_env()
    contract = load_contracts(settings.contracts)["readings"]
    spark = open_session(settings)
    print("ready", flush=True)
    catch_up(spark, settings, contract, run_id=run_id)
    refine(spark, settings, contract, [date.fromisoformat(day) for day in days], run_id=run_id, salt="salt")
    print("done", flush=True)
