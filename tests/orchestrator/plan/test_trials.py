"""Own tasks, models and encodings are tried with the settings of the sweep before anything is written."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from orchestrator.code import time_limit
from orchestrator.plan.checks import trials
from orchestrator.plan.checks.sweep_file_checks import build_sample_configurations, summarize_sample
from orchestrator.sweep.run_and_resume import run_sweep
from orchestrator.text.consoles import make_console
from search_spaces import FileProblem, SweepFileError
from tests.sweep_files import load_checked

TASK = '''
import torch
from trainers import Batch, EvaluationBatch, Task, register, setting


@register("task", "own_echo")
class Echo(Task):
    """The tokens themselves."""

    longest: int = setting(4, low=1, help="evaluated up to this length")
    inputs = outputs = 5
    trained_lengths = (1, 2)
    lengths = property(lambda self: tuple(range(1, self.longest + 1)))
    metrics = property(lambda self: {"accuracy": "maximize"})

    def batch_of(self, tokens):
        return Batch(tokens, tokens)

    def sample(self, stream, rows):
        return self.batch_of(stream.integers(0, (rows, 2), 5))

    def loss(self, logits_MBTV, batch):
        logs = torch.log_softmax(logits_MBTV, dim=-1)
        picked = torch.gather(logs, -1, batch.targets[..., None])[..., 0]
        return -picked.sum(dim=(1, 2)), torch.full_like(picked[:, 0, 0], picked[0].numel())

    def evaluation_batches(self, stream, samples, lengths):
        yield EvaluationBatch(self.batch_of(stream.integers(0, (samples, max(lengths)), 5)), lengths)

    def score_rows(self, logits_MBTV, batch, lengths):
        right = logits_MBTV.argmax(dim=-1) == batch.targets
        return {"accuracy": right[..., [s - 1 for s in lengths]].float()}
'''
POSITION = '''
from trainers import Position, Scores, register


@register("position", "own_slope")
class Slope(Position):
    """Scores fall with distance."""

    def score(self, context):
        return Scores(bias=-context.differences().abs().to(context.q.dtype))
'''
SWEEP = """
name: own
study: tests
imports: [own_echo]
task: {name: own_echo}
model: {name: decoder, layers: 1, width: 8, heads: 2, position: own_slope}
training: {steps: 2, batch_size: 4, learning_rate: 0.01, compile: false}
space: {training.learning_rate: {uniform: [0.001, 0.01]}}
search: {configurations: 1}
seeds: 2
evaluation: {samples: 4}
objective: {metric: accuracy, average: raw, lengths: [3], direction: maximize}
resources: {scheduler: inline}
tracking: {enabled: false}
"""


@pytest.fixture
def write_sweep(tmp_path: Path, own_code_forgotten: None) -> Callable[..., Path]:
    """The sweep file, with each pair (text, instead) replaced in the module beside it."""

    def write(*changes: tuple[str, str]) -> Path:
        text = TASK + POSITION
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (tmp_path / "own_echo.py").write_text(text)
        (tmp_path / "own.yaml").write_text(SWEEP)
        return tmp_path / "own.yaml"

    return write


@pytest.mark.parametrize("style", ['Literal["plain", "hints"]', "Style"])
def test_a_field_with_a_fixed_set_of_values_is_searched_by_choice(write_sweep, style) -> None:
    """As Literal and as an enum; another value is refused at its line, with the nearest one."""
    imports = "import enum\nfrom typing import Literal\n\nimport torch\n"
    enum = 'Style = enum.StrEnum("Style", ["PLAIN", "HINTS"])\n\n\n@register("task"'
    field = f'    style: {style} = setting("plain")\n    longest: int'
    path = write_sweep(("import torch\n", imports), ('@register("task"', enum), ("    longest: int", field))
    path.write_text(SWEEP.replace("space: {", "space: {task.style: {choice: [plain, hints]}, "))
    drawn = build_sample_configurations(load_checked(path, ["search.configurations=9"]))
    assert {configuration.resolved["task"]["style"] for configuration in drawn} == {"plain", "hints"}
    assert {configuration.build_member(0).task.style for configuration in drawn} == {"plain", "hints"}
    (wrong,) = _problems(path, SWEEP.replace("{name: own_echo}", "{name: own_echo, style: hint}"))
    assert (wrong.key, wrong.given, wrong.allowed, wrong.nearest) == ("task.style", "hint", "plain, hints", "hints")
    assert wrong.where == f"{path}:5"
    (wrong,) = _problems(path, SWEEP.replace("space: {", "space: {task.style: {choice: [plain, hint]}, "))
    assert (wrong.given, wrong.nearest, wrong.where) == ("hint", "hints", f"{path}:8")
    (wrong,) = _problems(path, SWEEP.replace("space: {", "space: {task.style: {uniform: [0, 1]}, "))
    assert wrong.nearest == "choice"


def _problems(path: Path, text: str) -> tuple[FileProblem, ...]:
    path.write_text(text)
    with pytest.raises(SweepFileError) as caught:
        build_sample_configurations(load_checked(path))
    return caught.value.problems


MIXING = {  # members with each other
    "optimizer": """
from trainers.optimization.optimizers.adamw import AdamW


@register("optimizer", "own_mean")
class Mean(AdamW):
    def update(self, now):
        return now.theta - now.gradient.mean(dim=0, keepdim=True), dict(now.state)
""",
    "loss": """
from trainers import Loss


@register("loss", "own_mean")
class Mean(Loss):
    def compute(self, now):
        loss, weight = now.task_loss(now.logits())
        return loss * loss.mean(), weight
""",
}


@pytest.mark.parametrize("kind", MIXING)
def test_a_faulty_optimizer_or_loss_is_named(write_sweep, kind) -> None:
    path = write_sweep()
    (path.parent / "own_echo.py").write_text(TASK + POSITION + MIXING[kind])
    path.write_text(SWEEP.replace("compile: false", f"compile: false, {kind}: own_mean"))
    with pytest.raises(SweepFileError) as caught:
        summarize_sample(load_checked(path))
    (problem,) = caught.value.problems
    assert problem.where == f"{path}:7" and problem.key == f"training.{kind}" and "other members" in problem.message


@pytest.mark.slow
def test_a_faulty_metric_is_named_and_a_name_that_nobody_registered(write_sweep) -> None:
    metric = """
from trainers.metrics.metric import Metric


@register("metric", "own_margin")
class Margin(Metric):
    direction = "maximize"

    def score_rows(self, seen):
        return seen.logits.mean(dim=7)
"""
    path = write_sweep()
    code = path.with_name("own_echo.py")
    code.write_text(code.read_text() + metric)
    path.write_text(SWEEP.replace("samples: 4", "samples: 4, metrics: {own_margin: {}}"))
    with pytest.raises(SweepFileError) as caught:
        summarize_sample(load_checked(path))
    (wrong,) = caught.value.problems
    line = len(code.read_text().splitlines())
    assert (wrong.key, wrong.where) == ("evaluation.metrics.own_margin", f"{path}:11")
    assert f"{code}:{line}, score_rows" in wrong.message and "IndexError" in wrong.message
    (wrong,) = _problems(path, SWEEP.replace("samples: 4", "samples: 4, metrics: {own_margn: {}}"))
    assert (wrong.key, wrong.given) == ("evaluation.metrics.own_margn", "own_margn")
    assert (wrong.nearest, wrong.where) == ("own_margin", f"{path}:11")


def test_code_that_works_is_good(write_sweep) -> None:
    assert summarize_sample(load_checked(write_sweep())).configuration_count == 1


def test_own_code_is_tried_on_one_thread(write_sweep, monkeypatch) -> None:
    """On a busy machine small products would wait for a second one, forty times as long as they take."""
    monkeypatch.setenv("SEEN", "")
    count = "import os; os.environ['SEEN'] += f' {torch.get_num_threads()}'; picked = "
    torch.set_num_threads(2)
    try:
        summarize_sample(load_checked(write_sweep(("picked = ", count))))
        assert set(os.environ["SEEN"].split()) == {"1"} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "return -picked.sum(dim=(1, 2)), torch.full_like(picked[:, 0, 0], picked[0].numel())",
            "return -picked.mean(dim=(1, 2))",
            "task.name: task own_echo: raises ValueError: own_echo: loss must return a tuple of a sum",
        ),
        (
            '{"accuracy": "maximize"}',
            '{"accuracy": "maximize", "error": "minimize"}',
            "task.name: task own_echo: raises ValueError: own_echo: neither reduce",
        ),
        ("outputs = 5", "outputs = 4", "task.name: task own_echo: training tokens are not in 0..3"),
        (
            "bias=-context.differences()",
            "bias=-context.differences()[:-1]",
            "model.name: model decoder with own_slope: raises RuntimeError",
        ),
        (
            "picked = ",
            "raise GeneratorExit; picked = ",
            r"raises GeneratorExit \(.*own_echo.py:\d+, loss\)",
        ),
        (
            "range(1, self.longest",
            "range(1, self.longst",
            r"own.yaml:4: imports: raises AttributeError: .* \(.*own_echo.py:\d+, <lambda>\)",
        ),
        ("context.q.dtype", "context.q.type", r"raises TypeError: .* \(.*own_echo.py:\d+, score\)"),
    ],
    ids=["loss", "metric", "tokens", "bias", "base exception", "property", "argument"],
)
def test_a_failure_is_reported_before_the_folder_is_made(write_sweep, tmp_path, old, new, message) -> None:
    spec = load_checked(write_sweep((old, new)))
    with pytest.raises(SweepFileError, match=message):
        run_sweep(spec, tmp_path / "sweeps", make_console())
    assert not (tmp_path / "sweeps").exists()


def test_what_takes_long_is_a_note_at_its_line_and_no_refusal(write_sweep, monkeypatch, capsys) -> None:
    code = "while True: pass; picked = "
    monkeypatch.setattr(trials, "MAX_SECONDS", 0.3)
    monkeypatch.setattr(time_limit, "NOTICE_SECONDS", 0.1)  # and how soon it rings again
    path = write_sweep(("picked = ", code))
    assert summarize_sample(load_checked(path)).configuration_count == 1
    (note,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    line = next(n for n, text in enumerate((path.parent / "own_echo.py").read_text().splitlines(), 1) if code in text)
    assert "own_echo" in note and "0.3 s" in note and f"own_echo.py:{line}, loss" in note


def test_a_busy_machine_does_not_count(monkeypatch) -> None:
    """A thread that computes a tenth of the time is neither done nor given up in thrice the limit of its clock."""
    monkeypatch.setattr(time_limit, "NOTICE_SECONDS", 0.05)
    with time_limit.time_limit("computing", 0.3):
        until = time.monotonic() + 0.9
        while time.monotonic() < until:
            spin = time.thread_time() + 0.005
            while time.thread_time() < spin:
                pass
            time.sleep(0.02)


def test_the_lengths_of_the_file_are_tried_alone(write_sweep) -> None:
    path = write_sweep(("yield EvaluationBatch", "assert 4 not in lengths, 'tried'; yield EvaluationBatch"))
    with pytest.raises(SweepFileError, match="raises AssertionError: tried"):
        summarize_sample(load_checked(path))
    assert summarize_sample(load_checked(path, ["evaluation.lengths=[1, 2, 3]"])).configuration_count == 1


def test_it_is_the_settings_of_the_sweep_that_are_tried(write_sweep, tmp_path) -> None:
    """By default the trained lengths are among those evaluated; with this setting they are not."""
    path = write_sweep()
    path.write_text(SWEEP.replace("{name: own_echo}", "{name: own_echo, longest: 1}").replace("[3]", "[1]"))
    with pytest.raises(SweepFileError, match=r"task own_echo: trained_lengths: \[2\]"):
        summarize_sample(load_checked(path))
