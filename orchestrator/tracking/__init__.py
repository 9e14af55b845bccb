"""Publish sweeps from their ledgers to MLflow; the only package that imports MLflow.

publish.py       `publish`: reads the ledger, and brings the runs at an address up to date
run_contents.py  what a run has: names, tags, and the medians over seeds as points of its metrics
store.py         what MLflow has of it already; sends what is missing
publisher.py     the driver's child process (publisher_process.py) that calls `publish` while a sweep runs
ui.py            `lengthwise ui`, MLflow's server, with links to sweeps (pages.py)
logged_runs.py   reads runs of other programs, for `lengthwise import`
"""

import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before mlflow is imported: nodes often lack internet
