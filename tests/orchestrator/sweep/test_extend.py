"""`lengthwise extend`: an extended sweep is the sweep of that size from the beginning, and nothing is trained twice."""

import shlex
import shutil
from pathlib import Path

import pytest

from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.sweep.extend import plan_extension
from orchestrator.text.wording import describe_wrong_numbers
from search_spaces import load_sweep
from tests.no_reports import leave_out_reports
from tests.orchestrator.running.ledgers import (
    cut_ledger,
    evaluated_once,
    keyed,
    ledger_kinds,
    scores,
    sets,
)

pytestmark = pytest.mark.usefixtures("no_reports")

GRID = ("--set", "space={training.learning_rate: {log_uniform: [0.001, 0.1]}, model.norm: {grid: [none, pre]}}")
GRID += ("--set", "search.configurations=2")


@pytest.fixture(scope="module")
def tiny_text(tiny_text: str) -> str:
    """With 18 steps: most tests run two sweeps or three."""
    for long, short in (("steps: 60", "steps: 18"), ("every: 20", "every: 6"), ("_steps: 15", "_steps: 4")):
        tiny_text = tiny_text.replace(long, short)
    return tiny_text


@pytest.fixture(scope="module")
def run(lengthwise, tmp_path_factory, tiny_text):
    """run("name", "--set", ...) runs a tiny sweep once for the module and returns a copy of its folder."""
    storage, known = tmp_path_factory.mktemp("begun"), {}
    (storage / "tiny.yaml").write_text(tiny_text)

    def begin(*options: str) -> Path:
        if options not in known:
            folder = storage / str(len(known))
            with leave_out_reports():
                lengthwise.succeeds("run", storage / "tiny.yaml", "--storage", folder, *options)
            known[options] = folder / "tiny"
        return Path(shutil.copytree(known[options], tmp_path_factory.mktemp("copy") / "tiny"))

    return begin


def same(*folders: Path) -> bool:
    """Whether two sweeps have the same curves, bit for bit, and the same scores."""
    first, second = map(SweepState.load, folders)
    return keyed(first).equals(keyed(second)) and scores(first) == scores(second) and None not in scores(first).values()


TPE = sets("search.sampler=tpe", "search.generation=2")
QMC = sets("search.sampler=qmc", "search.seed=3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun", "options", "whole"),
    [
        ([], "--seeds 7-8 --configurations 5", sets("seeds=[0, 1, 7, 8]", "search.configurations=5")),
        (TPE, "--configurations 6", [*TPE, *sets("search.configurations=6")]),
        (QMC, "--configurations 6", [*QMC, *sets("search.configurations=6")]),
    ],
    ids=["both", "tpe", "qmc"],
)
def test_an_extended_sweep_is_the_one_of_that_size_from_the_beginning(lengthwise, run, begun, options, whole):
    folder, other = run(*begun), run(*whole)
    before = (folder / LEDGER_FILE).read_bytes()
    trained = {(r.fields["pack_id"], r.fields["step"]) for r in read_records(folder) if r.kind == "evaluation"}
    lengthwise.succeeds("extend", folder, *options.split())
    assert same(folder, other)
    assert load_sweep(folder / "sweep.yaml").spec_hash == load_sweep(other / "sweep.yaml").spec_hash
    assert (folder / LEDGER_FILE).read_bytes().startswith(before)
    now = {(r.fields["pack_id"], r.fields["step"]) for r in read_records(folder) if r.kind == "evaluation"}
    assert evaluated_once(folder) and trained < now
    assert SweepState.load(folder).end_status == "complete"


@pytest.mark.slow
def test_values_are_added_to_a_grid_behind_the_old_points(lengthwise, run):
    folder = run(*GRID)
    before = {n: (draw.config_id, draw.values) for n, draw in SweepState.load(folder).draws.items()}
    added = "space.model.norm={grid: [pre, post, none]}"
    done = lengthwise.succeeds("extend", folder, "--set", added)
    assert "added: 2 configurations with seeds 0-1, model.norm: [pre, post, none]" in done.stdout
    lengthwise.succeeds("extend", folder, "--configurations", "3")
    assert same(folder, run(*GRID, "--set", added, "--set", "search.configurations=3"))
    draws = SweepState.load(folder).draws
    assert {n: (draws[n].config_id, draws[n].values) for n in before} == before
    norms, rates = ([draws[n].values[key] for n in range(9)] for key in ("model.norm", "training.learning_rate"))
    assert norms == ["none", "pre", "none", "pre", "post", "post", "pre", "post", "none"]
    assert rates == [rates[0], rates[0], rates[2], rates[2], rates[0], rates[2], *[rates[6]] * 3]
    assert len(set(rates)) == 3


@pytest.mark.slow
def test_the_first_configurations_alone_get_more_seeds(lengthwise, run):
    folder = run()
    first = min(SweepState.load(folder).configurations.values(), key=lambda configuration: configuration.score)
    done = lengthwise.succeeds("extend", folder, "--top", "1", "--seeds", "5")
    assert f"added: seeds 2-4 of #{first.number}" in done.stdout
    state = SweepState.load(folder)
    assert {len(configuration.members) for configuration in state.configurations.values()} == {2, 5}
    assert len(state.configurations[first.config_id].members) == 5
    other = next(
        configuration for configuration in state.configurations.values() if configuration.number != first.number
    )
    lengthwise.succeeds("extend", folder, "--configuration", f"#{other.number}", "--seeds", "20-21")
    planned = {first.number: f"2-4 of #{first.number}", other.number: f"20-21 of #{other.number}"}
    already = f"(already planned: {'; '.join(planned[number] for number in sorted(planned))})"
    lengthwise.refuses("extend", folder, "--seeds", "2", message=f"4 configurations with seeds 0-1 {already}")
    done = lengthwise.succeeds("extend", folder, "--seeds", "5")
    assert f"added: seeds 2-4 of 4 configurations {already}" in done.stdout
    seeds = {
        configuration.config_id: sorted(configuration.members)
        for configuration in SweepState.load(folder).configurations.values()
    }
    assert seeds.pop(other.config_id) == [0, 1, 2, 3, 4, 20, 21]
    assert all(numbers == [0, 1, 2, 3, 4] for numbers in seeds.values())


LISTED = sets("space={}", "search={sampler: listed, listed: [{model.norm: pre}, {model.norm: none}]}")


@pytest.mark.parametrize(
    ("begun", "options", "message"),
    [
        ([], "", "4 configurations with seeds 0-1"),
        ([], "--seeds 2", "4 configurations with seeds 0-1"),
        ([], "--seeds 1", "allowed: more than 2"),  # 2 add nothing
        ([], "--seeds 9-5", "--seeds '9-5'"),
        ([], "--seeds 3 --set ' seeds=4'", "--seeds and --set seeds"),
        ([], "--configurations 5 --set 'search={configurations: 6}'", "--configurations and --set search"),
        ([], "--configurations 3", "allowed: more than 4"),
        ([], "--top 1", "--seeds"),
        ([], "--top 1 --configuration 1 --seeds 4", "--configuration"),
        ([], "--top 9 --seeds 4", "1 to 4"),
        ([], "--configuration 9 --seeds 4", "#0 to #3"),
        ([], "--set training.steps=80", "training.steps: was 18, now 80"),
        ([], "--set 'space.training.batch_size={choice: [8, 16, 32]}'", "space.training.batch_size.choice"),
        ([], "--set model.widht=3", "model.widht"),
        (GRID, "--set 'space.model.norm={grid: [none, before]}'", "space.model.norm.grid: was [none, pre]"),
        (GRID, "--set 'space.model.norm={grid: [none, pre, before]}'", "space.model.norm.grid[2]"),
        (sets("search.sampler=tpe", "search.generation=3"), "--configurations 6", "incomplete (1 of 3)"),
        (LISTED, "--configurations 6", "lists its configurations"),
        (sets("space={model.norm: {grid: [none, pre]}}", "search={}"), "--configurations 6", "--configurations 6"),
    ],
)
def test_what_cannot_be_added_is_refused_before_anything_is_written(lengthwise, run, begun, options, message):
    folder = run(*begun)
    before = {path: path.read_bytes() for path in (folder / LEDGER_FILE, folder / "sweep.yaml")}
    lengthwise.refuses("extend", folder, *shlex.split(options), message=message)
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.parametrize("verb", ["resume", "extend"])
def test_name_description_and_claims_stay_as_they_are(lengthwise, run, verb):
    folder = run()
    before = (folder / LEDGER_FILE).read_bytes()
    settings = ("resources.workers=1", "name=other", "description=x", " claims=no.yaml", "notify=http://host/se-cret")
    done = lengthwise(verb, folder, *sets(*settings), *(("--seeds", "3") if verb == "extend" else ()))
    more = ", space, search, seeds" if verb == "extend" else ""
    message = (
        f"--set name, description, claims: cannot be changed; allowed: resources, budget, tracking, notify{more}\n"
    )
    assert (done.returncode, done.stderr) == (2, message) and (folder / LEDGER_FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("seeds", "message"),
    [("100001", "too many seeds; allowed: up to 100000"), ("+99999", "too"), ("9" * 5000, "cannot")],
)
def test_more_seeds_than_a_sweep_file_may_ask_for_are_refused(run, seeds, message):
    with pytest.raises(UserError, match=f"--seeds .*: {message}"):
        plan_extension(SweepState.load(run()), seeds=seeds)


def test_wrong_seeds_have_the_reason_of_wrong_lengths(run):
    for seeds in ("5-3", "7,7"):
        with pytest.raises(UserError, match=describe_wrong_numbers(seeds)):
            plan_extension(SweepState.load(run()), seeds=seeds)


def test_a_key_with_a_blank_before_it_is_the_same_key(run):
    state = SweepState.load(run())
    planned = plan_extension(state, seeds="3", overrides=[" resources.workers = 3"])
    assert planned.spec.resources.workers == 3 and planned.spec.seeds == (0, 1, 2)


def test_seeds_of_a_tpe_sweep_come_with_a_sentence(lengthwise, run):
    folder = run("--set", "search.sampler=tpe", "--set", "search.generation=2")
    done = lengthwise("extend", folder, "--seeds", "3")
    assert done.returncode == 0 and "would draw others" in done.stdout
    assert len(SweepState.load(folder).draws) == 4


def test_run_and_resume_say_how_a_changed_file_is_added(lengthwise, run, tmp_path, tiny_text):
    folder = run()
    file = tmp_path / "tiny.yaml"
    file.write_text(tiny_text.replace("configurations: 4", "configurations: 5").replace("seeds: 2", "seeds: 3"))
    command = f"lengthwise extend {folder} --seeds 2-2 --configurations 5"
    for words in (("run", file, "--storage", folder.parent), ("resume", folder, "--set", "seeds=3")):
        refused = lengthwise(*words)
        assert refused.returncode == 2
        assert (command if words[0] == "run" else command.partition(" --conf")[0]) in refused.stderr
    lengthwise.succeeds(*command.split()[1:])
    lengthwise.refuses("run", file, "--storage", folder.parent, message="has this sweep already")
    file.write_text(tiny_text)
    lengthwise.refuses("run", file, "--storage", folder.parent, message="which was extended later")
    file.write_text(tiny_text.replace("steps: 18", "steps: 19").replace("seeds: 2", "seeds: 4"))
    other = lengthwise("run", file, "--storage", folder.parent)
    assert other.returncode == 2 and "extend" not in other.stderr
    assert "steps: was 18, now 19" in other.stderr


def test_a_file_is_compared_with_the_specification_of_the_sweep_that_is_nearest(lengthwise, run, tmp_path, tiny_text):
    folder = run()
    lengthwise.succeeds("extend", folder, "--seeds", "5-6")
    file = tmp_path / "tiny.yaml"
    file.write_text(tiny_text.replace("seeds: 2", "seeds: [0, 1, 5, 9]"))
    for words in (("run", file, "--storage", folder.parent), ("run", file, "--storage", folder.parent, "--resume")):
        text = lengthwise.refuses(*words, message="seeds: was [0, 1], now [0, 1, 5, 9]").stderr
        assert text.rstrip().endswith(f"or extend the sweep: lengthwise extend {folder} --seeds 9-9")
    file.write_text(tiny_text.replace("seeds: 2", "seeds: [0, 1, 5]"))
    text = lengthwise.refuses("run", file, "--storage", folder.parent, message="now [0, 1, 5]").stderr
    assert "extend" not in text
    file.write_text(tiny_text.replace("steps: 18", "steps: 19"))
    text = lengthwise.refuses("run", file, "--storage", folder.parent, message="training.steps: was 18, now 19").stderr
    assert "seeds: was" not in text
    lengthwise.succeeds("extend", folder, "--configurations", "5")
    file.write_text(tiny_text.replace("seeds: 2", "seeds: 4").replace("configurations: 4", "configurations: 6"))
    text = lengthwise.refuses("run", file, "--storage", folder.parent, message="configurations: was 4, now 6").stderr
    assert "extend" not in text  # it would take away seeds 5 and 6
    lengthwise.refuses("resume", folder, "--set", "seeds=2", message="seeds: was [0, 1, 5, 6], now [0, 1]")


@pytest.mark.parametrize("words", [("extend", "--seeds", "4"), ("resume",)])
def test_a_driver_that_dies_before_sweep_yaml_is_written_is_mended(lengthwise, run, monkeypatch, words):
    folder = run()
    text = (folder / "sweep.yaml").read_text().replace("checkpoint_steps: 4", "checkpoint_steps: 20")
    (folder / "sweep.yaml").write_text(text)

    def die(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.sweep.extend.rewrite_spec", die)
    killed = lengthwise("extend", folder, "--seeds", "4")
    assert killed.returncode == 130
    assert (folder / "sweep.yaml").read_text() == text
    lengthwise.succeeds(words[0], folder, *words[1:])
    assert same(folder, run("--set", "seeds=4"))
    spec = load_sweep(folder / "sweep.yaml")
    assert spec.seeds == (0, 1, 2, 3) and spec.resources.checkpoint_steps == 20


@pytest.mark.slow
def test_what_was_edited_in_sweep_yaml_is_kept(lengthwise, run):
    folder = run()
    (folder / "sweep.yaml").write_text(text := "# mine\n" + (folder / "sweep.yaml").read_text())
    done = lengthwise("extend", folder, "--seeds", "3")
    assert f"saved as {folder / 'sweep.yaml.before-1'}" in done.stdout
    assert (folder / "sweep.yaml.before-1").read_text() == text and "# mine" not in (folder / "sweep.yaml").read_text()
    assert lengthwise("extend", folder, "--seeds", "4").returncode == 0
    assert not (folder / "sweep.yaml.before-2").exists()


@pytest.mark.slow
def test_an_unfinished_sweep_is_extended(lengthwise, run):
    folder = run()
    cut_ledger(folder, ledger_kinds(folder).index("pack_end") + 1)
    lengthwise.refuses("extend", folder, "--top", "1", "--seeds", "4", message="not finished")
    lengthwise.succeeds("extend", folder, "--seeds", "3", "--configurations", "5")
    assert same(folder, run("--set", "seeds=3", "--set", "search.configurations=5"))


@pytest.mark.parametrize(
    "options",
    [
        ("--seeds", "+1", "--top", "1"),
        pytest.param(("--set", "seeds=[0, 1, 5]", "--configurations", "5"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_the_same_command_resumes_an_extension_that_was_killed(lengthwise, run, options):
    folder = run()
    lengthwise.succeeds("extend", folder, *options)
    whole = shutil.copytree(folder, folder.with_name("whole"))
    cut_ledger(folder, ledger_kinds(folder).index("extend") + 1)
    lengthwise.succeeds("extend", folder, *options, "--set", "resources.workers=1")
    assert same(folder, whole) and ledger_kinds(folder).count("extend") == 1
    if "+1" in options:  # once it is complete, it is another extension
        lengthwise.succeeds("extend", folder, *options)
        assert ledger_kinds(folder).count("extend") == 2
    else:
        lengthwise.refuses("extend", folder, *options, message="for more: --seeds ")


@pytest.mark.slow
def test_a_confirmation_gets_seeds_that_its_search_has_not_used(lengthwise, run):
    folder = run()
    assert lengthwise("confirm", folder, "--top", "1", "--seeds", "2").returncode == 0
    confirmation = folder.with_name("tiny-confirm")
    lengthwise.refuses("extend", confirmation, "--seeds", "0-1", message="0-1 were used by")
    assert lengthwise("extend", confirmation, "--configurations", "2").returncode == 2
    lengthwise.succeeds("extend", confirmation, "--seeds", "4")
    (configuration,) = SweepState.load(confirmation).configurations.values()
    assert sorted(configuration.members) == [2, 3, 4, 5]
    skipped = lengthwise("extend", folder, "--seeds", "3")
    assert "added: seeds 6 of 4 configurations" in skipped.stdout
    onto = lengthwise("extend", folder, "--seeds", "4-4")
    assert "seeds 4 were used by tiny-confirm, which they can no longer confirm" in onto.stdout
