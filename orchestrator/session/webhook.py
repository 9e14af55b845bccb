"""Tell a webhook, such as Slack's, by one JSON POST that a sweep has ended; errors never fail the sweep."""

import base64
import json
import socket
import threading
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from rich.console import Console

from orchestrator.record.state.state import SweepState
from orchestrator.running.watching.meter import find_best_configuration
from orchestrator.text.consoles import say
from orchestrator.text.redaction import mask_webhook
from orchestrator.text.wording import format_count, format_label, format_number
from search_spaces.grammar.passwords import MASK, mask_passwords

TIMEOUT_SECONDS = 5.0


class WebhookNotifier:
    """Sends a notice to the webhook at `address` when a sweep ends; does nothing while the address is None."""

    def __init__(self, address: str | None = None) -> None:
        self.set_address(address)

    def set_address(self, address: str | None) -> None:
        """Set the address, which a sweep file may give later than the command line."""
        self._address = address

    def send(self, folder: Path, status: str, message: str, console: Console) -> None:
        """Post the end of the sweep; an empty `message` means the recorded one. Prints whether that worked."""
        if self._address is None:
            return

        # A resumed sweep without the option knows only the host, because the rest of the address is a secret.
        state = SweepState.load(folder)
        host = mask_webhook(self._address)
        if MASK in self._address:
            problem: str | None = "the ledger has only its host; pass the address again with --notify"
        else:
            problem = post_fields(self._address, make_notice_fields(state, status, message or state.end_message or ""))
        say(console, f"warning: {host} was not notified: {problem}" if problem else f"notified {host}")


def make_notice_fields(state: SweepState, status: str, message: str) -> dict[str, Any]:
    """Return the JSON fields; `text`, which Slack shows, has the main ones as a line."""
    members = Counter(member.status for member in state.members)
    best = find_best_configuration(state)
    score = best.scores[-1] if best else None

    # The message is sent to another service, and may have an address with a password.
    message, total = mask_passwords(message), len(state.configurations)
    text = f"Sweep {state.name}: {status}" + (f", {message}" if message else "")
    text += f"; {state.configurations_done} of {format_count(total, 'configuration')} done"
    text += f", {format_count(members['failed'], 'seed')} failed"
    if best and score is not None:
        text += f"; best so far {format_label(best.number)} with score {format_number(score)}"
    return {
        "text": text,
        "sweep": state.name,
        "study": state.study,
        "status": status,
        "message": message,
        "configurations_done": state.configurations_done,
        "configurations": total,
        "seeds_done": members["complete"] + members["failed"],
        "seeds_failed": members["failed"],
        "best_configuration": best.number if best else None,
        "best_score": score,
        "folder": str(state.folder.resolve()),
        "host": socket.gethostname(),
    }


def post_fields(address: str, fields: dict[str, Any], seconds: float = TIMEOUT_SECONDS) -> str | None:
    """Post the fields as JSON; return the problem without the address, None if the server accepted it.

    Waits no longer than `seconds`, whatever the server does.
    """
    # The timeout of urllib limits each operation, so a slow server could take longer.
    problems: list[str | None] = []
    thread = threading.Thread(target=lambda: problems.append(_post(address, fields, seconds)), daemon=True)
    thread.start()
    thread.join(seconds)
    return problems[0] if problems else f"no response within {seconds:g} s"


def _post(address: str, fields: dict[str, Any], seconds: float) -> str | None:
    """Post the fields with a timeout for each operation; return the problem, None if the server accepted them."""
    # urllib ignores the user and password of an address, so they are sent as a header.
    parts = urlsplit(address)
    userinfo, _, host = parts.netloc.rpartition("@")
    headers = {"Content-Type": "application/json", "User-Agent": "lengthwise"}
    if userinfo:
        headers["Authorization"] = f"Basic {base64.b64encode(unquote(userinfo).encode()).decode()}"
    url = urlunsplit(parts._replace(netloc=host))
    content = json.dumps(fields).encode()

    # The messages of errors may contain the address, which is secret.
    try:
        request = urllib.request.Request(url, content, headers, method="POST")
        with urllib.request.build_opener(_WithoutRedirects).open(request, timeout=seconds):
            return None
    except urllib.error.HTTPError as error:
        return f"HTTP status {error.code}"
    except OSError as error:
        reason = getattr(error, "reason", error)
        return str(getattr(reason, "strerror", None) or type(reason).__name__)
    except Exception as error:  # such as errors of http.client
        return type(error).__name__


class _WithoutRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect, which would carry the password to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None
