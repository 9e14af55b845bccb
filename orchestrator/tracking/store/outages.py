"""Timeouts and error messages for an MLflow that is down, busy or hangs, or rejects a user.

TrackingError (a LengthwiseError)    MLflow cannot be reached, or rejects a request; the sweep itself is unharmed
└── TrackingRefused                 a wrong password, permission or host name; exit code 2
"""

import logging
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.utils.credentials import read_mlflow_creds
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.errors import LengthwiseError

LONGEST_REQUEST = 30.0  # seconds for one request to a server, including retries
SLOWEST_UPLOAD = 100_000  # bytes per second, additional time for an upload
OUTAGE = {  # with MLflow's defaults one call blocks for four minutes; these detect an outage in seconds
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # a busy server may ask for an hour
}

for _noisy in ("mlflow", "alembic"):
    logging.getLogger(_noisy).setLevel(logging.WARNING)
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # it prints the traceback of every error


class TrackingError(LengthwiseError):
    """MLflow cannot be reached or rejects a request; the message has the address and how to complete it later."""


class TrackingRefused(TrackingError):  # noqa: N818 - reads as the sentence it prints
    """MLflow rejects the user, the user's permissions, or the host name."""

    exit_code = 2


@contextmanager
def raising_tracking_error(uri: str, later: str = "", given: str | None = None) -> Iterator[None]:
    """Raise errors of MLflow and the network as TrackingError, with the command that does `later` what failed.

    `given` is the address if it was named for this call alone; the command then names it, too.
    """
    try:
        yield
    except (OSError, MlflowException, SQLAlchemyError, ImportError) as error:  # requests' errors are OSErrors
        named = f" --tracking-uri {shlex.quote(given)}" if given is not None else ""
        kind, problem = TrackingError, _first_line(error)
        if refusal := _refusal(uri, error):
            kind, problem = TrackingRefused, refusal
        complete = f"\ncomplete it later with: {later}{named}" if later else ""
        raise kind(f"MLflow at {uri}: {problem}{complete}") from error


def _refusal(uri: str, error: Exception) -> str | None:
    """Return why the server at `uri` refused a request, and what to do; None for any other error."""
    if isinstance(error, requests.HTTPError) and error.response is not None:  # of an upload
        status = error.response.status_code
    elif isinstance(error, MlflowException):
        status = error.get_http_status_code()
    else:
        return None
    user = read_mlflow_creds().username
    if status == 401:
        problem = f"rejects the password of user {user}, or has no such user" if user else "asks for a password"
        return f"this server {problem}; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to those of a user"
    if status == 403 and "Invalid Host header" in str(error):
        name = urlsplit(uri).netloc
        return f"this server is not addressed by the name {name}; ask its administrator to add it to --allowed-hosts"
    if status == 403:
        who = f"user {user}" if user else "this user"
        return f"{who} lacks a permission: MANAGE on this experiment; ask the administrator of the server for it"
    return None


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    if type(error.__context__ or error) in (requests.ConnectionError, requests.ConnectTimeout):  # the text is urllib3's
        return "no MLflow server answers at this address; start one with: lengthwise ui, or correct the address"
    if isinstance(error, ImportError) and error.name:
        return f"this kind of address needs the package {error.name}, which is not installed"
    if "database is locked" in text:
        return "another process has locked this database; end the process that writes to it"
    if "out-of-date database schema" in text:
        return "another version of MLflow wrote this database; back it up and run `mlflow db upgrade` with its address"
    return (text.splitlines() or [type(error).__name__])[0][:300]


class LimitedClient:
    """An MLflow client that raises TimeoutError if a request is not answered within LONGEST_REQUEST seconds.

    MLflow's own timeout is for the next byte and restarts with each retry; if it is set to more, it replaces the limit.
    A request that timed out continues in its own thread, which ends with the process.
    """

    def __init__(self, client: MlflowClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return partial(_call_with_timeout, getattr(self._client, name), 0.0)

    def log_artifact(self, run_id: str, path: str, place: str | None) -> None:
        """Upload a file; a large one has more time."""
        _call_with_timeout(self._client.log_artifact, Path(path).stat().st_size / SLOWEST_UPLOAD, run_id, path, place)


def _call_with_timeout(request: Callable[..., Any], more_seconds: float, *arguments: Any, **named: Any) -> Any:
    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            answer.set_result(request(*arguments, **named))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="lengthwise-mlflow-request", daemon=True).start()
    limit = max(LONGEST_REQUEST, float(os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"])) + more_seconds
    try:
        return answer.result(limit)
    except TimeoutError:
        if answer.done():
            raise
        raise TimeoutError(f"a request was not answered within {limit:.0f} s") from None
