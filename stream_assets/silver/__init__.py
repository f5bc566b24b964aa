"""Silver: typed, cleaned, deduplicated and validated, computed from Bronze alone. Rejected rows go to quarantine.

`conform.py` judges records, `publish.py` decides what each kind of dataset keeps of them, `refine.py` runs both over a
range of days, `assets.py` shows it to Dagster.
"""
