"""Every block of YAML and Python in a README is loaded, run, or quoted from a file."""

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from pages import PAGES, ROOT, page

import trainers
from orchestrator.claims.verdicts import judge, read_tested_sweeps
from orchestrator.plan.configurations import make_configurations
from orchestrator.plan.optuna_draws import draw_sample
from orchestrator.record.files.weights import load_member_weights
from orchestrator.record.state.state import SweepState
from search_spaces import format_schema, load_claims, load_sweep
from tests.command_line import CommandLine
from tests.sweep_files import load_checked
from trainers.check import check_class, check_task
from trainers.config.member import MemberConfig
from trainers.evaluation.results import Evaluation, Progress
from trainers.settings import registry

QUICKSTART = ROOT / "search_spaces" / "quickstart.yaml"
TASK, POSITION, QUOTED = '@register("task"', '@register("position"', '@register("average"'
MODEL, METRIC = '@register("model"', '@register("metric"'
FIRST_MISTAKE = "class WithFirstMistake("
INITIAL = "training.initial:"


def source() -> dict[str, Any]:
    return dict(yaml.safe_load(QUICKSTART.read_text(encoding="utf-8")))


def yaml_blocks() -> list[Any]:
    """Those of sweep files that need no module, no data and no weights of one's own."""
    return [
        pytest.param(text, id=f"{page.name} {n}")
        for page in PAGES
        for n, text in enumerate(page.blocks("yaml"))
        if not any(marker in text for marker in ("imports:", "\nclaims:", "name: dataset", INITIAL))
    ]


def python_blocks(*markers: str, without: bool = False) -> list[Any]:
    """Blocks that hold one of the markers, or none of them."""
    return [
        pytest.param(text, id=f"{page.name} {n}")
        for page in PAGES
        for n, text in enumerate(page.blocks("python"))
        if any(marker in text for marker in markers) != without
    ]


@pytest.mark.parametrize("text", yaml_blocks())
def test_yaml_loads_in_place_of_what_the_quickstart_says(text: str, tmp_path: Path) -> None:
    """A part of a sweep file replaces that part of the quickstart; `# N configurations` must be how many it gives."""
    part = yaml.safe_load(text)
    whole = part if "program" in part else {**source(), **part}
    if whole["search"].get("sampler") == "listed":
        del whole["space"]
    file = tmp_path / "part.yaml"
    file.write_text(yaml.safe_dump(whole), encoding="utf-8")
    spec = load_sweep(file)
    built = make_configurations(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 100)])
    assert built
    for count in re.findall(r"# (\d+) configurations$", text, re.M):
        assert len(built) == int(count)


def test_starting_weights_of_a_page_are_found_and_trained(lengthwise, tmp_path: Path) -> None:
    """The quickstart, small, is what they are taken from, and what the block is a part of."""
    (text,) = [text for text in page("trainers/training/README.md").blocks("yaml") if INITIAL in text]
    small = ["--set", "model.width=8", "--set", "resources.scheduler=inline", "--set", "tracking.enabled=false"]
    small += ["--set", "evaluation={samples: 10}", "--set", "training.steps=2", "--set", "seeds=2"]
    storage = ["--storage", tmp_path / "sweeps"]
    lengthwise.succeeds("run", QUICKSTART, *storage, *small, "--set", "search.configurations=4")
    weights = load_member_weights(tmp_path / "sweeps" / "quickstart", "#0", 0)
    torch.save(
        {"model": {name: torch.from_numpy(value) for name, value in weights.items()}}, tmp_path / "pretrained.pt"
    )
    whole = {**source(), **yaml.safe_load(text), "name": "again"}
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
    lengthwise.succeeds("run", tmp_path / "again.yaml", *storage, *small)
    state = SweepState.load(tmp_path / "sweeps" / "again")
    started = [configuration.resolved["training"].get("initial") for configuration in state.configurations.values()]
    assert [start and start["average"] for start in started] == [None, None, "ema", None] and started[0] is None
    (pack,) = state.packs.values()
    assert len(pack.members) == 8 and all(member.status == "complete" for member in state.members)


def test_the_claims_of_a_page_can_be_put_to_the_quickstart(sandbox: Path, tmp_path: Path) -> None:
    (text,) = [text for text in page("orchestrator/claims/README.md").blocks("yaml") if "\nclaims:" in text]
    file = tmp_path / "claims.yaml"
    file.write_text(text, encoding="utf-8")
    claims = load_claims(file)
    assert claims.sweeps == ("quickstart",)
    for judgement in judge(claims, read_tested_sweeps(claims, sandbox / "sweeps")):
        assert judgement.answer is not None and judgement.answer.n_trained > 0, judgement.verdict_text


def test_the_yaml_of_search_spaces_is_the_quickstart() -> None:
    text = page("search_spaces/README.md").blocks("yaml")[0]
    assert text == QUICKSTART.read_text(encoding="utf-8")
    match = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", text.splitlines()[0])
    assert match and (QUICKSTART.parent / match.group(1)).read_text(encoding="utf-8") == format_schema()


def test_every_setting_of_the_yaml_is_explained() -> None:
    for number, line in enumerate(QUICKSTART.read_text(encoding="utf-8").splitlines(), 1):
        leaf = re.match(r"\s*[\w.]+: \S", line) and not line.startswith("description")
        similar = re.match(
            r"  training\.weight_decay: \{log|  gpus:|  direction:", line
        )  # says itself, or the line above does
        assert not leaf or similar or " # " in line, f"quickstart.yaml:{number} is not explained"


@pytest.mark.parametrize("text", python_blocks(QUOTED))
def test_code_is_quoted_from_the_file(text: str) -> None:
    lines = (ROOT / "trainers/optimization/averaging.py").read_text(encoding="utf-8").splitlines()
    at = 0
    for line in text.splitlines():
        if line.strip() and line.strip() != "...":
            assert line in lines[at:], f"{line!r} is not in trainers/optimization/averaging.py, or not in this order"
            at += lines[at:].index(line) + 1
    assert "ema" in registry.list_names("average")


def task_of_a_page(name: str) -> list[str]:
    pages = (page("trainers/README.md"), page("trainers/tasks/README.md"))
    return [text for page in pages for text in page.blocks("python") if f'{TASK}, "{name}"' in text]


@pytest.mark.usefixtures("own_code_forgotten")
def test_a_task_whose_answers_are_written_keeps_the_contract_and_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = task_of_a_page("count_down")
    (tmp_path / "my_texts.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("my_texts")
    assert list(check_class("task", "count_down")) == []
    model = {"name": "decoder", "layers": 1, "width": 16, "heads": 2, "position": "learned"}
    training = {"steps": 150, "batch_size": 32, "learning_rate": 0.01, "compile": False}
    sections = {"task": {"name": "count_down"}, "model": model, "training": training}
    (result,) = trainers.train([MemberConfig.from_dict(sections)], Silent())
    (curve,) = [curve for curve in result.curves if curve.metric == "exact_match"]
    assert curve.values[:5] == (1.0,) * 5 and curve.values[-1] == 0.0, "numbers above 5 are unknown words to it"


@pytest.mark.usefixtures("own_code_forgotten")
def test_a_task_of_a_page_keeps_the_contract_and_trains(tmp_path: Path) -> None:
    """As `my_tasks.py` beside a sweep file, which the page's YAML names."""
    (text,) = task_of_a_page("running_maximum")
    (part,) = [text for text in page("trainers/README.md").blocks("yaml") if "imports:" in text]
    assert "imports: [my_tasks]" in part and "imports: [my_tasks]" in page("search_spaces/README.md").text
    (tmp_path / "my_tasks.py").write_text(text)
    whole = {**source(), **yaml.safe_load(part)}
    whole["objective"] = {**whole["objective"], "metric": "accuracy", "direction": "maximize"}
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(whole), encoding="utf-8")
    assert load_checked(file).imports == ("my_tasks",)
    assert list(check_class("task", "running_maximum")) == []
    (metric,) = [text for text in page("trainers/README.md").blocks("python") if FIRST_MISTAKE in text]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(metric, "README.md", "exec"), names)
    measured = type("Measured", (names["WithFirstMistake"], registry.get_class("task", "running_maximum")), {})
    assert check_task(measured()) == []
    model = {"name": "attention_only", "width": 8}
    training = {"steps": 2, "batch_size": 4, "learning_rate": 0.01, "compile": False}
    sections = {"task": {"name": "running_maximum"}, "model": model, "training": training}
    results = trainers.train([MemberConfig.from_dict({**sections, "evaluation": {"samples": 10}})], Silent())
    assert "accuracy" in {curve.metric for curve in results[0].curves}


def test_the_script_of_the_front_page_reads_what_its_sweep_file_searches(lengthwise, tmp_path: Path) -> None:
    readme = page("README.md")
    (script,) = [text for text in readme.blocks("python") if "lengthwise.member(" in text]
    (sweep,) = [text for text in readme.blocks("yaml") if "program: " in text]
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    (tmp_path / "sweep.yaml").write_text(sweep, encoding="utf-8")
    done = lengthwise.succeeds("validate", tmp_path / "sweep.yaml")
    assert "warning" not in done.stdout + done.stderr

    # The page says: length 1 is a validation set, beside lengths that are tested or with 2 as the test set.
    sections = yaml.safe_load(sweep)
    ((objective, lengths),) = re.findall(r"`(objective: .*?)` ranks by it.*?2 is the test set: `(.*?)`", readme.text)
    sections |= yaml.safe_load(objective)
    alone = {"every": 500, "metrics": {"accuracy": "maximize"}, **yaml.safe_load(lengths)}
    for evaluation in (alone, {**alone, "lengths": [1, 12, 16, 32], "trained_lengths": [12]}):
        (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sections | {"evaluation": evaluation}), encoding="utf-8")
        done = lengthwise.succeeds("validate", tmp_path / "sweep.yaml")
        assert "warning" not in done.stdout + done.stderr
        spec = load_checked(tmp_path / "sweep.yaml")
        assert (spec.objective.lengths, spec.evaluation["lengths"]) == ((1,), evaluation["lengths"])


@pytest.mark.usefixtures("own_code_forgotten")
def test_the_task_and_the_model_of_the_front_page_train_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the imports and the `Net` of the files that `lengthwise init` writes."""
    (text,) = [text for text in page("README.md").blocks("python") if TASK in text]
    written = (ROOT / "search_spaces/examples/start/own/my_model.py").read_text(encoding="utf-8")
    imports = "from trainers import Batch, Task, Vmapped, register, setting\n"
    (tmp_path / "front_page.py").write_text(written.partition("@register")[0] + imports + text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("front_page")
    assert [*check_class("task", "running_maximum"), *check_class("model", "my_attention")] == []
    training = {"steps": 200, "batch_size": 32, "learning_rate": 0.01, "compile": False}
    sections = {"task": {"name": "running_maximum"}, "model": {"name": "my_attention"}, "training": training}
    (result,) = trainers.train([MemberConfig.from_dict(sections)], Silent())
    (curve,) = [curve for curve in result.curves if curve.metric == "accuracy"]
    assert len(curve.values) == 20 and curve.values[0] == 1.0 and curve.values[4] > 0.9


@pytest.mark.usefixtures("own_code_forgotten")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("position", "windowed"),
        ("model", "running_mean"),
        ("model", "settling"),
        ("optimizer", "sam"),
        ("loss", "sparse"),
        ("metric", "right_margin"),
    ],
)
def test_a_class_of_a_page_keeps_the_contract(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [page(f"trainers/{folder}README.md") for folder in ("", "models/", "optimization/", "tasks/")]
    (text,) = [text for page in pages for text in page.blocks("python") if f'@register("{kind}", "{name}")' in text]
    (tmp_path / f"readme_{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(f"readme_{name}")
    assert list(check_class(kind, name)) == []


def test_rows_from_files_are_trained_on_as_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = page("trainers/tasks/README.md")
    (part,) = [text for text in tasks.blocks("yaml") if "name: dataset" in text]
    (writes,) = [text for text in tasks.blocks("python") if "csv.writer" in text]
    monkeypatch.chdir(tmp_path)
    exec(compile(writes, "README.md", "exec"), {"__name__": "example"})
    file, sections = tmp_path / "sums.yaml", source()
    sections["training"]["averages"] = {"raw": {}}
    file.write_text(yaml.safe_dump({**sections, **yaml.safe_load(part), "space": {}, "search": {}}), encoding="utf-8")
    spec = load_checked(file)
    member = make_configurations(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 1)])[0].build_member(0)
    assert (member.task.trained_lengths, member.task.lengths) == ((1, 2, 3), (1, 2, 3, 4, 5))
    assert member.task.data.words == ("+", *"0123456789", "=") and spec.objective.direction == "maximize"


class Silent:
    def report(self, evaluation: Evaluation) -> None: ...

    def progress(self, progress: Progress) -> None: ...

    def notice(self, text: str) -> None: ...


@pytest.mark.usefixtures("own_code_forgotten")
@pytest.mark.parametrize("text", python_blocks(TASK, POSITION, MODEL, METRIC, QUOTED, without=True))
def test_python_of_a_page_runs(text: str, sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that has the sweeps and files the examples name."""
    monkeypatch.chdir(sandbox)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(text, "README.md", "exec"), names)
    if "kept_weights" in text:
        assert names["positions"].shape == (11, 6)


@pytest.mark.parametrize(
    "text",
    [pytest.param(text, id=f"{page.name} {n}") for page in PAGES for n, text in enumerate(page.blocks("console"))],
)
def test_a_command_prints_what_the_page_shows(
    text: str, lengthwise: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (command, *shown) = text.splitlines()
    words = shlex.split(command.removeprefix("$ lengthwise "))
    monkeypatch.setitem(lengthwise.environment, "COLUMNS", "80")
    done = lengthwise(*words)
    assert (done.stdout + done.stderr).splitlines() == shown


def test_there_are_examples_on_the_pages_with_python() -> None:
    for name in ("search_spaces", "orchestrator/api", "trainers"):
        assert page(f"{name}/README.md").blocks("python"), name
