"""Addresses with a password are refused where they are kept; texts that leave a process have none."""

import io
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import read_records
from orchestrator.text import redaction
from orchestrator.text.consoles import make_console, say
from orchestrator.text.redaction import restore_password, strip_password
from search_spaces.grammar.passwords import mask_passwords

ADDRESS, MASKED = "http://ada:s3cret@127.0.0.1:5000/base", "http://ada:***@127.0.0.1:5000/base"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("no connection to http://ada:pw@host:80/x?y=1.", "no connection to http://ada:***@host:80/x?y=1."),
        ("'https://ada:p@w:1@host'", "'https://ada:***@host'"),
        ("https://dapi12345@host/", "https://***@host/"),
        ("postgresql://ada:pw@host/db and ssh://git@host", "postgresql://ada:***@host/db and ssh://git@host"),
        ("postgresql://ada:1234/s3cret@host/db", "postgresql://ada:***@host/db"),
        ("postgresql://host:5432/db http://ada@host", "postgresql://host:5432/db http://***@host"),
        ("https://host/x?sp=r&sig=abc%3D", "https://host/x?sp=r&sig=***"),
        ("sqlite:////a/b@c.db, http://host:80/a, a: b@c", "sqlite:////a/b@c.db, http://host:80/a, a: b@c"),
        ("http://host:80/a@b http://ada:p/w@host/a@b", "http://host:80/a@b http://ada:***@host/a@b"),
        ("https://host/x?a=1&access_token=abc&b=2#c", "https://host/x?a=1&access_token=***&b=2#c"),
        ("postgresql://host/db?user=ada&password=pw", "postgresql://host/db?user=ada&password=***"),
    ],
)
def test_passwords_in_addresses_are_masked(text: str, masked: str) -> None:
    assert mask_passwords(text) == masked == mask_passwords(masked)


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20))
def test_no_password_survives_in_an_address(secret: str) -> None:
    assert mask_passwords(f"see http://ada:{secret}@host/path") == "see http://ada:***@host/path"


def test_what_is_printed_logged_and_recorded_has_no_password(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console()
    console.print(ADDRESS)
    say(console, ADDRESS)
    assert capsys.readouterr().out == f"{MASKED}\n" * 2
    values = {"model.position": "rotary", "task.corpus": ADDRESS}
    first = {"name": "s", "study": "t", "spec": {"notify": f"{ADDRESS}/x"}, "spec_hash": "h", "provenance": {}}
    with Ledger.create(tmp_path / "s", first) as ledger:
        ledger.append("configuration", values=values)
        ledger.append("attempt", pack_id="p", attempt=1, error=f"E: {ADDRESS}", trace=f"T\nE: {ADDRESS}")
    begun, drawn, died = (record.fields for record in read_records(tmp_path / "s"))
    assert begun["spec"] == {"notify": "http://127.0.0.1:5000/***"} and drawn["values"] == values
    assert (died["error"], died["trace"]) == (f"E: {MASKED}", f"T\nE: {MASKED}")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.handle(redaction._PrintableRecord("a", logging.WARNING, "f", 1, "at %s", (ADDRESS,), None))
    assert stream.getvalue() == f"at {MASKED}\n"
    try:
        raise RuntimeError(f"no {ADDRESS}")
    except RuntimeError as error:
        failed = (RuntimeError, error, error.__traceback__)
        handler.handle(redaction._PrintableRecord("a", logging.WARNING, "f", 1, "it failed", (), failed))
    assert stream.getvalue().endswith(f"RuntimeError: no {MASKED}\n") and "Traceback" in stream.getvalue()


@pytest.mark.parametrize(
    ("whole", "kept"),
    [
        (ADDRESS, "http://127.0.0.1:5000/base"),
        ("https://dapi12345@host/", "https://host/"),
        ("postgresql://ada:pw@host/db", "postgresql://ada@host/db"),
        ("mysql+pymysql://ada@host/db", "mysql+pymysql://ada@host/db"),
    ],
)
def test_the_variable_of_mlflow_carries_the_password_of_an_address(whole: str, kept: str, monkeypatch) -> None:
    assert strip_password(whole) == kept == strip_password(kept)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", whole)
    assert restore_password(kept) == whole and restore_password("http://other:5000") == "http://other:5000"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert restore_password(kept) == kept
