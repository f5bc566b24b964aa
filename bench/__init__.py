"""The benchmark: the same job by Stream, by a plain PySpark script and by DuckDB, on the same deliveries, outputs verified equal.

`job.py` says what the job is, `plain_pyspark.py` and `duck.py` do it by hand, `dbt_project` holds Stream's two models.
`scenarios.py` measures, `verify.py` compares, `report.py` shows. Everything written goes to `.bench`.
"""
