"""Erasure of a person: find their rows (`find.py`), remove these and their past (`purge.py`), look through what is left (`scan.py`)."""
