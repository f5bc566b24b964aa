"""Service levels: what each tier promises, as Dagster freshness policies."""
