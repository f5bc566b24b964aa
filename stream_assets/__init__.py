"""Stream: a lakehouse you declare rather than program. Start reading at `build.py`, the floor plan."""

import gc

# Dagster and dbt bring 350,000 objects that stay: looking for garbage among them again and again was a fifth of every start.
gc.set_threshold(100_000, 20, 100)
