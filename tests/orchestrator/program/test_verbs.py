"""Searches, races and every verb on sweeps of programs and functions, as a user types them."""

import json
import re
from pathlib import Path

import pytest

import lengthwise as package
from orchestrator.export.best import make_best_file
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.judging_notes import describe_selection
from orchestrator.report.sentences import describe_best
from orchestrator.report.tables.provenance_section import make_provenance_section
from orchestrator.results.make_summary import summarize
from orchestrator.results.pack_environments import PackEnvironments, read_pack_code
from orchestrator.results.seed_failures import make_retry_command
from orchestrator.running.watching.status import make_status_rows
from orchestrator.upkeep.deletion import delete_sweep, plan_deletion
from search_spaces import parse_sweep
from tests.command_line import CommandLine
from tests.orchestrator.program.studies import Study, assert_equal_curves, script
from tests.orchestrator.running.ledgers import same_curves

FUNCTION = """
import json

def train(config, seed, report, checkpoints):
    kept = checkpoints / "last.json"
    step, value = json.loads(kept.read_text()) if kept.exists() else (0, 1 + seed)
    while step < STEPS:
        step, value = step + 1, value * 48271 % 2147483647
        if step % 10 == 0:
            share = value / 2**31
            stop = report(step, {"acc": {n: share * config["lr"] / n for n in (5, 10, 20)}}, loss=share)
            kept.write_text(json.dumps([step, value]))
            if stop:
                return
"""
SPACE = {"config.lr": {"log_uniform": [0.01, 1.0]}}
PROGRAMS = {"command": {}, "function": {"program": {"function": "mine.train"}}}
programs = pytest.mark.parametrize("changes", PROGRAMS.values(), ids=PROGRAMS)
some_slow = pytest.mark.parametrize(  # many starts of programs take time
    "changes", [pytest.param({}, marks=pytest.mark.slow), PROGRAMS["function"]], ids=PROGRAMS
)


def write(study: Study, steps: int = 30, **changes: object) -> Path:
    file = study.write(script(), training={"steps": steps}, **changes)
    (study.folder / "mine.py").write_text(f"STEPS = {steps}\n{FUNCTION}")
    return file


def starts(state: SweepState) -> list[int]:
    """Return the step at which each start of a member began, by its log."""
    logs = sorted(state.folder.glob("members/*/*.log"))
    return sorted(int(log.read_text().splitlines()[0].rpartition(" ")[2]) for log in logs)


@some_slow
def test_race_with_rungs(changes, study: Study, own_code_forgotten) -> None:
    """Survivors of a rung go on from their checkpoint, the others end there, and nobody trains beyond it."""
    racing = {"first": 2, "keep": 0.5, "steps": {"first": 20, "keep": 0.5, "guard": False}}
    search = {"configurations": 4, "racing": racing}
    write(study, 60, space=SPACE, search=search, seeds=3, **changes)
    state = study.run()
    assert state.end_status == "complete", study.output
    pruned = {name for name, configuration in state.configurations.items() if configuration.pruned_at is not None}
    assert len(pruned) == 2
    reports = {path.parent.name: path for path in state.folder.glob("members/*/*.jsonl")}
    for pack in state.packs.values():
        ((name, _),) = pack.members
        assert list(pack.evaluations) == ([10, 20] if name in pruned else [10, 20, 30, 40, 50, 60])
    for member, path in reports.items():
        steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
        assert (max(steps) == 20) == (member.partition("-")[0] in pruned)
    if not changes:
        assert starts(state) == [0] * (8 + 1) + [20] * 4  # and the third seed of the best

    # Every value is that of a member that was never stopped.
    write(study, 60, space=SPACE, search={"configurations": 4}, seeds=3, **changes)
    whole = study.run(name="whole")
    assert set(state.configurations) == set(whole.configurations)
    assert same_curves(state, whole)


def test_program_that_does_not_stop_at_a_rung(study: Study) -> None:
    """What it reports beyond is not recorded at the rung, and is taken over by those that survive."""
    racing = {"first": 1, "keep": 0.5, "steps": {"first": 20, "keep": 0.5, "guard": False}}
    write(study, 60, space=SPACE, search={"configurations": 2, "racing": racing}, seeds=2)
    code = (study.folder / "train.py").read_text().replace("if stop:", "if False:")
    (study.folder / "train.py").write_text(code)
    state = study.run("resources.grace_seconds=60")
    assert state.end_status == "complete", study.output
    assert sorted(len(pack.evaluations) for pack in state.packs.values()) == [2, 6, 6]
    assert starts(state) == [0, 0, 0]


@pytest.mark.parametrize("sampler", ["random", "tpe", "qmc", "grid"])
def test_samplers(sampler: str, study: Study, own_code_forgotten) -> None:
    space = {"config.lr": {"grid": [0.1, 0.2, 0.3, 0.4]}} if sampler == "grid" else SPACE
    search = None if sampler == "grid" else {"sampler": sampler, "configurations": 4, "generation": 2}
    if sampler in ("random", "qmc"):
        search.pop("generation")
    write(study, space=space, search=search, program={"function": "mine.train"})
    state = study.run()
    assert state.end_status == "complete", study.output
    assert len(state.configurations) == 4
    for configuration in state.configurations.values():
        assert configuration.is_scored and configuration.score is not None
        assert configuration.resolved["config"]["lr"] == configuration.values["config.lr"]


def test_a_member_is_run_to_its_first_report_before_a_sweep(
    study: Study, lengthwise: CommandLine, own_code_forgotten
) -> None:
    file = write(study, space=SPACE, search={"configurations": 2}, seeds=2, **PROGRAMS["function"])
    before = {path.name for path in study.folder.iterdir()}
    assert re.search(r"estimated time +about .*step 10\b", lengthwise.succeeds("plan", file, "--measure").stdout)
    assert "step 10 " in lengthwise.succeeds("validate", file, "--smoke").stdout
    assert {path.name for path in study.folder.iterdir()} - {"__pycache__"} == before

    (study.folder / "mine.py").write_text("def train(config, seed, report, checkpoints):\n    config['no_such_key']\n")
    own_code_forgotten()
    for words in (("plan", file, "--measure"), ("validate", file, "--smoke")):
        failed = lengthwise(*words)
        assert failed.returncode == 1 and "#0" in failed.stderr and "no_such_key" in failed.stderr


@pytest.mark.parametrize(
    ("code", "error"),
    [("1 / 0", "ZeroDivisionError"), ("run.report(10, {'ac': 1.0})", "'ac'")],
    ids=["crash", "report"],
)
def test_a_smoke_test_names_the_script_that_the_user_edits(
    code: str, error: str, study: Study, lengthwise: CommandLine
) -> None:
    file = study.write(script(step=f"step == 5 and {code}"))
    for words in (("validate", file, "--smoke"), ("plan", file, "--measure")):
        failed = lengthwise(*words)
        message = "".join(failed.stderr.split())  # the console breaks long lines
        assert failed.returncode == 1 and error in failed.stderr
        assert f'File"{study.folder / "train.py"}",line' in message and "/code/" not in message


def test_draws_that_repeat_another_take_no_time(study: Study, lengthwise: CommandLine, own_code_forgotten) -> None:
    space = {"config.lr": {"choice": [0.1, 0.2]}}
    program = {**PROGRAMS["function"]["program"], "member_minutes": 1}
    file = write(study, space=space, search={"configurations": 20}, seeds=2, program=program)
    planned = lengthwise.succeeds("plan", file, "--workers", "1").stdout
    assert re.search(r"estimated time +about 4 min", planned)


def test_verbs(study: Study, lengthwise: CommandLine, own_code_forgotten, tmp_path: Path) -> None:
    file = write(study, space=SPACE, search={"configurations": 2}, seeds=2, **PROGRAMS["function"])
    storage, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    elsewhere.mkdir()
    lengthwise.succeeds("validate", file)
    lengthwise.succeeds("plan", file)
    lengthwise.succeeds("run", file, "--storage", storage)
    folder = storage / "prog"

    # All of the following works wherever it is called.
    lengthwise.succeeds("extend", folder, "--seeds", "3", cwd=elsewhere)
    lengthwise.succeeds("extend", folder, "--configurations", "3", cwd=elsewhere)
    state = SweepState.load(folder)
    assert sum(len(configuration.members) for configuration in state.configurations.values()) == 9
    assert state.end_status == "complete"
    lengthwise.succeeds("confirm", folder, "--top", "1", "--seeds", "2", cwd=elsewhere)
    confirmed = SweepState.load(storage / "prog-confirm")
    (name,) = confirmed.configurations
    assert name in state.configurations and confirmed.end_status == "complete"

    output = lengthwise.succeeds("compare", folder, "0", "1", cwd=elsewhere).stdout
    assert "whether seeds share anything random is not known" in output
    assert "same training data" not in output
    lengthwise.succeeds("status", folder, cwd=elsewhere)
    lengthwise.succeeds("report", folder, cwd=elsewhere)
    page = (folder / "report.html").read_text()
    assert "same training data" not in page

    lengthwise.succeeds("export", folder, "--curves", "c.csv", "--best", "best.yaml", cwd=elsewhere)
    assert len((elsewhere / "c.csv").read_text().splitlines()) == 1 + 9 * 3 * 3
    (elsewhere / "mine.py").write_bytes((study.folder / "mine.py").read_bytes())
    lengthwise.succeeds("run", elsewhere / "best.yaml", "--storage", storage)
    best = SweepState.load(storage / "prog-best")
    assert set(best.configurations) <= set(state.configurations)
    assert best.end_status == "complete"

    for verb in (["evaluate", folder, "0", "--lengths", "30"], ["extend", folder, "--steps", "60"], ["data", file]):
        refused = lengthwise(*verb, cwd=elsewhere)
        assert refused.returncode == 2 and "Traceback" not in refused.stderr, refused
        assert "this sweep trains a program" in refused.stderr


def test_an_exported_configuration_keeps_every_key_of_its_config(study: Study) -> None:
    """Classes of lengthwise record a `revision`, which the file leaves out; a key of a script may have that name."""
    study.write(config={"revision": "main", "inner": {"revision": 2}})
    state = study.run()
    exported = parse_sweep(make_best_file(state, summarize(state)), "best.yaml")
    assert exported.config == {"revision": "main", "inner": {"revision": 2}, "lr": 0.5}


def test_lengths_and_averages_of_which_there_is_one(study: Study) -> None:
    """They are singular, and an average without another is not named."""
    study.write()
    result = summarize(study.run())
    descriptions = [describe_selection(result), describe_best(result)]
    assert "length 10" in descriptions[0] and "length 20" in descriptions[0] and "raw" not in descriptions[0]
    assert "selection length 10" in descriptions[1] and "test length 20" in descriptions[1]
    assert "lengths" not in "".join(descriptions)
    code = script(reported='run.report(step, {"acc": 0.5}, average="ema")')
    study.write(code, evaluation__averages=["raw", "ema"], objective__lengths=[5, 10], objective__average="raw")
    said_of_two = describe_selection(summarize(study.run(name="two")))
    assert "raw" in said_of_two and "lengths 5" in said_of_two


def test_deleting_leaves_nothing_of_a_program(study: Study) -> None:
    study.write()
    folder = study.run().folder
    assert list(folder.glob("members/*/*.log"))
    delete_sweep(plan_deletion(folder))
    assert not folder.exists()


def test_python(study: Study, tmp_path: Path) -> None:
    file = write(study, space=SPACE, search={"configurations": 2})
    sweep = package.run(file, storage=tmp_path, seeds=2, **{"resources.scheduler": "inline"})
    assert sweep.status == "complete"
    assert len(package.open_sweep(sweep.folder).curves) == 2 * 2 * 3 * 3


@programs
def test_retry_failed(changes, study: Study, own_code_forgotten) -> None:
    """Members that were given up go on from their checkpoints once the program is mended and that is accepted."""
    write(study, space=SPACE, search={"configurations": 2}, **changes)
    for name in ("train.py", "mine.py"):
        code = (study.folder / name).read_text()
        (study.folder / name).write_text(code.replace("share = value", "assert step < 20; share = value"))
    state = study.run()
    assert (state.end_status, len(state.failed_packs)) == ("failed", 2)
    labels = {label for label, _ in make_status_rows(state)}
    assert {"seeds", "crashed"} <= labels and not [label for label in labels if "pack" in label or label == "runs"]
    for pack in state.packs.values():  # they ran copies, but name the files that the user edits
        texts = [*pack.attempts, *map(str, pack.traces)]
        assert any(f"{study.folder}/" in text for text in texts) and f"{state.folder}/code/" not in "".join(texts)

    # Without the option nothing is trained, and the last line before the screen has the command.
    attempts = [pack.attempts for pack in state.packs.values()]
    state = study.resume(state)
    assert [pack.attempts for pack in state.packs.values()] == attempts
    assert study.output.partition(f"Sweep {state.name}")[0].rstrip().endswith(make_retry_command(state))
    own_code_forgotten()
    write(study, space=SPACE, search={"configurations": 2}, **changes)
    with pytest.raises(Exception, match="has changed since"):
        study.resume(state, retry_failed=True)
    state = study.resume(state, retry_failed=True, accept_code_change=True)
    assert (state.end_status, state.failed_packs) == ("complete", [])
    if not changes:
        assert starts(state) == [0, 0, 10, 10, 10, 10]  # each of the first two attempts reported a new step
    own_code_forgotten()
    assert_equal_curves(state, study.run(name="unbroken"))


@pytest.mark.parametrize(
    ("crash", "others"), [("5", 0), ("5, checkpoint", 2), ("15", 2)], ids=["nothing left", "checkpoint", "report"]
)
def test_code_is_said_to_differ_only_if_something_of_the_old_code_is_left(
    crash: str, others: int, study: Study, own_code_forgotten
) -> None:
    """A crash at step 5 is before the first report, at step 15 behind it."""
    step = crash.partition(",")[0]
    saves = "(run.checkpoints / 'old').write_text('1'), " if "checkpoint" in crash else ""
    study.write(script(step=f"step == {step} and ({saves}1 / 0)"), seeds=2)
    state = study.run()
    assert len(state.failed_packs) == 2 and not PackEnvironments.from_state(state).code_sentences
    study.write(script(), seeds=2)
    state = study.resume(state, retry_failed=True, accept_code_change=True)
    assert (state.end_status, state.failed_packs, len(state.codes)) == ("complete", [], 2)
    environments = PackEnvironments.from_state(state)
    assert (environments.began_with_other_code, environments.seed_count) == (others, 2)
    cells = make_provenance_section(summarize(state)).cells
    assert sum("train.py" in value for value in cells["value"]) == (2 if others else 1)
    assert len({value for what, value in zip(cells["what"], cells["value"], strict=True) if "code " in what}) == sum(
        "code " in what for what in cells["what"]
    )
    assert bool(environments.code_sentences) == bool(others)
    assert ("different code" in dict(make_status_rows(state)).get("runs differ", "")) == bool(others)
    assert {" then " in text for code in read_pack_code(state).values() for text in code.values()} >= {bool(others)}


@pytest.mark.parametrize(
    ("saved", "counts"),
    [("pass", (3, 2, 0, 3)), ("continue", (1, 0, 2, 3))],
    ids=["from a saved state", "from the start"],
)
def test_seeds_that_newer_code_ended_are_counted_apart(
    saved: str, counts: tuple[int, ...], study: Study, own_code_forgotten
) -> None:
    """A seed that nothing was saved of counts with the newest code alone, though its first report stays the earlier."""
    study.write(script(step="step == 15 and given['seed'] in '12' and 1 / 0", reported=saved), seeds=3)
    state = study.run()
    first_reports = {pack_id: pack.evaluations[10] for pack_id, pack in state.packs.items()}
    study.write(script(reported=saved).replace("share = value", "share = 0.5 * value"), seeds=3)
    state = study.resume(state, retry_failed=True, accept_code_change=True)
    assert starts(state)[-1] == (10 if saved == "pass" else 0) and not state.failed_packs
    assert {pack_id: pack.evaluations[10] for pack_id, pack in state.packs.items()} == first_reports
    environments = PackEnvironments.from_state(state)
    began, ended = environments.began_with_other_code, environments.ended_with_newest_code
    assert (began, ended, environments.trained_again, environments.seed_count) == counts
    assert sorted(len(group.packs) for group in environments.groups) == ([2, 3] if saved == "pass" else [1, 2])
    (sentence,) = environments.code_sentences
    assert re.findall(r"\d+", sentence) == ["1", "3", "2"]  # with earlier code alone, all, with both or again

    # Provenance has the copy of the script that each seed ran.
    cells = make_provenance_section(summarize(state)).cells
    copies = [fields["sha256"][:12] for code in state.codes for fields in code["modules"]]
    rows = [(what, value) for what, value in zip(cells["what"], cells["value"], strict=True) if "train.py" in value]
    assert [value.rpartition("code/")[2].rstrip(")") for _, value in rows] == copies
    assert [re.search(r"(\d+) seed", what)[1] for what, _ in rows] == (["3", "2"] if saved == "pass" else ["1", "2"])

    # While the last seed waits for its retry, only the finished ones are counted.
    records = read_records(state.folder)
    ends = [number for number, record in enumerate(records) if record.kind == "pack_end"]
    waiting = PackEnvironments.from_state(SweepState.replay(state.folder, records[: ends[-2] + 1]))
    assert waiting.began_with_other_code == counts[0] - (saved == "pass") and waiting.seed_count == 2

    # Earlier versions did not record that it started from step 0.
    for record in records:
        record.fields.pop("from_start", None)
    earlier = PackEnvironments.from_state(SweepState.replay(state.folder, records))
    assert (earlier.began_with_other_code, earlier.ended_with_newest_code, earlier.trained_again) == (3, 2, 0)


CRASHES = "float(given['lr']) == 0.5 and step == 15 and 1 / 0"
DIVERGES = "float(given['lr']) == 0.5 and step == 15 and (run.failed(step), sys.exit(0))"
CRASHES_ONCE = "step == 15 and run.reported == 0 and sys.exit(3)"


@pytest.mark.parametrize(("code", "ended"), [(CRASHES, 1), (DIVERGES, 0), (CRASHES_ONCE, 0)])
def test_exit_code(code: str, ended: int, study: Study, lengthwise: CommandLine, tmp_path: Path) -> None:
    """A crash that is given up is exit code 1, also of a later resume; diverged seeds and crashes mended by a retry 0.

    The sweep is complete in either case: its other configuration has a score.
    """
    file = study.write(script(step=code), space={"config.lr": {"grid": [0.2, 0.5]}})
    assert lengthwise("run", file, "--storage", tmp_path).returncode == ended
    state = SweepState.load(tmp_path / "prog")
    assert (state.end_status, len(state.failed_packs)) == ("complete", ended)
    assert lengthwise("resume", state.folder).returncode == ended
    study.write(script())
    words = ("resume", state.folder, "--retry-failed", "--accept-code-change")
    assert lengthwise(*words).returncode == 0 and not SweepState.load(state.folder).failed_packs


def test_edited_script_changes_nothing_in_mid_sweep(study: Study) -> None:
    """The first member breaks the script of the user; the copies are run, also by `python -m`."""
    for command in (["python", "-S", "train.py", "${args}"], ["python", "-S", "-m", "train", "${args}"]):
        breaks = "open(os.environ['SCRIPT'], 'w').write('raise SystemExit(1)')"
        study.write(script(end=breaks), program={"command": command}, seeds=2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SCRIPT", str(study.folder / "train.py"))
            state = study.run(name=f"edited-{len(command)}-{command[1][1]}")
        assert (study.folder / "train.py").read_text() == "raise SystemExit(1)"
        assert (state.end_status, len(state.failed_packs)) == ("complete", 0), study.output


def test_values_are_single_words_without_a_shell(study: Study, tmp_path: Path) -> None:
    values = ["$(touch made)", "; touch made", "a b", "`touch made`", "x\ny", "'\"", "--lr=1"]
    code = script(end="open(os.environ['LENGTHWISE_FOLDER'] + '/words', 'w').write(json.dumps(sys.argv))")
    study.write(code, config={"text": values[0], "lr": 0.5}, space={"config.text": {"grid": values}})
    state = study.run()
    assert state.end_status == "complete", study.output
    words = [json.loads(path.read_text()) for path in state.folder.glob("members/*/words")]
    assert sorted(arguments[1] for arguments in words) == sorted(f"--text={value}" for value in values)
    assert {len(arguments) for arguments in words} == {4}
    assert not list(tmp_path.rglob("made"))


def test_secrets_of_the_environment_are_not_recorded(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "MLFLOW_TRACKING_PASSWORD": "hunter2hunter2",
        "AWS_SECRET_ACCESS_KEY": "abcdefgh12345678",
        "MY_TOKEN": "t0k3nt0k3n",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    study.write(script(end="print(os.environ.get('MLFLOW_TRACKING_PASSWORD'))"))
    state = study.run()
    assert state.end_status == "complete"
    for path in state.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [name for name, value in secrets.items() if value.encode() in content], path
    log = next(state.folder.glob("members/*/*.log"))
    assert re.search(r"^None$", log.read_text(), re.MULTILINE)


def test_a_script_that_never_reported_counts_with_its_last_version(study: Study, own_code_forgotten) -> None:
    """Its failures alone are the result, and those of earlier versions are no part of it."""
    study.write(script(step="step == 5 and sys.exit('no')"), seeds=2)
    state = study.run()
    study.write(script(step="step == 5 and sys.exit('no 1')"), seeds=2)
    state = study.resume(state, retry_failed=True, accept_code_change=True)
    (group,) = PackEnvironments.from_state(state).groups
    assert len(state.failed_packs) == len(group.packs) == 2 and group.code == state.codes[-1]["name"]
    assert not PackEnvironments.from_state(state).code_sentences


def test_seeds_that_ran_with_another_script_are_named_by_compare(
    study: Study, lengthwise: CommandLine, own_code_forgotten
) -> None:
    crash = "step == 15 and given['lr'] == '0.5' and given['seed'] in '12' and 1 / 0"
    study.write(script(step=crash), space={"config.lr": {"grid": [0.5, 0.25]}}, seeds=3)
    state = study.run()
    study.write(script(), space={"config.lr": {"grid": [0.5, 0.25]}}, seeds=3)
    study.resume(state, retry_failed=True, accept_code_change=True)
    shown = lengthwise.succeeds("compare", state.folder, "0", "1").stdout
    (differing,) = [line for line in shown.splitlines() if line.startswith("They differ in")]
    assert "train.py (seeds 1-2 of #0 " in differing and "module" not in differing
    assert not re.search(r"\b[0-9a-f]{12}", differing)

    # Of two sweeps, each with its own script.
    study.write(script(), seeds=2)
    other = study.run(name="other")
    own_code_forgotten()
    study.write(script() + "# edited\n", seeds=2)
    edited = study.run(name="edited")
    shown = lengthwise.succeeds("compare", other.folder, "0", f"{edited.folder}/0").stdout
    assert "train.py (#0 of edited " in shown
    assert "(program)" not in lengthwise.succeeds("compare", other.folder, edited.folder).stdout
