"""No password or token is in any text that leaves, in whatever form it was written."""

import io
import logging
import sys
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import redaction
from orchestrator.consoles import make_console, say
from orchestrator.errors import LengthwiseError
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import LEDGER_FILE, read_records
from orchestrator.redaction import redact, remember, remove_userinfo, unmasked
from orchestrator.tracking.contents.run_contents import RunContents

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
        ("http://host:80/a@b http://ada:p/w@host/a@b", "http://host:80/a@b http://ada:***@host/a@b"),
        ("https://host/x?a=1&access_token=abc&b=2#c", "https://host/x?a=1&access_token=***&b=2#c"),
        ("postgresql://host/db?user=ada&password=pw", "postgresql://host/db?user=ada&password=***"),
    ],
)
def test_userinfo_of_any_address_is_masked(text: str, masked: str) -> None:
    assert redact(text) == masked == redact(masked)


@pytest.mark.parametrize("password", ["my s3cretpass", "2024/s3cretpass", "s3cret/pass word"])
@pytest.mark.parametrize("start", ["postgresql", "mysql+pymysql", "mssql+pyodbc"])
def test_a_password_of_a_database_is_masked_as_sqlalchemy_reads_it(start: str, password: str, monkeypatch) -> None:
    uri, masked = f"{start}://ada:{password}@127.0.0.1:9/mlflow", f"{start}://ada:***@127.0.0.1:9/mlflow"
    assert redaction.masked_record({"uri": uri, "spec": {"tracking": {"uri": uri}}}) == {
        "uri": masked,
        "spec": {"tracking": {"uri": masked}},
    }
    assert redact(f"tracking.uri={uri}") == f"tracking.uri={masked}" and redact(masked) == masked
    assert redaction.is_masked(masked) and not redaction.is_masked(uri)
    remember(uri)
    assert redact(f"MLflow at {uri}: no login") == f"MLflow at {masked}: no login"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert unmasked(masked) == uri


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
    console.print(ADDRESS)
    say(console, ADDRESS)
    assert capsys.readouterr().out == f"{redact(ADDRESS)}\n" * 2
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
    try:
        raise RuntimeError(f"no {SECRET}")
    except RuntimeError:
        handler.handle(redaction._MaskedRecord("a", logging.WARNING, "f", 1, "it failed", (), sys.exc_info()))
    assert stream.getvalue().endswith("RuntimeError: no ***\n") and "Traceback" in stream.getvalue()


@pytest.mark.parametrize("password", ["mlflow", "rotary", "sweeps"])
def test_a_password_that_is_a_word_changes_no_data(tmp_path, monkeypatch, capsys, password: str) -> None:
    """Neither the address that is then used, nor paths, nor searched values, nor what a command prints of them."""
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)
    spec = {
        "space": {"model.position": {"grid": ["rotary", "mlflow", "https://a:sweeps@h"]}},
        "tracking": {"uri": "http://ada:mlflow@mlflow:5000", "experiment": "sweeps"},
    }
    values = {"model.position": "rotary", "task.corpus": "https://a:sweeps@h/mlflow"}
    first = {"name": "sweeps", "study": "mlflow", "spec": spec, "spec_hash": "h", "provenance": {"hostname": "mlflow"}}
    with Ledger.create(tmp_path / "mlflow", first) as ledger:
        ledger.append("configuration", values=values)
        ledger.append("publish", uri="http://mlflow:5000", ok=False, message=f"at http://mlflow:5000: not {password}")
        ledger.append("attempt", pack_id="mlflow", attempt=1, error=f"E: {password}", trace=f"T\nE: {password}")
    begun, drawn, published, died = (record.fields for record in read_records(tmp_path / "mlflow"))
    assert begun["spec"] == spec | {"tracking": {"uri": "http://ada:***@mlflow:5000", "experiment": "sweeps"}}
    assert (begun["name"], begun["study"], begun["provenance"]) == ("sweeps", "mlflow", {"hostname": "mlflow"})
    assert drawn["values"] == values
    assert published["uri"] == "http://mlflow:5000" and published["message"] == "at http://mlflow:5000: not ***"
    assert died == {"pack_id": "mlflow", "attempt": 1, "error": "E: ***", "trace": "T\nE: ***"}
    said = "/sweeps/mlflow/x.db, sweeps/rotary, http://mlflow:5000/mlflow?a=1"
    assert redact(f"{said} {password}") == f"{said} ***"
    say(make_console(), f"{said} best: rotary mlflow sweeps")
    assert capsys.readouterr().out == f"{said} best: rotary mlflow sweeps\n"
    params, tags = {"model.position": "rotary"}, {"a": "mlflow"}
    contents = RunContents(name="n", status="FINISHED", start_ms=0, end_ms=None, params=params, tags=tags, points=())
    text = contents.within_limits()
    assert text.params == {"model.position": "rotary"} and text.tags["a"] == "mlflow"


@pytest.mark.parametrize("path", ["lengthwise", "T0/B0/s3cret", "s3cret"])
def test_the_path_of_a_webhook_is_masked_alone_unless_it_is_a_word(path: str) -> None:
    address = f"https://ntfy.sh/{path}"
    redaction.remember_all_of(address)
    assert redact(f"{address} refused; {path} resume sweeps/tiny") == (
        f"*** refused; {path if path == 'lengthwise' else '***'} resume sweeps/tiny"
    )


def test_a_masked_address_is_made_whole_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = redact(ADDRESS)
    assert unmasked(ADDRESS) == ADDRESS and unmasked(masked) is None
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRET)
    assert unmasked(masked) == ADDRESS
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", ADDRESS)
    assert unmasked(masked) == ADDRESS
    assert unmasked(masked.replace("5000", "5001")) is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ada:mlflow@mlflow:5000")
    assert unmasked("http://ada:***@mlflow:5000") == "http://ada:mlflow@mlflow:5000"
    assert unmasked("postgresql://host/db?password=***") is None
    assert remove_userinfo(ADDRESS) == "http://127.0.0.1:5000/base"
