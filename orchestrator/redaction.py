"""Mask passwords and tokens in recorded addresses, messages, log lines and tracebacks; remove control characters.

In addresses, passwords and tokens in userinfo and query are masked. In messages, so are the secrets of addresses passed
to `remember` and of MLflow's variables: as written, decoded and encoded. Data (searched values, names, paths) is never
masked. MLflow itself gets the real address.
"""

import logging
import os
import re
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote, urlsplit

MASK = "***"
PASSWORD_VARIABLE, URI_VARIABLE = "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_URI"
USERNAME_VARIABLE = "MLFLOW_TRACKING_USERNAME"
SECRET_VARIABLES = (PASSWORD_VARIABLE, "MLFLOW_TRACKING_TOKEN")
_SHORTEST = 6  # shorter secrets occur in ordinary words; in a URL they are masked as well
_PASSWORD = re.compile(r"(://[^\s/:@]*:)(?:[^\s/]*@|(?!\d+[/?#])[^\s@]*@)")  # or one with a slash, if there is no port
_DATABASE = re.compile(  # the user and password of a whole address as SQLAlchemy reads them, with spaces and slashes
    r"(?<![^=])(?P<scheme>(?:postgresql|mysql|mssql)(?:\+\w+)?://)(?P<user>[^:/@\s]*):(?P<password>[^@\n]*)@"
)
_TOKEN = re.compile(r"(https?://)[^\s/:@]+@")
_NAME = re.compile(r"[\w.-]+")
_IN_QUERY = re.compile(r"(?i)([?&][\w-]*(?:token|password|passwd|pwd|secret|api[_-]?key)=)[^\s&#'\"]+")
_MESSAGES = ("error", "message", "trace")  # fields of a record
_remembered: set[str] = set()
_CONTROLS = dict.fromkeys({*range(0x20), 0x7F, *range(0x80, 0xA0)} - {ord("\n"), ord("\t")})  # C0, DEL and C1


def remember(uri: str | None) -> None:
    """Mask the password in this address from now on."""
    _remembered.update(_in_address(uri or ""))


def remember_all_of(address: str | None) -> None:
    """Mask this address from now on, and its path unless that is one word: that of a webhook is a secret.

    The path of https://ntfy.sh/lengthwise would be masked in every sentence.
    """
    remember(address)
    with suppress(ValueError):  # not an address
        path = urlsplit(address).path.strip("/") if address else ""
        telling = path if re.search(r"[/\d]", path) else ""
        _remembered.update({address, telling} - {"", MASK} if address and path else ())


def mask_all_but_host(address: str) -> str:
    """Return an address with everything but scheme and host masked; unchanged if it has nothing else.

    mask_all_but_host("https://ada:pw@host/x") -> "https://host/***"
    """
    parts = urlsplit(address)
    host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return address if address in (host, f"{host}/") else f"{host}/{MASK}"


def mask_credentials(text: str) -> str:
    """Return `text` with the passwords and tokens in its addresses masked.

    mask_credentials("http://ada:pw@host/x") -> "http://ada:***@host/x"
    """
    if "://" not in text:
        return text
    text = _DATABASE.sub(rf"\g<scheme>\g<user>:{MASK}@", text)
    return _IN_QUERY.sub(rf"\1{MASK}", _TOKEN.sub(rf"\1{MASK}@", _PASSWORD.sub(rf"\1{MASK}@", text)))


def redact(text: str) -> str:
    """Return a message with every secret masked.

    A secret that consists of letters and digits only is masked as a whole word, and not in paths and host names.
    """
    text = mask_credentials(text)
    for secret in _secrets():
        if secret in text:
            text = _mask_word(text, secret) if _NAME.fullmatch(secret) else text.replace(secret, MASK)
    return text


def _mask_word(text: str, word: str) -> str:
    alone = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")

    def masked(piece: re.Match[str]) -> str:
        place, mark, query = piece[0].partition("?")
        return (place if "/" in place else alone.sub(MASK, place)) + mark + alone.sub(MASK, query)

    return re.sub(r"[^\s'\"]+", masked, text)


def remove_controls(text: str) -> str:
    """Return text without control characters but for newline and tab: a terminal obeys them, whoever wrote them.

    remove_controls("a\\x1b]0;title\\x07") -> "a]0;title"
    """
    return text.translate(_CONTROLS)


def masked_record(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record with secrets masked in messages and tracking addresses; data is unchanged."""
    masked = {
        key: redact(value) if key in _MESSAGES and isinstance(value, str) else value for key, value in fields.items()
    }
    if isinstance(spec := fields.get("spec"), Mapping):
        masked["spec"] = masked_spec(spec)
    if masked.get("uri"):
        masked["uri"] = mask_credentials(masked["uri"])
    return masked


def masked_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification with the secrets of its tracking address masked, and all but the host of `notify`."""
    if isinstance(notify := spec.get("notify"), str):
        spec = {**spec, "notify": mask_all_but_host(notify)}
    tracking = spec.get("tracking") or {}
    if not tracking.get("uri"):
        return dict(spec)
    return {**spec, "tracking": {**tracking, "uri": mask_credentials(tracking["uri"])}}


def is_masked(uri: str) -> bool:
    """Return whether the password or token of an address is masked."""
    return mask_credentials(uri) == uri and (MASK in _userinfo(uri) or _IN_QUERY.search(uri) is not None)


def unmasked(uri: str) -> str | None:
    """Return the original of a masked address, from MLflow's variables; None if they lack it."""
    if not is_masked(uri):
        return uri
    if (known := os.environ.get(URI_VARIABLE)) and not is_masked(known) and mask_credentials(known) == uri:
        return known
    password = quote(os.environ.get(PASSWORD_VARIABLE, ""), safe="")
    complete = uri.replace(f":{MASK}@", f":{password}@", 1) if password else uri
    return None if is_masked(complete) or complete == uri else complete


def remove_userinfo(uri: str) -> str:
    """Return an address without user and password, as a link; the browser asks for them."""
    return uri.replace(f"{_userinfo(uri)}@", "", 1) if _userinfo(uri) else uri


def redact_log_records() -> None:
    """Mask secrets in the log records of this process and in their tracebacks; control characters are left out."""
    logging.setLogRecordFactory(_MaskedRecord)


def masked_traceback(error: BaseException) -> str:
    """Return the traceback of an error and its causes as Python prints it, with secrets masked."""
    return redact("".join(traceback.format_exception(error)))


class _MaskedRecord(logging.LogRecord):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        if self.exc_info and self.exc_info[1] is not None:
            self.exc_text = remove_controls(masked_traceback(self.exc_info[1])).rstrip(
                "\n"
            )  # formatters use it unchanged

    def getMessage(self) -> str:  # noqa: N802 - the name is logging's
        return remove_controls(redact(super().getMessage()))


def _secrets() -> list[str]:
    found = {*_remembered, *_in_address(os.environ.get(URI_VARIABLE, ""))}
    for variable in SECRET_VARIABLES:
        found |= _forms(os.environ.get(variable, ""))
    return sorted((one for one in found if len(one) >= _SHORTEST and one != MASK), key=len, reverse=True)


def _in_address(uri: str) -> set[str]:
    user, colon, password = _userinfo(uri).partition(":")
    return _forms(password) if colon else _forms(user) if uri.startswith("http") else set()


def _forms(secret: str) -> set[str]:
    """Return a secret as written, decoded and encoded."""
    return {secret, unquote(secret), quote(secret, safe=""), quote(unquote(secret), safe="")}


def _userinfo(uri: str) -> str:
    if database := _DATABASE.match(uri):
        return f"{database['user']}:{database['password']}"
    try:
        return urlsplit(uri).netloc.rpartition("@")[0]
    except ValueError:  # not an address
        return ""
