"""Rollback: `plan.py` says what would go back to which version, `execute.py` does it, `show.py` shows it."""
