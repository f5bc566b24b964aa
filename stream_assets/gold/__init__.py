"""Gold: the bridge to dbt. Models and their tests are in the dbt project; nothing here knows a column."""
