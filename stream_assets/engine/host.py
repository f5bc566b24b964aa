"""The driver program of our Spark server: makes the one session behind all others, and stays while the JVM lives.

Spark's own `SparkConnectServer` gives every client's session a class loader of its own, so that each session, and with it each step of
each run, compiles every query anew. Our clients bring no classes along. Started as a plugin of a plain driver, the service lets all
sessions use what is compiled already: a repeated daily run takes half the CPU time.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    SparkSession.builder.getOrCreate()
    sys.stdin.read()  # ends when the JVM does
