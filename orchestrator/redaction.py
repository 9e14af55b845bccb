"""Passwords and tokens, taken out of whatever text leaves this process: terminal, errors, logs, ledger, MLflow.

What is secret: the userinfo of any URL, and by value, as it is written, decoded and encoded, what stands in such URLs
that were given to `remember` or in MLflow's variables. MLflow itself is given the real address.
"""

import logging
import os
import re
import sys
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote, urlsplit

MASK = "***"
PASSWORD_VARIABLE, URI_VARIABLE = "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_URI"
_VARIABLES = (PASSWORD_VARIABLE, "MLFLOW_TRACKING_TOKEN")
_SHORTEST = 6  # a shorter one is also a part of words that are no secret; in a URL it is masked all the same
_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s/]*@")
_TOKEN = re.compile(r"(https?://)[^\s/:@]+@")
_remembered: set[str] = set()


def remember(uri: str | None) -> None:
    """Take the password in an address for a secret from here on."""
    _remembered.update(_in_address(uri or ""))


def redact(text: str) -> str:
    """`text` with a mask in the place of every secret.

    redact("http://ada:pw@host/x") -> "http://ada:***@host/x"
    """
    if "://" in text:
        text = _TOKEN.sub(rf"\1{MASK}@", _PASSWORD.sub(rf"\1{MASK}@", text))
    for secret in _secrets():
        if secret in text:
            text = text.replace(secret, MASK)
    return text


def redacted(value: Any) -> Any:
    """Nested plain data with `redact` applied to every text but keys."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: redacted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    return value


def is_masked(uri: str) -> bool:
    """Whether an address was kept without its password or token."""
    return MASK in _userinfo(uri)


def unmasked(uri: str) -> str | None:
    """The address that a masked one was made from, by MLflow's variables; None where they do not say it."""
    if not is_masked(uri):
        return uri
    if (known := os.environ.get(URI_VARIABLE)) and not is_masked(known) and redact(known) == uri:
        return known
    if (password := os.environ.get(PASSWORD_VARIABLE)) and f":{MASK}@" in uri:
        return uri.replace(f":{MASK}@", f":{quote(password, safe='')}@", 1)
    return None


def without_userinfo(uri: str) -> str:
    """An address as a link: a browser asks for the password itself."""
    return uri.replace(f"{_userinfo(uri)}@", "", 1) if _userinfo(uri) else uri


def redact_what_python_prints() -> None:
    """Mask secrets in the log records and in the last traceback of this process."""
    logging.setLogRecordFactory(_MaskedRecord)
    sys.excepthook = _print_masked


class _MaskedRecord(logging.LogRecord):
    def getMessage(self) -> str:  # noqa: N802 - the name is logging's
        return redact(super().getMessage())


def _print_masked(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def _secrets() -> list[str]:
    found = {*_remembered, *_in_address(os.environ.get(URI_VARIABLE, ""))}
    for variable in _VARIABLES:
        found |= _forms(os.environ.get(variable, ""))
    return sorted((one for one in found if len(one) >= _SHORTEST and one != MASK), key=len, reverse=True)


def _in_address(uri: str) -> set[str]:
    user, colon, password = _userinfo(uri).partition(":")
    return _forms(password) if colon else _forms(user) if uri.startswith("http") else set()


def _forms(secret: str) -> set[str]:
    """A secret as it is written, decoded and encoded."""
    return {secret, unquote(secret), quote(secret, safe=""), quote(unquote(secret), safe="")}


def _userinfo(uri: str) -> str:
    try:
        return urlsplit(uri).netloc.rpartition("@")[0]
    except ValueError:  # it is no address
        return ""
