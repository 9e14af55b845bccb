"""Redact texts: passwords in addresses, webhook paths, control characters.

Sweep files and options with a password in an address are refused, but environment variables may contain one, and
libraries print it. So passwords are masked in everything that is printed, logged or recorded as a message.
"""

import logging
import os
import traceback
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from search_spaces.grammar.passwords import MASK, mask_passwords
from search_spaces.grammar.values import is_web_address

URI_VARIABLE = "MLFLOW_TRACKING_URI"
_MESSAGE_FIELDS = ("error", "message", "trace")  # fields of a record that are redacted
_CONTROLS = dict.fromkeys({*range(0x20), 0x7F, *range(0x80, 0xA0)} - {ord("\n"), ord("\t")})  # C0, DEL and C1


def make_printable(text: str) -> str:
    """Return text that is safe to print: passwords in addresses masked, control characters removed."""
    return remove_controls(mask_passwords(text))


def remove_controls(text: str) -> str:
    """Return text without control characters, which a terminal would obey; newlines and tabs stay.

    remove_controls("a\\x1b]0;title\\x07") -> "a]0;title"
    """
    return text.translate(_CONTROLS)


def strip_password(uri: str) -> str:
    """Return an MLflow address without its password, for a server also without its user name.

    strip_password("postgresql://ada:pw@host/x") -> "postgresql://ada@host/x"
    """
    # A server's user name is part of its secret; a database's user name only names the account.
    masked_uri = mask_passwords(uri)
    if is_web_address(masked_uri) and "@" in (parts := urlsplit(masked_uri)).netloc:
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return masked_uri.replace(f":{MASK}@", "@", 1)


def restore_password(uri: str) -> str:
    """Return MLFLOW_TRACKING_URI if it is `uri` with a password, otherwise `uri`."""
    # The ledger records addresses without passwords, so only the environment can supply a password.
    variable = os.environ.get(URI_VARIABLE, "")
    return variable if strip_password(variable) == uri else uri


def mask_webhook(address: str) -> str:
    """Return the address of a webhook with all but scheme and host masked, because its path is a secret.

    mask_webhook("https://ada:pw@host/x") -> "https://host/***"
    """
    parts = urlsplit(address)
    host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return address if address in (host, f"{host}/") else f"{host}/{MASK}"


def redact_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification for the ledger, with the webhook in `notify` masked."""
    return {**spec, "notify": mask_webhook(spec["notify"])} if spec.get("notify") else dict(spec)


def redact_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a ledger record with messages and webhooks redacted; values, names and paths stay."""
    # Messages come from libraries and may quote an address; other fields were refused earlier if they had a password.
    redacted_fields = {
        key: mask_passwords(value) if key in _MESSAGE_FIELDS and isinstance(value, str) else value
        for key, value in fields.items()
    }
    if isinstance(fields.get("spec"), Mapping):
        redacted_fields["spec"] = redact_spec(fields["spec"])
    return redacted_fields


def mask_log_records() -> None:
    """Make the log records of this process, and their tracebacks, safe to print (`make_printable`)."""
    logging.setLogRecordFactory(_PrintableRecord)


class _PrintableRecord(logging.LogRecord):
    """A log record whose message and traceback are safe to print."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        if self.exc_info and self.exc_info[1] is not None:  # formatters print this text unchanged
            self.exc_text = make_printable("".join(traceback.format_exception(self.exc_info[1]))).rstrip("\n")

    def getMessage(self) -> str:  # noqa: N802 - the name is logging's
        return make_printable(super().getMessage())
