"""Groups of `stream …` verbs, one file each; `cli.py` adds them."""
