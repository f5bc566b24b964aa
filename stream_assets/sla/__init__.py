"""Service levels: what each tier promises, as Dagster freshness policies, and what is left of its error budget."""
