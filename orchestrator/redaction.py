"""Passwords and tokens, taken out of tracking addresses that are kept and of messages, log lines and tracebacks.

Addresses lose what they hold themselves: passwords and tokens in userinfo and query. Messages also lose, by value, as
it is written, decoded and encoded, what stands in addresses that were given to `remember` or in MLflow's variables.
Data is left as it is: searched values, names, paths. MLflow itself is given the real address.
"""

import logging
import os
import re
import traceback
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

MASK = "***"
PASSWORD_VARIABLE, URI_VARIABLE = "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_URI"
_VARIABLES = (PASSWORD_VARIABLE, "MLFLOW_TRACKING_TOKEN")
_SHORTEST = 6  # a shorter one is also a part of words that are no secret; in a URL it is masked all the same
_PASSWORD = re.compile(r"(://[^\s/:@]*:)(?:[^\s/]*@|(?!\d+[/?#])[^\s@]*@)")  # or one with a slash, where no port is
_TOKEN = re.compile(r"(https?://)[^\s/:@]+@")
_NAME = re.compile(r"[\w.-]+")
_IN_QUERY = re.compile(r"(?i)([?&][\w-]*(?:token|password|passwd|pwd|secret|api[_-]?key)=)[^\s&#'\"]+")
_MESSAGES = ("error", "message", "trace")  # fields of a record
_remembered: set[str] = set()


def remember(uri: str | None) -> None:
    """Take the password in an address for a secret from here on."""
    _remembered.update(_in_address(uri or ""))


def mask_address(text: str) -> str:
    """`text` without the passwords and tokens that addresses in it hold.

    mask_address("http://ada:pw@host/x") -> "http://ada:***@host/x"
    """
    if "://" not in text:
        return text
    return _IN_QUERY.sub(rf"\1{MASK}", _TOKEN.sub(rf"\1{MASK}@", _PASSWORD.sub(rf"\1{MASK}@", text)))


def redact(text: str) -> str:
    """A message with a mask in the place of every secret.

    A secret that may also be a name, without any other sign, is masked where it is a word of its own, and neither in
    the path or host of an address nor in a path.
    """
    text = mask_address(text)
    for secret in _secrets():
        if secret in text:
            text = _without_word(text, secret) if _NAME.fullmatch(secret) else text.replace(secret, MASK)
    return text


def _without_word(text: str, word: str) -> str:
    alone = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")

    def masked(piece: re.Match[str]) -> str:
        place, mark, query = piece[0].partition("?")
        return (place if "/" in place else alone.sub(MASK, place)) + mark + alone.sub(MASK, query)

    return re.sub(r"[^\s'\"]+", masked, text)


def masked_record(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record: messages without secrets, tracking addresses without theirs, data as it is."""
    masked = {
        key: redact(value) if key in _MESSAGES and isinstance(value, str) else value for key, value in fields.items()
    }
    if isinstance(spec := fields.get("spec"), Mapping):
        masked["spec"] = masked_spec(spec)
    if masked.get("uri"):
        masked["uri"] = mask_address(masked["uri"])
    return masked


def masked_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification whose tracking address has lost its secrets."""
    tracking = spec.get("tracking") or {}
    if not tracking.get("uri"):
        return dict(spec)
    return {**spec, "tracking": {**tracking, "uri": mask_address(tracking["uri"])}}


def is_masked(uri: str) -> bool:
    """Whether an address was kept without its password or token."""
    return mask_address(uri) == uri and (MASK in _userinfo(uri) or _IN_QUERY.search(uri) is not None)


def unmasked(uri: str) -> str | None:
    """The address that a masked one was made from, by MLflow's variables; None where they do not say it."""
    if not is_masked(uri):
        return uri
    if (known := os.environ.get(URI_VARIABLE)) and not is_masked(known) and mask_address(known) == uri:
        return known
    password = quote(os.environ.get(PASSWORD_VARIABLE, ""), safe="")
    whole = uri.replace(f":{MASK}@", f":{password}@", 1) if password else uri
    return None if is_masked(whole) or whole == uri else whole


def without_userinfo(uri: str) -> str:
    """An address as a link: a browser asks for the password itself."""
    return uri.replace(f"{_userinfo(uri)}@", "", 1) if _userinfo(uri) else uri


def redact_log_records() -> None:
    """Mask secrets in the log records of this process and in their tracebacks."""
    logging.setLogRecordFactory(_MaskedRecord)


def masked_traceback(error: BaseException) -> str:
    """The traceback of an error and of its causes, as Python prints it, without secrets."""
    return redact("".join(traceback.format_exception(error)))


class _MaskedRecord(logging.LogRecord):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        if self.exc_info and self.exc_info[1] is not None:
            self.exc_text = masked_traceback(self.exc_info[1]).rstrip("\n")  # formatters take it as it is

    def getMessage(self) -> str:  # noqa: N802 - the name is logging's
        return redact(super().getMessage())


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
