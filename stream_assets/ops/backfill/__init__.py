"""Backfills: planned from what is really stale, run apart from the live path, resumable, verified."""
