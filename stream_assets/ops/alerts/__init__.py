"""Alerts: conditions become incidents, incidents become alerts, and alerts reach people at least once."""
