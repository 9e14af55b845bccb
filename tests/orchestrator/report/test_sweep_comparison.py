"""`lengthwise compare SWEEP SWEEP`: what is printed, drawn and written, and what is refused."""

import csv
import io
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestrator import open_sweep
from orchestrator.cli import main as cli
from orchestrator.errors import LengthwiseError, NotASweep, UserError
from orchestrator.figures import drawing
from orchestrator.figures.drawing import read_figure_digest
from orchestrator.figures.sweep_differences import draw_difference_figure
from orchestrator.record.state.state import SweepState
from orchestrator.report.comparisons import compare_and_show
from orchestrator.report.sweep_sentences import describe_band
from orchestrator.results.comparing.sweep_comparison import compare_sweeps
from orchestrator.results.make_summary import summarize

RATES = [{"training.learning_rate": rate} for rate in (0.001, 0.01)]
GRID = {"space": {"training.learning_rate": {"grid": [0.001, 0.01]}}}


def shifted(shift):
    def curve(number, seed, average, metric, lengths, step):
        noise = np.random.default_rng([number, seed, int(1000 * shift)]).normal(0, 0.01, len(lengths))
        return 0.3 + 0.02 * number + 0.03 * seed + noise - shift * (lengths > 7)

    return curve


@pytest.fixture(scope="module")
def built(tmp_path_factory, synthetic_sweep):
    folder = tmp_path_factory.mktemp("compared")
    synthetic_sweep(folder / "plain", RATES, 10, shifted(0.0), spec=GRID)
    synthetic_sweep(folder / "lower", RATES, 10, shifted(0.04), spec={**GRID, "model.norm": "pre"})
    synthetic_sweep(folder / "few", RATES, 6, shifted(0.04), {(0, 3): 10}, spec=GRID)
    return folder


@pytest.fixture
def sweeps(built, tmp_path):
    """The folders of three sweeps: of 10 seeds, lower at the test lengths, and of 6 seeds."""
    return Path(shutil.copytree(built, tmp_path / "sweeps"))


def run(*words):
    return CliRunner().invoke(cli.app, ["compare", *map(str, words)], terminal_width=200)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [("plain", "lower", "second"), ("lower", "plain", "first"), ("lower", "few", "inconclusive")],
)
def test_the_first_line_is_the_verdict_of_the_interval(sweeps, first, second, verdict):
    compared = compare_sweeps(*(open_sweep(sweeps / name).summary for name in (first, second)))
    (line, *_), (sentence, by_length, *_) = compared.together, run(sweeps / first, sweeps / second).output.splitlines()
    assert line.verdict == verdict and (line.outcome.low <= 0 <= line.outcome.high) == (verdict == "inconclusive")
    starts = {"first": f"{first} is better", "second": f"{first} is worse"}
    assert sentence.partition(": ")[2].startswith(starts.get(verdict, "inconclusive"))
    assert by_length == describe_band(compared)
    assert f"{abs(line.outcome.difference):#.3g} [" in sentence and " (95 % interval, " in sentence
    turned = replace(line, question=replace(line.question, direction="maximize"))  # of a metric that should be high
    assert turned.verdict == {"first": "second", "second": "first"}.get(verdict, "inconclusive")


def test_common_seeds_are_paired_though_each_sweep_has_others(sweeps, synthetic_sweep):
    first = synthetic_sweep(sweeps / "first", RATES, (*range(8), 18, 19), shifted(0.0), spec=GRID)
    second = synthetic_sweep(sweeps / "second", RATES, range(10), shifted(0.04), spec=GRID)
    line = compare_sweeps(*(open_sweep(state.folder).summary for state in (first, second))).together[0]
    assert (line.outcome.paired, line.outcome.n, line.unmatched, line.verdict) == (True, 8, 4, "second")


def test_equal_sweeps_have_no_difference(sweeps, synthetic_sweep):
    synthetic_sweep(sweeps / "again", RATES, 10, shifted(0.0), spec=GRID)
    lines = run(sweeps / "plain", sweeps / "again").output.splitlines()
    assert ": no difference" in lines[0] and "10 pairs" in lines[0]


@pytest.mark.parametrize(("shortest", "lengths"), [(11, "at length 11, "), (10, "at lengths 10-11, ")])
def test_one_length_that_differs_is_no_lengths(sweeps, synthetic_sweep, shortest, lengths):
    def curve(number, seed, average, metric, lengths, step):
        return shifted(0.0)(number, seed, average, metric, lengths, step) - 0.1 * (lengths >= shortest)

    synthetic_sweep(sweeps / "late", RATES, 10, curve, spec=GRID)
    sentence = describe_band(compare_sweeps(*(open_sweep(sweeps / name).summary for name in ("plain", "late"))))
    assert lengths in sentence


def test_too_few_seeds_have_no_table_of_configurations_and_the_command_for_more(sweeps, synthetic_sweep):
    synthetic_sweep(sweeps / "four", RATES, 4, shifted(0.04), spec=GRID)
    output = run(sweeps / "plain", sweeps / "four").output
    (command,) = [line for line in output.splitlines() if "lengthwise extend " in line]
    assert command.endswith(f"lengthwise extend {sweeps / 'four'} --seeds 10")
    synthetic_sweep(sweeps / "apart", RATES, range(20, 24), shifted(0.04), spec=GRID)  # no pairs, whatever is added
    assert "For an interval" not in run(sweeps / "apart", sweeps / "plain").output
    assert (
        "Matched configurations that differ" not in output
        and "lengthwise extend" not in run(sweeps / "plain", sweeps / "lower").output
    )


def test_sweeps_are_compared_drawn_and_written(sweeps):
    table, figure = sweeps / "found.csv", sweeps / "found.png"
    words = [sweeps / name for name in ("plain", "lower", "few")]
    done = run(*words, "--csv", table, "--figure", figure)
    assert done.exit_code == 0, done.output
    for part in (
        f"First: plain in {sweeps / 'plain'} (2 of 2 configurations done; 20 seeds ran, 0 failed)",
        f"Second: lower in {sweeps / 'lower'} (2 of 2 configurations done; 20 seeds ran, 0 failed)",
        "They differ in: model.norm none / pre\n",
        "They differ in: seeds 0-9 / 0-5\n",
        f"Second: few in {sweeps / 'few'} (2 of 2 configurations done; 12 seeds ran, 1 failed)",
        "2 configurations with equal searched values (lr)\n",
        "By length: lower is better at lengths 8-11, by up to 0.0",
        " (simultaneous 95 % band over 11 lengths, 10 paired seeds).\n",
        "Of 2 matched configurations 2 differ at the test lengths 8-11 with p < 0.05 after Holm's correction: #0, #1; "
        "lower is better in all of them.",
        "No band against length: 6 seeds are too few for 11 lengths at once (at least 9).",
        "4 seeds without a pair left out.",
        "A failed seed counts as the worst value",
        f"Figure: {figure}",
        f"wrote {table}",
    ):
        assert part in done.output, done.output
    assert done.output.count("left out") == 1
    assert read_figure_digest(figure) is not None
    with table.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["first_sweep"], line["second_sweep"]) for line in (lines[0], lines[-1])] == [
        ("plain", "lower"),
        ("plain", "few"),
    ]
    families = [line["family"] for line in lines if line["second_sweep"] == "lower"]
    together, pairs = ["all matched together"] * 3, ["matched configurations"] * 6
    assert families == [*together, "best against best", *["each length"] * 11, *pairs]
    again = open_sweep(sweeps / "plain").compare_with(sweeps / "lower")
    assert len(again) == 21
    for line, (_, row) in zip(lines, again.iterrows(), strict=False):
        assert float(line["difference"]) == row.difference and (line["low"] == "") == math.isnan(row.low)
    of_sweep = open_sweep(sweeps / "plain").compare_with(open_sweep(sweeps / "few"), lengths="9,10", average="raw")
    assert set(of_sweep.average) == {"raw"} and set(of_sweep.lengths) == {"9-10", "9", "10"}


def test_only_configurations_that_differ_have_a_line(tmp_path, synthetic_sweep):
    """Six of eight differ, by 0.02 to 0.12: the five largest are shown, and the way to all of them comes last."""
    rates = [{"training.learning_rate": round(0.001 * (1 + number), 3)} for number in range(8)]
    spec = {"space": {"training.learning_rate": {"grid": [rate["training.learning_rate"] for rate in rates]}}}

    def improved(gain):
        def curve(number, seed, average, metric, lengths, step):
            sign = 1 if seed % 2 else -1
            return 0.3 + 0.01 * seed + (gain * 0.02 * (number - 1) if number > 1 else gain * 0.02 * sign) + 0 * lengths

        return curve

    for name, gain in (("worse", 1.0), ("better", 0.0)):
        synthetic_sweep(tmp_path / name, rates, 12, improved(gain), spec=spec)
    for names in (("worse", "better"), ("better", "worse")):
        lines = run(*(tmp_path / name for name in names)).output.splitlines()
        shown = [line.split()[0] for line in lines if line.startswith("#")]
        assert shown == ["#7", "#6", "#5", "#4", "#3"]
        assert (
            "--csv FILE.csv writes " in lines[-1]
            and " 8 " in lines[-1]
            and not any(line.startswith("...") for line in lines)
        )
        assert f"{names[0]} minus {names[1]}; below 0, {names[0]} is better" in "\n".join(lines)
        (noise,) = [line for line in lines if line.startswith("By length: ")]
        assert ": better is " in noise and "worse is " not in noise


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["plain", "nothing"], NotASweep, "allowed: other sweeps, or two configurations of"),
        (["plain", "0", "1", "few"], NotASweep, "0 does not exist"),
        (["plain", "lower", "--metric", "margni"], UserError, "did you mean margin?"),
        (["plain", "lower", "--metric", "margni"], UserError, "margni: not recorded in plain and lower; recorded: "),
        (["plain", "lower", "--lengths", "99"], UserError, "--lengths '99'"),
        (["plain", "0", "1", "--figure", "new.png"], UserError, "draws only comparisons of sweeps"),
        (["plain", "lower", "--figure", "plain/events.jsonl"], UserError, ".png"),
        (["plain", "lower", "--csv", "plain/events.jsonl"], UserError, ".csv"),
    ],
)
def test_what_cannot_be_compared_is_refused(sweeps, monkeypatch, words, error, message):
    monkeypatch.chdir(sweeps)
    done = run(*words)
    assert isinstance(done.exception, error) and isinstance(done.exception, LengthwiseError)
    assert message in str(done.exception) and done.exception.exit_code == 2
    assert not (sweeps / "new.png").exists()


def test_the_axis_of_a_figure_names_the_side_on_which_the_first_is_better(sweeps, monkeypatch):
    figures = []
    monkeypatch.setattr(drawing, "save_figure", lambda path, draw, *facts: figures.append(draw()) or path)
    first, second = (summarize(SweepState.load(sweeps / name)) for name in ("plain", "lower"))
    draw_difference_figure([compare_sweeps(first, second)], sweeps / "unused.png")
    assert figures[0].axes[0].get_ylabel().endswith("\nbelow 0: plain is better")


def test_a_sweep_is_not_compared_with_itself(small_sweep):
    with pytest.raises(UserError, match="itself"):
        [*compare_and_show(small_sweep.folder, [str(small_sweep.folder)], Console(file=io.StringIO()))]
