"""Live views: declared in YAML, computed by Structured Streaming from the Bronze log, kept alive by a supervisor."""
