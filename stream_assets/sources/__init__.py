"""Where records come from, one file per kind of source, and `records.py`: how a record of any source is read into fields."""
