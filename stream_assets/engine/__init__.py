"""The engine: one Spark Connect server, its session, and the Delta verbs. Nothing here knows Dagster or datasets.

`java.py` and `jars.py` prepare the machine, `server.py` runs our own server, `session.py` talks to whichever there is,
`delta.py` is how every other room reads and writes tables, `ledger.py` what a commit says about itself.
"""
