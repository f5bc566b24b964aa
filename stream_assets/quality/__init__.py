"""Rules from contracts: what they are (`rules.py`) and how a record is held to them (`evaluate.py`)."""
