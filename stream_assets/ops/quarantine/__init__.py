"""Rejected records: look at them (`records.py`, `show.py`), take them out to be edited, and replay them (`replay.py`)."""
