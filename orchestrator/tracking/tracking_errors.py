"""Describe errors of MLflow, and set timeouts that detect an unreachable server in seconds.

TrackingError (a LengthwiseError)    MLflow cannot be reached or rejects a request; the sweep itself is not affected
└── TrackingRefused                 a wrong password, permission or host name; exit code 2
"""

import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import requests
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.errors import LengthwiseError
from trainers.errors import get_first_line

TIMEOUTS = {  # environment variables; with MLflow's defaults a call blocks for four minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # a busy server may ask for an hour
}

for _noisy in ("mlflow", "alembic"):
    logging.getLogger(_noisy).setLevel(logging.WARNING)
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # it logs the traceback of every error


class TrackingError(LengthwiseError):
    """MLflow cannot be reached or rejects a request; the message has the address and the command to try again."""


class TrackingRefused(TrackingError):  # noqa: N818 - reads as the sentence it prints
    """MLflow rejects the user, the user's permissions, or the host name."""

    exit_code = 2


@contextmanager
def convert_tracking_errors(uri: str, later: str = "", uri_option: str | None = None) -> Iterator[None]:
    """Convert errors of MLflow and the network to TrackingError, whose message has the command `later` to try again.

    `uri_option` is the address if an option gave it; then the command has this option.
    """
    # requests' errors are OSErrors; SQLAlchemy raises its own, and a missing database driver is an ImportError.
    try:
        yield
    except (OSError, MlflowException, SQLAlchemyError, ImportError) as error:
        refusal = _describe_refusal(error)
        message = f"MLflow at {uri}: {refusal or _describe_failure(error)}"
        if later:
            option = f" --tracking-uri {shlex.quote(uri_option)}" if uri_option is not None else ""
            message += f"\ncomplete it later with: {later}{option}"
        raise (TrackingRefused if refusal else TrackingError)(message) from error


def _describe_refusal(error: Exception) -> str:
    """Return why a server refused a request, with a remedy; empty for any other error."""
    # Uploads of files use requests directly, so their errors are not MLflow's.
    status = None
    if isinstance(error, MlflowException):
        status = error.get_http_status_code()
    elif isinstance(error, requests.HTTPError) and error.response is not None:
        status = error.response.status_code

    # Both an unknown host name and a missing permission have status 403.
    if status == 401:
        return "user or password rejected; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    if status == 403 and "Invalid Host header" in str(error):
        return "host name rejected; the server's administrator must add it to --allowed-hosts"
    if status == 403:
        return "permission denied; the server's administrator must give this user MANAGE on this experiment"
    return ""


def _describe_failure(error: Exception) -> str:
    """Return the cause of an error with a remedy; for an unknown error the first line of its message."""
    # Connection errors have a type, and messages of urllib3, which vary. Other errors have no type of their own, so
    # compare their messages.
    text = str(error).strip()
    if type(error.__context__ or error) in (requests.ConnectionError, requests.ConnectTimeout):
        return "no MLflow server answers at this address; correct it, or start a server: lengthwise ui"
    if isinstance(error, ImportError) and error.name:
        return f"this address needs the package {error.name}, which is not installed"
    if "database is locked" in text:
        return "another process has locked this database; end the process that writes to it"
    if "out-of-date database schema" in text:
        return "another version of MLflow wrote this database; back it up, then run: mlflow db upgrade ADDRESS"
    return get_first_line(error)[:300]
