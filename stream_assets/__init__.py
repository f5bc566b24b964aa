"""Stream: a lakehouse you declare rather than program. Start reading at `build.py`, the floor plan."""
