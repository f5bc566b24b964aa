"""The law: Open Data Contract Standard files and the frozen model every other room reads.

Nothing here knows Spark or Dagster. `load.py` reads files, `validate.py` refuses bad ones, `model.py` is the result;
`diff.py` compares two versions of it and `versions.py` holds them to their numbers.
"""
