"""The command line as a person meets it: one message for what is wrong, nothing written, quick help, extremes."""

import html
import io
import json
import re
import resource
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from orchestrator.cli import options
from orchestrator.consoles import say
from orchestrator.preview.names import SECTIONS, describe_names
from orchestrator.record.ledger import folders as places
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.record.ledger.records import LEDGER_FILE, encode, read_records
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.interrupts import Interrupts
from orchestrator.running.watching.progress import Progress
from orchestrator.wording import duration
from search_spaces import Budget, Objective, Resources, Search, SweepSpec, load_sweep
from search_spaces.grammar.domains import KINDS as DOMAINS
from trainers.settings.descriptions import as_yaml
from trainers.settings.registry import KINDS

FINISHED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0" / "finished"


def refused(done: subprocess.CompletedProcess[str], *texts: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and not [text for text in texts if text not in done.stderr], done.stderr


def test_help_imports_nothing_heavy(lengthwise):
    done = lengthwise.process("--help", anew=True)
    assert done.returncode == 0 and "resume" in done.stdout
    heavy = ("torch", "ray", "mlflow", "optuna", "pandas")
    code = f"import sys, orchestrator.cli.main; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_sweep_that_exists_or_runs_is_refused_before_torch_is_imported(lengthwise, tiny, tmp_path):
    tiny.write_text(tiny.read_text().replace(", direction: minimize", ""))
    assert lengthwise("run", tiny, "--storage", tmp_path).returncode == 0
    program = "import sys, orchestrator.cli.main as one\ntry: one.main()\n"
    program += "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    with SweepLock(tmp_path / "tiny"):
        for words, said in (
            (("run", tiny, "--storage", tmp_path), "tiny holds this sweep already; it is complete, so show it with"),
            (("resume", tmp_path / "tiny"), "is being run by"),
            (("extend", tmp_path / "tiny", "--seeds", "3"), "is being run by"),
        ):
            done = lengthwise.process(*words, program=program, anew=True)
            assert done.stdout == "2 False\n" and said in done.stderr


def test_a_mistake_in_the_file_of_a_sweep_that_exists_is_said_as_a_mistake(lengthwise, tiny, tmp_path):
    assert lengthwise("run", tiny, "--storage", tmp_path).returncode == 0
    again = ("run", tiny, "--storage", tmp_path, "--set")
    lengthwise.refuses(*again, "seeds=1", said="this sweep started with other values")
    mistaken = lengthwise.refuses(*again, "model.widht=3", said="unknown key")
    assert "started with other values" not in mistaken.stderr


@pytest.mark.parametrize(
    "uri", ["sqlite:////a #b.db", "sqlite:////it's: a", "sqlite:///[a]", "http://h:5000", "sqlite:///#"]
)
def test_a_tracking_address_is_taken_as_it_is(tiny, uri):
    assert load_sweep(tiny, options.with_uri(["seeds=1"], uri)).tracking.uri == uri


def test_a_tracking_address_does_not_depend_on_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert options.parse_store("sqlite:///runs/x.db") == f"sqlite:///{tmp_path}/runs/x.db"
    assert options.parse_store("sqlite:////x.db") == "sqlite:////x.db"
    assert options.parse_store("http://h:5000") == "http://h:5000"


@pytest.mark.slow
def test_a_driver_imports_what_it_drives_with_and_a_report_what_it_shows(lengthwise, tiny, tmp_path):
    """What draws, publishes and reads tables is for the process that ends a sweep; what trains is for workers."""
    assert lengthwise("run", tiny, "--storage", tmp_path).returncode == 0
    driving = "import orchestrator.sweep.sweep, orchestrator.cli.main\n"
    verb = "from orchestrator.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
    for code, what, heavy in (
        (driving, "report", ("ray", "mlflow", "pandas", "scipy", "matplotlib")),
        (verb, "report", ("torch", "ray", "mlflow")),
        (verb, "status", ("torch", "ray", "mlflow", "scipy", "optuna", "matplotlib")),
        (verb, "delete", ("torch", "ray", "mlflow", "matplotlib")),
    ):
        program = f"{code}import sys; print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
        sure = ["--yes"] if what == "delete" else []
        done = lengthwise.process(what, tmp_path / "tiny", *sure, program=program, anew=True, FIGURES="drawn")
        assert (done.returncode, done.stderr) == (0, "[]\n")


def test_bad_input_is_one_message_and_nothing_is_written(lengthwise, tiny, tmp_path):
    storage = tmp_path / "storage"
    for verb in ("validate", "plan", "run"):
        where = () if verb == "validate" else ("--storage", storage)
        refused(
            lengthwise(verb, tiny, *where, "--set", "model.name=attention_olny"), "attention_only", "--set model.name"
        )
    text = tiny.read_text()
    tiny.write_text(text.replace("average: ema", "average: bema"))
    refused(lengthwise("run", tiny, "--storage", storage), "tiny.yaml:17: objective.average", "did you mean ema?")
    tiny.write_text(text.replace("metric: total", "metric: totl"))
    refused(lengthwise("run", tiny, "--storage", storage), "tiny.yaml:17: objective.metric", "total_variation?")
    tiny.write_text(text.replace("width: 8,", "width: -8,").replace("steps: 60", "steps: 0"))
    refused(lengthwise("run", tiny, "--storage", storage), "tiny.yaml:4: model.width", "tiny.yaml:6: training.steps")
    refused(lengthwise("run", tmp_path / "absent.yaml", "--storage", storage), "there is no such file")
    refused(lengthwise("run", tiny, "--name", "../evil", "--storage", storage), "--name")
    no_store = "'mlruns' is not an address of MLflow; allowed: sqlite:///FILE, http://HOST:PORT"
    refused(lengthwise("run", tiny, "--storage", storage, "--tracking-uri", "mlruns"), f"--tracking-uri {no_store}")
    refused(lengthwise("publish", "tiny", "--storage", storage, "--tracking-uri", "mlruns"), no_store)
    (tmp_path / "notes.db").write_text("not a database")
    no_database = f"'sqlite:///{tmp_path / 'notes.db'}' names a file that is not a SQLite database"
    at_notes = ("--tracking-uri", f"sqlite:///{tmp_path / 'notes.db'}")
    refused(lengthwise("run", tiny, "--storage", storage, *at_notes), f"--tracking-uri {no_database}")
    refused(lengthwise("ui", *at_notes), no_database)
    refused(lengthwise("ui", "--tracking-uri", f"sqlite:///{tmp_path}"), "names a folder, not a SQLite database")
    tiny.write_text(text.replace("{enabled: false}", f"{{uri: {at_notes[1]}}}"))
    refused(lengthwise("run", tiny, "--storage", storage), "tracking.uri: names a file that is not a SQLite database")
    tiny.write_text(text.replace("{enabled: false}", "{uri: file:///mlruns}"))
    refused(lengthwise("run", tiny, "--storage", storage), "tracking.uri: is not an address of MLflow; given 'file:")
    refused(lengthwise("resume", tmp_path / "nothing"), "nothing does not exist")
    refused(lengthwise("status", tmp_path / "nothing"), "nothing does not exist")
    refused(lengthwise("list", "taks"), "did you mean task?")
    assert not storage.exists() and not (tmp_path / "nothing").exists()


def test_run_resume_begins_a_sweep_or_resumes_the_one_it_has_begun(lengthwise, tiny, tmp_path):
    sets = ("resources.scheduler=inline", "space={training.batch_size: {choice: [8, 16]}}", "search.configurations=5")
    words = ["run", tiny, "--resume", "--storage", tmp_path, "--name", "mine", *(f"--set={one}" for one in sets)]
    assert lengthwise(*words).returncode == 0
    ledger = (tmp_path / "mine" / LEDGER_FILE).read_bytes()
    again = lengthwise(*words)
    assert again.returncode == 0 and "2 of 2 configurations are done" in again.stdout  # three draws are duplicates
    assert (tmp_path / "mine" / LEDGER_FILE).read_bytes().startswith(ledger)
    refused(lengthwise(*words, "--set", "training.steps=61"), "training.steps")
    refused(lengthwise(*(word for word in words if word != "--resume")), "resume")
    assert not any(record.kind == "resume" for record in read_records(tmp_path / "mine"))  # it was finished


def test_validate_builds_what_the_space_can_draw(lengthwise, tiny):
    good = lengthwise("validate", tiny, "search_spaces/quickstart.yaml")
    assert good.returncode == 0 and good.stdout.count(": good;") == 2
    tiny.write_text(tiny.read_text().replace("{choice: [8, 16]}", "{choice: [8, 0]}"))
    both = lengthwise("validate", tiny, "search_spaces/quickstart.yaml")
    refused(both, "tiny.yaml:13: space.training.batch_size.choice[1]: 0 is out of bounds")
    assert "quickstart.yaml: good" in both.stdout  # the other file is still looked at


@pytest.mark.parametrize("verb", ["validate", "plan", "data", "run"])
def test_a_model_that_no_memory_holds_is_refused_at_once(lengthwise, tiny, tmp_path, verb):
    text = tiny.read_text()
    for changed, message in (
        (("width: 8", "width: 10000000000"), "GiB of memory"),
        (("y: 6", "y: 5000000"), "<= 100000"),
        (("[8, 16]", "[8, 1000000000000]"), "training.batch_size: "),
    ):
        assert changed[0] in text
        tiny.write_text(text.replace(*changed))
        refused(lengthwise(verb, tiny, *(["--storage", tmp_path] if verb == "run" else [])), message)
    assert not (tmp_path / "tiny").exists()


@pytest.mark.parametrize(
    ("part", "key", "value", "message"),
    [
        ("model", "width", 10**10, "GiB of memory"),
        ("task", "vocabulary", 10**9, "<= 1"),
        ("training", "batch_size", 10**12, "GiB of memory"),
    ],
)
def test_a_ledger_with_a_model_that_no_memory_holds_is_not_resumed(
    lengthwise, tiny, tmp_path, part, key, value, message
):
    assert lengthwise("run", tiny, "--storage", tmp_path, "--set", "resources.scheduler=inline").returncode == 0
    folder = tmp_path / "tiny"
    records = [one for one in read_records(folder) if one.kind in ("sweep", "configuration")]
    for one in records[1:]:
        one.fields["resolved"] = {**one.fields["resolved"], part: {**one.fields["resolved"][part], key: value}}
    (folder / LEDGER_FILE).write_bytes(b"".join(map(encode, records)))
    refused(lengthwise("resume", folder), message)


def test_plan_says_what_would_run_and_what_it_would_cost(lengthwise, tiny, tmp_path):
    on_ray = ("--set", "resources.scheduler=ray")
    done = lengthwise.succeeds("plan", tiny, "--storage", tmp_path / "storage", "--workers", "2", *on_ray)
    for text in (
        "configurations  4",
        "seeds           2",
        "1 pack of 6 members and 1 pack of 2 members",
        "steps           60",
        "MiB",
    ):
        assert text in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.endswith(" ")]
    assert not (tmp_path / "storage").exists()


def test_options_that_could_not_be_followed_are_refused(lengthwise, tiny, tmp_path):
    storage = tmp_path / "storage"
    inline = ("--set", "resources.scheduler=inline", "--workers", "4", "--storage", storage)
    for verb in ("plan", "run"):
        refused(lengthwise(verb, tiny, *inline), "--workers 4: with resources.scheduler: inline", "allowed: 1")
    refused(lengthwise("list", "sweeps", "--import", "my_tasks"), "--import adds names")
    refused(lengthwise("list", "task", "--storage", storage), "--storage holds sweeps")
    refused(lengthwise("list", "--storage", storage), "--storage holds sweeps")
    assert not storage.exists()


def test_the_version_is_that_of_the_package(lengthwise):
    said = lengthwise("--version").stdout
    assert said.startswith(f"lengthwise {version('lengthwise')}, torch {version('torch')}, ") and "mlflow " in said


def test_shipped_sweeps_are_found_by_their_names(lengthwise, tmp_path):
    lines = lengthwise.succeeds("list", "examples").stdout.splitlines()
    listed = dict(line.split(maxsplit=1) for line in lines[::2])
    assert all(line.startswith("    ") and line.strip() for line in lines[1::2]), "each has a description"
    assert load_sweep(listed["quickstart"]).name == "quickstart" and {"race", "averaging", "fig2_addition"} <= set(
        listed
    )
    for words in (("validate", "quickstart"), ("plan", "quickstart"), ("validate", listed["quickstart"])):
        lengthwise.succeeds(*words, cwd=tmp_path)
    few = ("training.steps=4", "evaluation.every=4", "search.configurations=1", "seeds=1", "resources.scheduler=inline")
    options = [word for one in (*few, "tracking.enabled=false") for word in ("--set", one)]
    lengthwise.succeeds("run", "quickstart", *options, cwd=tmp_path)
    assert (tmp_path / "sweeps" / "quickstart" / "sweep.yaml").is_file()
    (tmp_path / "quickstart").write_text("name: 3\n")
    lengthwise.refuses("validate", "quickstart", said="quickstart:1: name", cwd=tmp_path)


def test_a_program_is_no_sweep_file(lengthwise, tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import argparse\n")
    for verb in ("validate", "plan", "run", "data"):
        said = lengthwise.refuses(verb, program, said=f"{program}: is a Python program").stderr
        assert len(said.splitlines()) == 1 and "program:" in said


@pytest.mark.parametrize(
    ("kind", "model"),
    [("file", SweepSpec), ("search", Search), ("objective", Objective), ("resources", Resources), ("budget", Budget)],
)
def test_every_key_of_a_section_is_listed_with_its_default(kind, model):
    described = {line.split(":")[0].strip(): line for line in describe_names(kind, ())[1:]}
    assert described.keys() >= model.model_fields.keys()
    for key, field in model.model_fields.items():
        assert field.is_required() == described[key].endswith("required)")
        assert not isinstance(field.default, int | None) or f"default {as_yaml(field.default)}" in described[key]


def test_every_domain_is_listed():
    assert [line.strip().split(",")[0] for line in describe_names("space", ())[1:]] == list(DOMAINS)


def test_list_and_schema(lengthwise, tmp_path):
    overview = lengthwise("list").stdout
    assert all(
        f"lengthwise list {kind} " in overview for kind in (*KINDS, *SECTIONS, "space", "sweeps", "examples", "all")
    )
    assert "curriculum" in lengthwise("list", "--help").stdout
    listed = lengthwise("list", "all").stdout
    for text in ("task set_complement", "model attention_only", "average bema", "schedule constant", "vocabulary"):
        assert text in listed
    assert "    target: next move, or the whole distribution (sampled, soft; default sampled)" in listed
    assert "default null)" in listed and "default [100, 150, 200, 250, 300])" in listed and "default false)" in listed
    assert not [line for line in listed.splitlines() if re.search(r"; default .*['(]|\b(None|True|False)\b", line)]
    assert "an integer >= 1; default" in listed and "total_variation (minimize)" in listed
    assert "model attention_only" not in lengthwise("list", "task").stdout
    keys = lengthwise("list", "training").stdout
    assert (
        keys in listed and "    betas: AdamW moment decays (a list of numbers >= 0 and < 1; default [0.9, 0.99]" in keys
    )
    assert keys.count("\n    samples: ") == 1, "of training.stop"
    assert json.loads(lengthwise("schema").stdout)["properties"]["seeds"]
    assert json.loads(lengthwise("schema", "claims").stdout)["title"] == "lengthwise claims"
    refused(lengthwise("schema", "claim"), "claims")


def test_a_relative_file_of_mlflow_is_recorded_with_the_folder_in_which_run_was_typed(lengthwise, tiny, tmp_path):
    where, sets = tmp_path / "typed", ["--set", "search.configurations=1", "--set", "seeds=1"]
    where.mkdir()
    tiny.write_text(tiny.read_text().replace("{enabled: false}", "{enabled: false, uri: sqlite:///my.db}"))
    lengthwise.succeeds("run", tiny, "--storage", tmp_path, *sets, cwd=where)
    state = SweepState.load(tmp_path / "tiny")
    assert state.spec["tracking"]["uri"] == f"sqlite:///{where}/my.db"
    assert load_sweep(state.folder / "sweep.yaml").tracking.uri == f"sqlite:///{where}/my.db"
    assert state.spec_hash == load_sweep(tiny, sets[1::2]).spec_hash
    lengthwise.refuses("run", tiny, "--storage", tmp_path, *sets, said="holds this sweep already")
    again = lengthwise.succeeds("run", tiny, "--storage", tmp_path, *sets, "--resume", cwd=where)
    assert "note:" not in again.stdout, "the same file"


def lines(done: subprocess.CompletedProcess[str]) -> tuple[int, list[str], list[str]]:
    """The exit code, and the lines of stdout and stderr."""
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def test_grammar_and_values_are_reported_in_one_round(lengthwise, tiny, tmp_path):
    good = tiny.read_text()
    tiny.write_text(good.replace(" width: 8", " widht: 8").replace("direction: minimize", "direction: down"))
    for verb in ("validate", "plan", "data", "run"):
        where = ("--storage", tmp_path / "storage") if verb in ("plan", "run") else ()
        code, out, (first, second) = lines(lengthwise(verb, tiny, *where))
        assert code == 2 and not out
        assert first.startswith(f"{tiny}:4: model.widht: unknown key; given 8; allowed: width, value_width")
        assert second.startswith(f"{tiny}:17: objective.direction: is not allowed; given 'down'")
    assert not (tmp_path / "storage").exists()
    tiny.write_text(good + "more: [")
    code, _, (first, second) = lines(lengthwise("validate", tiny))
    assert code == 2 and "is not valid YAML" in first
    assert second == "(fix this first; the rest of the file was not checked)"
    assert len(lines(lengthwise("validate", tiny.with_name("absent.yaml")))[2]) == 1


def test_what_could_be_drawn_is_refused_before_anything_is_written(lengthwise, tiny, tmp_path):
    """The four draws of this sweep would all be below 1 and run to the end."""
    tiny.write_text(
        tiny.read_text()
        .replace("training.batch_size: {choice: [8, 16]}", "model.dropout: {uniform: [0.0, 1.01]}")
        .replace("dropout: 0.1", "dropout: 7")
    )
    expected = [
        f"{tiny}:4: model.dropout: 7 is out of bounds; the space draws model.dropout, so this value is never used: "
        "mend it, or leave it out; allowed: a number >= 0 and < 1",
        f"{tiny}:13: space.model.dropout.uniform[1]: is out of bounds; given 1.01; allowed: a number >= 0 and < 1; "
        "did you mean 0.99999?",
    ]
    done = lengthwise("run", tiny, "--storage", tmp_path / "storage")
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (2, "", expected)
    for verb in ("validate", "plan", "data"):
        assert lines(lengthwise(verb, tiny)) == (2, [], expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.yaml"]


def test_an_error_in_a_pack_is_shown_and_the_pack_can_be_tried_again(lengthwise, tiny, tmp_path):
    """Every pack raises, until what it stumbles over is out of its way."""
    folder = tmp_path / "crashing"
    folder.mkdir()
    (folder / "file").touch()
    (folder / "checkpoints").symlink_to("file")  # in the place of a folder
    one = ("--set", "search.configurations=1", "--set", "seeds=1", "--set", "resources.retries=5")
    done = lengthwise("run", tiny, "--storage", tmp_path, "--name", "crashing", *one)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert "1 pack died: FileExistsError: " in last and "train_pack.py:" in last and "--retry-failed" in last
    assert "0 diverged, 1 crashed" in done.stdout
    assert "1 pack died: FileExistsError" in (folder / "report.html").read_text()
    state = SweepState.load(folder)
    (pack,) = state.packs.values()
    assert len(pack.attempts) == 2  # an exception comes again: it is tried once more and no more
    assert "FileExistsError" in lengthwise("status", folder).stdout
    (folder / "checkpoints").unlink()
    assert lengthwise("resume", folder).returncode == 1  # it is finished, and stays so
    again = lengthwise("resume", folder, "--retry-failed")
    assert again.returncode == 0 and "1 of 1 configurations succeeded" in again.stdout, again.stdout + again.stderr
    assert SweepState.load(folder).ended == "complete" and "died:" not in again.stdout
    assert "no pack has died" in lengthwise("resume", folder, "--retry-failed").stdout


def test_commands_in_messages_can_be_pasted_whatever_the_folder_is_called(lengthwise, tiny, tmp_path):
    storage = tmp_path / 'it\'s "mine"'
    folder = storage / "tiny"
    folder.mkdir(parents=True)
    (folder / "file").touch()
    (folder / "checkpoints").symlink_to("file")  # in the place of a folder: every pack raises
    one = ("--set", "search.configurations=1", "--set", "seeds=1")
    ran, again = (lengthwise("run", tiny, "--storage", storage, *one) for _ in range(2))
    assert (ran.returncode, again.returncode) == (1, 2)
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8").partition("<summary>Commands")[2])
    for text, verbs in (
        (ran.stdout, {"status", "resume"}),
        (again.stderr, {"resume"}),
        (lengthwise("status", folder).stdout, {"resume"}),
        (page.partition("</details>")[0], {"run", "report", "compare", "export", "publish"}),
        (lengthwise("ui", "--storage", folder).stderr, {"ui"}),
    ):
        typed = re.findall(r"lengthwise (\w+ .*?)(?=;|\?|$)", text, re.MULTILINE)
        commands = [shlex.split(one, comments=True) for one in typed]
        assert {words[0] for words in commands} == verbs
        for words in commands:
            assert {str(storage), str(folder), str(folder / "sweep.yaml")} & set(words), words


@pytest.mark.slow
def test_a_name_in_unicode_one_seed_and_a_configuration_that_diverges(lengthwise, tiny, tmp_path):
    """Everything at once: the sweep succeeds with what succeeded, publishes, and reads back."""
    space = "space={training.learning_rate: {grid: [0.003, 1.0e+30]}}"
    settings = ("--set", space, "--set", "search={sampler: grid}", "--set", "seeds=1", "--set", "tracking.enabled=true")
    storage = tmp_path / "Größe 1"
    done = lengthwise.succeeds("run", tiny, "--storage", storage, "--name", "Länge über alles", *settings)
    assert "1 of 2 configurations succeeded" in done.stdout and "Traceback" not in done.stderr
    folder = storage / "Länge über alles"
    state = SweepState.load(folder)
    good, bad = (found.members[0].status for found in state.configurations.values())
    assert (good, bad) == ("complete", "failed") and state.published_at
    stored = yaml.safe_load((folder / "sweep.yaml").read_text())
    assert stored["name"] == "Länge über alles" and stored["seeds"] == [0]
    status = lengthwise("status", folder).stdout
    assert "seeds failed" in status and "complete: 1 of 2 configurations succeeded" in status
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    assert lengthwise("report", folder).returncode == 0 and (folder / "report.html").read_bytes() == before
    published = lengthwise("publish", folder)
    assert published.returncode == 0 and "0 new points were sent" in published.stdout


def test_no_success_is_exit_code_one(lengthwise, tiny, tmp_path):
    settings = (
        "--set",
        "space={}",
        "--set",
        "search={}",
        "--set",
        "seeds=1",
        "--set",
        "training.learning_rate=1.0e+30",
    )
    done = lengthwise("run", tiny, "--storage", tmp_path, "--name", "hopeless", *settings)
    assert done.returncode == 1 and "0 of 1 configurations succeeded" in done.stdout, done.stdout + done.stderr
    assert SweepState.load(tmp_path / "hopeless").ended == "failed"


def test_storage_that_cannot_be_written_names_the_path(lengthwise, tiny, tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = lengthwise("run", tiny, "--storage", tmp_path / "file")
    assert done.returncode == 2 and "file/tiny: cannot be made: a file has the name of" in done.stderr
    full, (soft, hard) = tmp_path / "full" / "tiny", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # too little for the ledger's first record
    try:
        done = lengthwise("run", tiny, "--storage", full.parent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.returncode == 1 and "File too large" in done.stderr and str(full) in done.stderr
    assert not (full / "events.jsonl").exists() and not (full / "sweep.yaml").exists()


@pytest.mark.parametrize("name", ["report.html", "report.csv", "curves.parquet"])
def test_a_folder_where_a_report_is_written_is_named(lengthwise, tmp_path, name):
    folder = Path(shutil.copytree(FINISHED, tmp_path / "finished"))
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    done = lengthwise("report", folder)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done
    assert f"{folder / name}: cannot be " in done.stderr and "Is a directory" in done.stderr


def test_ui_without_sweeps_creates_nothing(lengthwise, tmp_path):
    new = tmp_path / "new"
    refused(lengthwise("ui", "--storage", new), f"{new} does not exist; --storage names the folder of the sweeps")
    high = lengthwise("ui", "--port", "99999")
    assert high.returncode == 2 and "Invalid value for '--port'" in high.stderr and "65535" in high.stderr
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "events.jsonl").touch()
    refused(lengthwise("ui", "--storage", tmp_path / "mine"), "is itself a sweep", f"--storage {tmp_path}")


def test_default_storage(monkeypatch):
    for variable in (places.STORAGE_VARIABLE, "RAY_JOB_CONFIG_JSON_ENV_VAR"):
        monkeypatch.delenv(variable, raising=False)
    assert places.default_storage() == Path("sweeps")
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert places.default_storage() == Path.home() / "lengthwise-sweeps"
    monkeypatch.setenv(places.STORAGE_VARIABLE, "/data/sweeps")
    assert places.default_storage() == Path("/data/sweeps")


@pytest.mark.parametrize(("words", "storage"), [(("--storage", "out"), ""), ((), "out")])
def test_a_job_refuses_a_storage_in_its_temporary_folder(lengthwise, tiny, tmp_path, monkeypatch, words, storage):
    monkeypatch.setitem(lengthwise.environment, "RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    monkeypatch.setitem(lengthwise.environment, places.STORAGE_VARIABLE, storage)
    said = "the storage out is relative, and the folder of a job is a temporary copy; allowed: a whole path"
    lengthwise.refuses("run", tiny, *words, said=said, cwd=tmp_path)
    assert not (tmp_path / "out").exists()


def test_progress_in_a_log_is_a_line_that_says_something_new(capsys):
    progress = Progress(Console(), "plain")
    with progress.showing():
        for failed in ("3", "3", "4"):
            progress.show([("configurations", "1/6"), ("seeds failed", failed)])
            assert not progress.due
    assert capsys.readouterr().out.splitlines() == [f"configurations 1/6 · failed {failed}" for failed in "34"]


@pytest.mark.parametrize("large", [1, 10**6])
def test_progress_in_a_log_is_one_short_line_a_minute(capsys, monkeypatch, large):
    now = 1000.0
    monkeypatch.setattr("orchestrator.running.watching.progress.time.monotonic", lambda: now)
    progress, shown = Progress(Console(), "plain"), []
    for second in range(180):
        now += 1.0
        if progress.due:
            shown.append(second)
            counts = f"{second + large}/{12 * large}"
            progress.show(
                [
                    *(("round of the race", "3"), ("configurations", counts), ("seeds", counts), ("seeds failed", "0")),
                    *(("packs", counts), ("first evaluation", "begins in about 3 h 12 min")),
                    *(("best so far", "0.0262 (#1234567)"), ("member-steps", f"43 %, {large:,} per second")),
                    *(("elapsed", "5 h 03 min"), ("time left", "about 12 h 10 min"), ("phase", "compiling, training")),
                ]
            )
    lines = capsys.readouterr().out.splitlines()
    assert shown == [0, 60, 120] and len(lines) == 3
    assert all(len(line) < 100 for line in lines)
    assert all("43 %" in line and "time left about 12 h 10 min" in line for line in lines)


def test_progress_on_a_terminal_is_a_table():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    progress = Progress(console, "live [sweep]")
    with progress.showing():
        progress.show([("seeds failed", "3"), ("time left", "-")])
        say(console, "pack abc: the worker died")
    text = console.file.getvalue()
    assert all(shown in text for shown in ("live [sweep]", "seeds failed", "time left", "the worker died"))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (3600, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_a_signal_waits_for_the_record_that_is_being_written():
    import os
    import signal

    with Interrupts() as interrupts:
        done = []
        with pytest.raises(KeyboardInterrupt), interrupts.held(), interrupts.held():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("written")
        assert done == ["written"]
        with interrupts.held():  # the end record, after the interruption
            done.append("end")
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_a_sweep_of_the_storage_folder_is_found_by_its_name(lengthwise, tiny, tmp_path, monkeypatch):
    storage = tmp_path / "kept"
    monkeypatch.setitem(lengthwise.environment, "LENGTHWISE_STORAGE", str(storage))
    assert lengthwise("run", tiny, "--set", "search.configurations=1", "--set", "seeds=1").returncode == 0
    for verb in ("status", "resume"):
        done = lengthwise(verb, "tiny")
        assert done.returncode == 0 and str(storage / "tiny") in done.stdout, done.stderr
    for words in ((), ("--storage", storage)):  # without a sweep: all of the storage folder
        listed = lengthwise("status", *words, cwd=tmp_path)
        assert [line.split()[0] for line in listed.stdout.splitlines()] == ["name", "tiny"], listed
    for words in (("--trace",), ("--follow",), ("--storage", tmp_path / "absent")):
        assert lengthwise("status", *words, cwd=tmp_path).returncode == 2
    wrong = lengthwise("status", "tinny")
    assert (wrong.returncode, wrong.stderr) == (2, f"tinny does not exist; did you mean {storage / 'tiny'}?\n")
    wrong = lengthwise("status", "sweeps/nope")
    here = Path(__file__).parents[3]
    assert (wrong.returncode, wrong.stderr) == (2, f"sweeps/nope does not exist; it is not in {here / 'sweeps'}\n")
    for verb in (("report", "other"), ("compare", "other", "0", "1")):
        wrong = lengthwise(*verb)
        where = f"it is not in {here} or {storage} (LENGTHWISE_STORAGE names another folder)"
        assert (wrong.returncode, wrong.stderr) == (2, f"other does not exist; {where}\n")


def test_a_closed_output_is_no_fault_and_gets_into_no_file(lengthwise, tmp_path):
    closed, opened = tmp_path / "closed" / "study", tmp_path / "opened" / "study"
    line = f'exec "{sys.executable}" -m orchestrator init "{closed}" <&- >&- 2>&-'
    subprocess.run(["sh", "-c", line], env=lengthwise.environment, cwd=Path(__file__).parents[3], check=True)
    lengthwise.succeeds("init", opened)
    assert sorted(path.name for path in closed.iterdir()) == sorted(path.name for path in opened.iterdir()) != []
    for path in closed.iterdir():
        assert path.read_text().replace(str(closed), "") == (opened / path.name).read_text().replace(str(opened), "")


@pytest.mark.slow
def test_characters_that_an_output_lacks_are_replaced(lengthwise, study):
    """Those of lengthwise in this process, those of a user's own code in workers."""
    with (study / "my_tasks.py").open("a", encoding="utf-8") as file:
        file.write("\nprint('length \u2264 8')\n")
    words = ("run", study / "own.yaml", "--storage", study, "--set", "resources.scheduler=local")
    ran = lengthwise.process(*words, cwd=study, anew=True, PYTHONIOENCODING="ascii")
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    assert "length ? 8" in ran.stdout and "complete: 4 of 4" in ran.stdout
    assert lengthwise.process("--help", anew=True, PYTHONIOENCODING="ascii").returncode == 0


def test_a_limit_of_memory_is_one_sentence(lengthwise, tiny, tmp_path):
    line = f'ulimit -v 300000; exec "{sys.executable}" -m orchestrator plan "$@"'
    words, where = ["bash", "-c", line, "plan", tiny], Path(__file__).parents[3]
    done = subprocess.run(words, env=lengthwise.environment, cwd=where, capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
    assert re.fullmatch(
        r"memory ran out .* may use 0.3 GiB \(ulimit -v\): \w+: .*; it needs 2 GiB and more\n", done.stderr
    )


@pytest.mark.slow
def test_a_sweep_outlives_its_output(lengthwise, tiny, tmp_path):
    """An output that is full is one sentence and exit code 1; a closed pipe is no fault."""
    for sink, name, code in (("> /dev/full", "full", 1), ("| head -1", "piped", 0)):
        line = f'set -o pipefail; "{sys.executable}" -m orchestrator run "$@" {sink}'
        words = ["bash", "-c", line, "run", tiny, "--storage", tmp_path, "--name", name, "--set", "training.steps=2"]
        where = Path(__file__).parents[3]
        ran = subprocess.run(words, env=lengthwise.environment, cwd=where, capture_output=True, text=True)
        assert ran.returncode == code, ran.stderr
        said = "standard output cannot be written: No space left on device; the rest of it is dropped\n"
        assert ran.stderr == (said if code else "")
        state = SweepState.load(tmp_path / name)
        assert state.ended == "complete" and (tmp_path / name / "report.html").exists()


@pytest.mark.slow
def test_validate_tries_a_sweep_and_shows_the_lines_of_a_fault(lengthwise, study, own_code_forgotten):
    good = lengthwise("validate", study / "own.yaml", "--smoke")
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.endswith("good; built 4 configurations; 2 structures trained for a step and evaluated\n")
    shipped = lengthwise("validate", "search_spaces/quickstart.yaml")
    assert shipped.returncode == 0 and "trained for a step" not in shipped.stdout


def test_a_fault_that_validate_finds_by_trying_is_a_failure_and_no_bad_input(lengthwise, study, own_code_forgotten):
    with (study / "my_tasks.py").open("a") as file:
        file.write("\n    def loss(self, logits_MBTV, batch):\n        raise ValueError('no loss')\n")
    done = lengthwise("validate", study / "own.yaml", "--smoke")
    assert done.returncode == 1 and done.stdout == "" and "Traceback" not in done.stderr
    first, place, line = done.stderr.splitlines()
    assert "configuration #0 cannot take a training step: ValueError: no loss" in first
    assert place.startswith('  File "') and "my_tasks.py" in place and line.strip() == "raise ValueError('no loss')"
    assert sorted(path.suffix for path in study.iterdir() if path.is_file()) == [".py", ".py", ".yaml"]
