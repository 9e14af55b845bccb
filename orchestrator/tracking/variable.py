"""The address of MLflow that the user's shell names."""

import os

from orchestrator.errors import UserError
from orchestrator.redaction import URI_VARIABLE, without_password
from search_spaces.grammar.values import STORES, make_store_absolute, store_problem


def uri_of_variable() -> str | None:
    """Return the address in MLFLOW_TRACKING_URI, without password and for any current folder, None without one.

    Raises UserError if lengthwise cannot publish there.
    """
    uri = without_password(os.environ.get(URI_VARIABLE, ""))
    if not uri:
        return None
    if problem := store_problem(uri):
        raise UserError(
            f"{URI_VARIABLE}={uri} {problem}; allowed: {STORES}; "
            "--tracking-uri '' publishes to a SQLite file in the storage folder"
        )
    return make_store_absolute(uri)
