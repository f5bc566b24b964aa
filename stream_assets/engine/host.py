"""The driver program of our Spark server: makes the one session behind all others, opens the Connect service, and stays.

Spark's own `SparkConnectServer` gives every client's session a class loader of its own, so that each session, and with it each step of
each run, compiles every query anew. Our clients bring no classes along: behind a plain driver, all sessions use what is compiled
already.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession

if __name__ == "__main__":
    context: Any = SparkSession.builder.getOrCreate().sparkContext
    context._jvm.org.apache.spark.sql.connect.service.SparkConnectService.start(context._jsc.sc())
    sys.stdin.read()  # ends when the JVM does
