"""A process that has everything loaded and waits for commands, so that they start in a tenth of a second and not in three.

`entry.py` is what `stream` runs: it hands the command over, or does it itself. `server.py` is the process that waits: it stays as long as
the engine does, and takes leave when the code has changed.
"""
