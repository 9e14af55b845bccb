"""No password or token is in any text that leaves, in whatever form it was written."""

import io
import logging
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import redaction
from orchestrator.consoles import make_console, say
from orchestrator.errors import LengthwiseError
from orchestrator.record.ledger import Ledger
from orchestrator.record.records import LEDGER_FILE, read_records
from orchestrator.redaction import redact, redacted, remember, unmasked, without_userinfo

SECRET = "hört/er 2@x"
ADDRESS = f"http://ada:{quote(SECRET, safe='')}@127.0.0.1:5000/base"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", set())
    for key in ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.delenv(key, raising=False)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("no connection to http://ada:pw@host:80/x?y=1.", "no connection to http://ada:***@host:80/x?y=1."),
        ("'https://ada:p@w:1@host'", "'https://ada:***@host'"),
        ("https://dapi12345@host/", "https://***@host/"),
        ("postgresql://ada:pw@host/db and ssh://git@host", "postgresql://ada:***@host/db and ssh://git@host"),
        ("sqlite:////a/b@c.db, http://host:80/a, a: b@c", "sqlite:////a/b@c.db, http://host:80/a, a: b@c"),
    ],
)
def test_userinfo_of_any_address_is_masked(text: str, masked: str) -> None:
    assert redact(text) == masked == redact(masked)


def test_a_remembered_password_is_masked_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"login of ada with {SECRET} or {quote(SECRET, safe='')} or {quote(SECRET)} failed"
    assert redact(said) == said
    remember(ADDRESS)
    assert redact(said) == "login of ada with *** or *** or *** failed" or SECRET not in redact(said)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "from the environment")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken-t0ken")
    assert redact("from the environment, t0ken-t0ken, other") == "***, ***, other"


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=20).filter(
        lambda s: "***" not in s
    ),
    st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=8),
)
def test_no_password_survives_in_an_address(secret: str, user: str) -> None:
    masked = redact(f"see http://{user}:{quote(secret, safe='')}@host/path")
    assert masked == f"see http://{user}:***@host/path"


def test_wherever_text_leaves(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    remember(ADDRESS)
    assert SECRET not in str(LengthwiseError(f"{SECRET} at {ADDRESS}"))
    console = make_console()
    console.print(f"{ADDRESS} {SECRET}")
    say(console, f"{ADDRESS} {SECRET}")
    assert (
        SECRET not in (out := capsys.readouterr().out) and quote(SECRET, safe="") not in out and out.count("***") == 4
    )
    first = {"name": "s", "study": "t", "spec": {"tracking": {"uri": ADDRESS}}, "spec_hash": "h", "provenance": {}}
    with Ledger.create(tmp_path / "s", first) as ledger:
        ledger.append("publish", uri=ADDRESS, ok=False, message=f"no {SECRET}")
    text = (tmp_path / "s" / LEDGER_FILE).read_text()
    assert SECRET not in text and quote(SECRET, safe="") not in text and "rter" not in text
    assert read_records(tmp_path / "s")[0].fields["spec"]["tracking"]["uri"] == redact(ADDRESS)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.handle(redaction._MaskedRecord("a", logging.WARNING, "f", 1, "at %s", (ADDRESS,), None))
    assert stream.getvalue() == f"at {redact(ADDRESS)}\n"


def test_nested_data_keeps_its_shape() -> None:
    assert redacted({"a://b:c@": [ADDRESS, 1, None, (True, 2.5)]}) == {
        "a://b:c@": [redact(ADDRESS), 1, None, [True, 2.5]]
    }


def test_a_masked_address_is_made_whole_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = redact(ADDRESS)
    assert unmasked(ADDRESS) == ADDRESS and unmasked(masked) is None
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRET)
    assert unmasked(masked) == ADDRESS
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", ADDRESS)
    assert unmasked(masked) == ADDRESS
    assert unmasked(masked.replace("5000", "5001")) is None
    assert without_userinfo(ADDRESS) == "http://127.0.0.1:5000/base"
