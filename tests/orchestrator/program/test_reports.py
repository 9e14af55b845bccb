"""Lines that a program reports, and the reports of several attempts."""

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lengthwise
from orchestrator.program.reports import DeclaredReports, MergedReports, ReportProblem, parse_report
from tests.orchestrator.program.attempts import merge_attempts

DECLARED = DeclaredReports(
    steps=250,
    evaluation_interval=100,
    averages=("raw", "ema"),
    metrics={"accuracy": (5, 10), "loss": (1,)},
    lengths=(1, 5, 10),
    own_lengths=("loss",),
)
RAW = DeclaredReports(
    steps=250, evaluation_interval=100, averages=("raw",), metrics=DECLARED.metrics, lengths=DECLARED.lengths
)


def line(step: int, value: float | None = 0.5, average: str = "raw", **more: Any) -> str:
    return json.dumps({"step": step, "average": average, "curves": {"accuracy": {"5": value}}} | more) + "\n"


def test_report() -> None:
    text = '{"step": 100, "average": "ema", "curves": {"accuracy": {"5": 1, "10": null}, "loss": 0.25}, "loss": NaN}'
    report = parse_report(text, DECLARED)
    assert (report.step, report.average, report.failed, report.stopped) == (100, "ema", False, False)
    assert report.curves["loss"] == {1: 0.25}
    assert report.curves["accuracy"][5] == 1.0
    assert math.isnan(report.curves["accuracy"][10])
    assert math.isnan(report.loss)


@pytest.mark.parametrize("loss", [math.nan, math.inf, np.float32("nan")])
def test_a_loss_that_is_not_finite_is_written_as_a_failure(loss: float) -> None:
    assert lengthwise.make_report_fields(150, {"accuracy": 0.5}, loss, "raw") == {"failed": 150}
    assert lengthwise.make_report_fields(150, {"accuracy": 0.5}, None, "raw").keys() == {"step", "average", "curves"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ["not JSON"]),
        ("loss 0.1", ["not JSON"]),
        ("[1]", ["object"]),
        ("{}", ["curves"]),
        ('{"step": 100}', ["curves"]),
        ('{"curves": {}}', ["step"]),
        ('{"failed": 3, "step": 4, "curves": {}}', ["failed", "alone"]),
        ('{"step": 100, "curve": {}}', ["'curve'", "'curves'"]),
        ('{"step": 100, "curves": 0.5}', ["curves"]),
        ('{"step": "100", "curves": {}}', ["'100'", "250"]),
        ('{"step": true, "curves": {}}', ["True"]),
        ('{"step": 1.5, "curves": {}}', ["1.5"]),
        ('{"step": -1, "curves": {}}', ["-1"]),
        ('{"step": 251, "curves": {}}', ["251", "250"]),
        ('{"failed": null}', ["None"]),
        ('{"step": 100, "average": "emma", "curves": {}}', ["'emma'", "evaluation.averages", "raw, ema", "'ema'"]),
        ('{"step": 100, "average": ["raw"], "curves": {}}', ["['raw']"]),
        (
            '{"step": 100, "curves": {"acuracy": 1}}',
            ["'acuracy'", "evaluation.metrics ", "accuracy, loss", "'accuracy'"],
        ),
        ('{"step": 100, "curves": {"accuracy": {"7": 1}}}', ["accuracy", "7", "evaluation.lengths", "5, 10"]),
        ('{"step": 100, "curves": {"loss": {"7": 1}}}', ["loss", "7", "evaluation.metrics.loss.lengths", "1"]),
        ('{"step": 100, "curves": {"accuracy": {"x": 1}}}', ["accuracy", "x", "5, 10"]),
        ('{"step": 100, "curves": {"accuracy": 1}}', ["accuracy", "length 1", "5, 10"]),
        ('{"step": 100, "curves": {"accuracy": {"5": "1"}}}', ["accuracy", "5", "'1'"]),
        ('{"step": 100, "curves": {"accuracy": {"5": true}}}', ["True"]),
        ('{"step": 100, "curves": {"accuracy": {"5": [1]}}}', ["[1]"]),
        ('{"step": 100, "curves": {}, "loss": "low"}', ["loss", "'low'"]),
        ('{"step": 100, "curves": {"loss": 1' + "0" * 400 + "}}", []),
    ],
)
def test_nonsense_names_file_and_line(text: str, words: list[str]) -> None:
    with pytest.raises(ReportProblem) as raised:
        MergedReports(DECLARED).read("attempt-1.jsonl", line(0) + text + "\n")
    assert str(raised.value).startswith("attempt-1.jsonl:2: ")
    assert "\n" not in str(raised.value)
    assert all(word in str(raised.value) for word in words)


@pytest.mark.parametrize(
    ("lines", "number", "words"),
    [
        ([line(200)], 1, ["200", "100"]),
        ([line(100), line(250)], 2, ["250", "200"]),
        ([line(100), line(200), line(150)], 3, ["150", "200"]),
        ([line(100), line(100)], 2, ["100", "line 1"]),
        ([line(100), line(200), line(100)], 3, ["100", "line 1"]),
        (['{"stopped": 50}\n'], 1, ["50"]),
        ([line(100), '{"stopped": 220}\n'], 2, ["200"]),
    ],
)
def test_order_within_an_attempt(lines: list[str], number: int, words: list[str]) -> None:
    with pytest.raises(ReportProblem) as raised:
        MergedReports(RAW).read("r.jsonl", "".join(lines))
    assert str(raised.value).startswith(f"r.jsonl:{number}: ")
    assert all(word in str(raised.value) for word in words)


def test_due_step_lost_between_attempts() -> None:
    """Saved at 200 before it was reported."""
    with pytest.raises(ReportProblem, match=r"^2:1: .*250.*200"):
        merge_attempts({"1": line(100), "2": line(250)}, RAW)


def test_arrays() -> None:
    text = '{"step": 100, "curves": {"accuracy": {"10": 1e300}, "loss": 0.25}, "loss": 2}\n'
    (step,), _ = merge_attempts({"1": text + line(100, 0.75, "ema")}, DECLARED)
    nan = math.nan
    expected = [[[nan, nan, nan], [0.25, nan, nan]], [[nan, 0.75, nan], [nan, nan, nan]]]
    np.testing.assert_array_equal(step.values_AKL, np.array(expected, dtype=np.float32))
    assert (step.values_AKL.dtype, step.step, step.loss) == (np.float32, 100, 2.0)


def test_first_values_count_and_others_are_noted() -> None:
    steps, reports = merge_attempts(
        {"1": line(100, 0.1) + line(200, 0.2), "2": line(100, 0.1) + line(200, 0.3) + line(250)}, RAW
    )
    assert [float(step.values_AKL[0, 0, 1]) for step in steps] == [np.float32(0.1), np.float32(0.2), 0.5]
    assert (reports.repeated, reports.completed_step) == (1, 250)


def test_null_repeats_null() -> None:
    assert merge_attempts({"1": line(100, None), "2": line(100, math.nan)}, RAW)[1].repeated == 0


def test_step_waits_for_its_averages() -> None:
    reports = MergedReports(DECLARED)
    assert reports.read("1", line(100)) == []
    assert [step.step for step in reports.read("1", line(100, average="ema"))] == [100]
    assert reports.read("1", line(200, average="ema")) == []
    assert [step.step for step in reports.read("1", line(250))] == [200]
    assert [step.step for step in reports.finish()] == [250]
    assert reports.finish() == []


def test_step_is_completed_by_the_next_attempt() -> None:
    steps, reports = merge_attempts({"1": line(100, 0.1), "2": line(100, 0.2) + line(100, 0.3, "ema")}, DECLARED)
    assert [step.values_AKL[:, 0, 1].tolist() for step in steps] == [[np.float32(0.1), np.float32(0.3)]]
    assert reports.repeated == 1


JUDGED = replace(DECLARED, judged={"metric": "accuracy", "average": "ema", "lengths": (5,)})


def test_a_step_without_the_judged_average_names_its_lines() -> None:
    with pytest.raises(ReportProblem, match=r"^1:2: step 100 .*ema.*raw on line 1"):
        merge_attempts({"1": line(100) + line(200)}, JUDGED)
    steps, reports = merge_attempts({"1": line(100)}, JUDGED)
    assert steps == [] and "ema" in reports.describe_missing()


def test_what_is_missing_at_the_end() -> None:
    _, reports = merge_attempts({"1": line(100) + line(200) + line(249)}, RAW)
    assert (reports.completed_step, reports.last_step) == (200, 249)
    assert "step 250 was due" in reports.describe_missing()


def test_steps_that_are_not_due() -> None:
    steps, _ = merge_attempts({"1": line(0) + line(7) + line(100) + line(150) + line(200) + line(249) + line(250)}, RAW)
    assert [step.step for step in steps] == [100, 200, 250]


def test_only_the_end_is_due() -> None:
    declared = DeclaredReports(
        steps=9, evaluation_interval=None, averages=("raw",), metrics={"loss": (1,)}, lengths=(1,)
    )
    steps, _ = merge_attempts({"1": '{"step": 9, "curves": {"loss": 1}}'}, declared)
    assert steps == []
    (step,), _ = merge_attempts({"1": '{"step": 9, "curves": {"loss": 1}}\n'}, declared)
    assert step.values_AKL.tolist() == [[[1.0]]]


@pytest.mark.parametrize(("end", "expected"), [("failed", (120, None)), ("stopped", (None, 120))])
def test_ends(end: str, expected: tuple[int | None, int | None]) -> None:
    steps, reports = merge_attempts({"1": f'{line(100)}{{"{end}": 120}}\n{line(250)}', "2": "nonsense\n"}, RAW)
    assert [step.step for step in steps] == [100]
    assert (reports.failed_step, reports.stopped_step) == expected


def test_failed_before_any_report() -> None:
    assert merge_attempts({"1": '{"failed": 230}\n'}, RAW)[1].failed_step == 230


def test_blank_lines_count_as_lines() -> None:
    with pytest.raises(ReportProblem, match=r"^1:3: "):
        merge_attempts({"1": "\n" + line(100) + "x\n"}, RAW)


attempts = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 40)), min_size=1, max_size=4
)  # from which step, to which step, how many bytes of its last line are missing


@given(attempts, st.lists(st.integers(1, 60), max_size=8))
def test_any_attempts_in_any_pieces(drawn: list[tuple[int, int, int]], sizes: list[int]) -> None:
    """What was written by whole lines counts once, the first values first, however the files are cut into reads."""
    declared = DeclaredReports(steps=5, evaluation_interval=1, averages=("raw",), metrics={"loss": (1,)}, lengths=(1,))
    files, first, written = {}, {}, 0
    repeated = 0
    for number, (start, end, missing) in enumerate(drawn):
        lines = []
        for step in range(min(start, written) + 1, end + 1):
            lines.append(f'{{"step": {step}, "curves": {{"loss": {number + step / 10}}}}}\n')
        text = "".join(lines)
        files[str(number)] = text[: len(text) - missing] if missing <= len(lines[-1] if lines else "") else text
        whole = files[str(number)].count("\n")
        for step in range(min(start, written) + 1, min(start, written) + 1 + whole):
            repeated += step in first and written < 5  # no more is read after the last step
            first.setdefault(step, number + step / 10)
        written = max(first, default=0)
    steps, merged = merge_attempts(files, declared)
    assert {step.step: float(step.values_AKL[0, 0, 0]) for step in steps} == {
        step: float(np.float32(value)) for step, value in first.items()
    }
    assert (merged.repeated, merged.completed_step) == (repeated, written)

    # The same in pieces that end anywhere: a reader keeps what follows the last newline.
    reports, pieces = MergedReports(declared), []
    for file, text in files.items():
        rest = ""
        cuts = [0, *itertools.accumulate(sizes), len(text)]
        for start, end in itertools.pairwise(cuts):
            rest += text[start : max(start, end)]
            pieces += reports.read(file, rest)
            rest = rest[rest.rfind("\n") + 1 :]
    assert [step.step for step in pieces + reports.finish()] == [step.step for step in steps]
