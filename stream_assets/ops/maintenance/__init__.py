"""Keeping the lake in order: compaction, vacuum, retention by contract, pruning of old reports."""
