"""What the lake costs, where, and what would make it cheaper."""
