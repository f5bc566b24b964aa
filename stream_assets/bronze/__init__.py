"""Bronze: every record exactly as received, with where and when it came from. `land.py` does it, `assets.py` shows it."""
