"""What a sweep prints at its end: whole sentences in lines of 100 characters, as many as the window has room for."""

import io
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from orchestrator.record.state.state import SweepState
from orchestrator.report.comparisons import compare_and_show
from orchestrator.report.effect_sentences import describe_effects
from orchestrator.report.failure_sentences import describe_failed_count, describe_lost
from orchestrator.report.lead_sentences import describe_lead
from orchestrator.report.sentences import describe_best, describe_status, make_answers, make_short_answer
from orchestrator.report.tables.columns import are_numbers
from orchestrator.report.tables.configuration_tables import format_ranks, make_configuration_records
from orchestrator.report.terminal import _cut_sentences
from orchestrator.results.analysis import explain_missing_effects
from orchestrator.results.comparing.named_comparison import compare_named
from orchestrator.results.failure_values import describe_shared_values
from orchestrator.results.make_summary import _describe_identical_curves, summarize
from orchestrator.results.seed_failures import describe_failure
from orchestrator.running.watching.status import make_status_rows
from orchestrator.text.wording import format_number
from search_spaces import load_sweep
from tests.orchestrator.report.conftest import draws, noisy

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    """A working folder in which the paths of sweeps are short, as in most commands."""
    monkeypatch.chdir(tmp_path)


def table_of(text):
    """The heading and the lines of the table of configurations, as words."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.lstrip().startswith("rank "))
    end = next((i for i in range(start + 2, len(lines)) if not re.match(r" *(\d+=?|failed) ", lines[i])), len(lines))
    return lines[start].split(), [re.sub(r", (?=[^\[]*\])", ",", line).split() for line in lines[start + 2 : end]]


def test_it_says_what_ran_and_what_failed(tmp_path, synthetic_sweep, twelve, short_text):
    text = short_text(twelve, 1000)
    assert "Finished: 12 configurations with 3 seeds; 36 seeds ran, 1 failed (1 diverged" in text
    lost = {(2, seed): 10 for seed in range(2)}
    result = summarize(synthetic_sweep(tmp_path / "lost", draws(4), 2, noisy, lost, died=[1]))
    text = short_text(result)
    assert "4 failed (2 crashed; 2 diverged; counted as worst)" in text
    assert [line[0] for line in table_of(text)[1]] == ["1", "2", "failed", "failed"]


def test_the_first_error_stands_beside_the_number_of_failed_seeds(tmp_path, synthetic_sweep):
    state = synthetic_sweep(tmp_path / "died", draws(4), 2, noisy, {(2, 0): 10}, died=[0, 1])
    first, second = (pack for pack in state.packs.values() if pack.status == "failed")
    first.error = second.error = "exit code 1, before its first report: KeyError: 'x'"
    assert describe_failed_count(summarize(state)).startswith(
        "5 failed (4 crashed: KeyError: 'x'; 1 diverged at step 10; "
    )
    second.error = "killed"
    assert "4 crashed, such as KeyError: 'x'; " in describe_failed_count(summarize(state))
    first.error = second.error = 200 * "x"
    assert f"4 crashed: {117 * 'x'}...; " in describe_failed_count(summarize(state))
    first.error = second.error = f"{'a' * 99} layer attention.projection"  # a word is not cut
    assert f"4 crashed: {'a' * 99} layer...; " in describe_failed_count(summarize(state))


def test_a_diverged_seed_names_what_was_not_finite(tmp_path, synthetic_sweep):
    state = synthetic_sweep(tmp_path / "one", draws(1), 2, noisy, {(0, 1): 10})
    member, (configuration,) = state.members[1], state.configurations.values()
    program = replace(configuration, resolved={"program": "x", "training": {"steps": 20}})
    assert [
        describe_failure(state, given, member).split(": ")[1].partition(" NaN or infinite at step 10")[0]
        for given in (configuration, program, replace(program, resolved={"program": "x", "training": {"steps": 10}}))
    ] == ["loss or weights", "loss", "loss or every score"]
    state.provenance = {"imported": {}}
    assert state.spec["objective"]["metric"] + " NaN" in describe_failure(state, program, member)


def test_configurations_without_any_finite_score_are_not_called_last(tmp_path, synthetic_sweep):
    lost = {(number, seed): 10 for number in range(2) for seed in range(2)}
    summary = summarize(synthetic_sweep(tmp_path / "lost", draws(2), 3, noisy, lost))
    (sentence,) = describe_lost(summary)
    assert [sentence] == make_answers(summary)[1:2]  # and not once more that no configuration has a score
    assert "score" not in "".join(make_answers(summary)[2:])
    assert "Last" not in sentence and "#0 (2 of 3; " in sentence and "#1 (2 of 3; " in sentence


def test_equal_scores_share_a_rank_on_screen_and_have_their_own_in_files(tmp_path, synthetic_sweep, short_text):
    def tied(number, seed, average, metric, lengths, step):
        return noisy((0, 2, 2, 3, 3)[number], 0, average, metric, lengths, step)

    result = summarize(synthetic_sweep(tmp_path / "ties", draws(5), 2, tied))
    assert [line[0] for line in table_of(short_text(result))[1]] == ["1", "2=", "2=", "4=", "4="]
    assert "2=: equal scores" in short_text(result, 160)
    assert [line["rank"] for line in make_configuration_records(result)] == [1, 2, 3, 4, 5]
    assert are_numbers(["1", "2=", "2="])
    whole = summarize(synthetic_sweep(tmp_path / "whole", draws(5), 2, noisy))
    assert "=" not in "".join(format_ranks(whole).values()) and ": equal scores" not in short_text(whole, 160)


def test_two_tied_configurations_are_both(tmp_path, synthetic_sweep):
    result = summarize(synthetic_sweep(tmp_path / "two", draws(2), 2, lambda *_: 0.5))
    for sentence in (describe_best(result), explain_missing_effects(result)):
        assert " both " in sentence and "all 2" not in sentence


def test_the_best_configuration_names_its_failed_seeds(tmp_path, synthetic_sweep):
    built = [
        synthetic_sweep(tmp_path / name, draws(4), 3, noisy, lost)
        for name, lost in (("all", {}), ("two", {(0, 1): 10}))
    ]
    whole, lost = map(summarize, built)
    assert whole.rows[0].number == lost.rows[0].number == 0, "the median of three has two good ones"
    assert "seeds failed" not in describe_best(whole) and "though 1 of its 3 seeds failed" in describe_best(lost)


def test_configurations_that_are_last_for_failed_seeds_alone_are_named(tmp_path, synthetic_sweep):
    """#1 loses one of three seeds, which its median survives, #2 two and #3 all."""
    lost = {(1, 0): 10, (2, 0): 10, (2, 1): 10} | {(3, seed): 10 for seed in range(3)}
    summary = summarize(synthetic_sweep(tmp_path / "lost", draws(4), 3, noisy, lost))
    (sentence,) = describe_lost(summary)
    row = next(row for row in summary.rows if row.number == 2)
    band = summary.bands[row.config_id, *summary.objective_curve]
    (other,) = filter(math.isfinite, band.reduce_seed_curves(summary.objective.lengths, "mean").values())
    assert f"#2 (2 of 3; the others reach {format_number(other)})" in sentence
    assert "#1" not in sentence and "#3" not in sentence

    # The others of #0 are better than #1 and #2, those of #3 are worse, so that it would be last by them, too.
    lost = {(number, seed): 10 for number in (0, 3) for seed in (0, 1)}
    (sentence,) = describe_lost(summarize(synthetic_sweep(tmp_path / "both", draws(4), 3, noisy, lost)))
    assert [re.findall(r"#\d", part) for part in sentence.split(" also ")] == [["#0"], ["#3"]]

    # A seed that did not fail, but never reached the metric, makes the median infinite as well.
    def unreached(number, seed, average, metric, lengths, step):
        return np.where(seed == 2, np.inf, noisy(number, seed, average, metric, lengths, step))

    assert not describe_lost(summarize(synthetic_sweep(tmp_path / "unreached", draws(4), 3, unreached, {(2, 0): 10})))


def test_test_lengths_without_a_value_are_reported(tmp_path, synthetic_sweep):
    def only_shorter(number, seed, average, metric, lengths, step):
        return np.where(lengths > 7, np.nan, 0.1 * number)

    result = summarize(synthetic_sweep(tmp_path / "one", draws(2), 2, only_shorter))
    assert max(result.rows[0].groups.selection) <= 7 < min(result.rows[0].groups.test)
    assert "has no value" in describe_best(result) and "nan" not in describe_best(result).lower()


@pytest.mark.parametrize("same", ["", "seed", "configuration", "both"])
def test_identical_curves_are_noted(same, tmp_path, synthetic_sweep):
    def curve(number, seed, average, metric, lengths, step):
        number, seed = (0 if same in ("configuration", "both") else number), (0 if same in ("seed", "both") else seed)
        return noisy(number, seed, average, metric, lengths, step)

    text = describe_status(summarize(synthetic_sweep(tmp_path / "one", draws(3), 2, curve)))
    unused = {part for part in ("its seed", "searched values") if "identical" in text and part in text}
    expected = {
        "": [],
        "seed": ["its seed"],
        "configuration": ["searched values"],
        "both": ["its seed", "searched values"],
    }
    assert unused == {*expected[same]}


@pytest.mark.parametrize(
    ("members", "steps"),
    [([("a", 0), ("b", 1)], (10, 10)), ([("a", 0), ("b", 0)], (10, 20)), ([("a", 0)], (10,))],
    ids=["a seed each", "a longer training", "one member"],
)
def test_curves_with_nothing_to_compare_are_not_called_identical(members, steps):
    rows = [
        (name, seed, step, 5, 0.3)
        for (name, seed), last in zip(members, steps, strict=True)
        for step in range(10, last + 1, 10)
    ]
    judged = pd.DataFrame(rows, columns=["config_id", "seed", "step", "length", "value"])
    assert _describe_identical_curves(judged, SweepState(Path())) == []


def test_curves_of_members_with_other_losses_are_not_called_identical(tmp_path, synthetic_sweep):
    state = synthetic_sweep(tmp_path / "one", draws(2), 2, lambda *_: 0.5)
    assert describe_status(summarize(state)).count("identical") == 2
    for pack in state.packs.values():  # all members have equal curves, but each its loss
        for fields in pack.evaluations.values():
            fields["loss"] = [int(config_id, 16) + seed for config_id, seed in pack.members]
    assert "identical" not in describe_status(summarize(state))


def test_perfect_curves_may_be_identical(tmp_path, synthetic_sweep):
    result = summarize(synthetic_sweep(tmp_path / "one", draws(3), 2, lambda *_: 1.0))
    assert "identical" not in describe_status(result)


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_has_the_first_configurations_with_quartiles_where_there_is_room(twelve, short_text, width):
    heading, lines = table_of(short_text(twelve, width))
    values = ["dropout", "lr", "trained", "selection", "test", "reach", "failed"]
    assert heading == ["rank", "label", *values] and len(lines) >= 3
    for line, row in zip(lines, twelve.rows[: len(lines)], strict=True):
        groups = (row.trained_quartiles, row.selection_quartiles, row.test_quartiles)
        cells = [format_number(at.median) for at in groups]
        quartiles = [f"[{format_number(at.q25)},{format_number(at.q75)}]" for at in groups]
        assert line[:2] == [str(row.rank), f"#{row.number}"] and line[-1] == str(row.seeds_failed)
        shown = [cell for both in zip(cells, quartiles, strict=True) for cell in both] if width > 80 else cells
        assert line[heading.index("trained") : -2] == shown


@pytest.mark.parametrize(
    ("width", "absent"),
    [(52, {"lr", "trained", "reach"}), (66, {"trained", "reach"}), (71, {"reach"}), (80, set())],
)
def test_values_that_have_no_room_are_named(twelve, short_text, width, absent):
    """Searched values are the last to go; a legend explains what is shown."""
    text = short_text(twelve, width)
    heading, lines = table_of(text)
    (more,) = [line for line in text.splitlines() if "On the page: " in line]
    names = {"dropout", "lr", "trained", "reach"}
    assert names - {*heading} == absent
    assert width < 60 or absent == {name for name in names if re.search(rf"\b{name}\b", more)}
    assert ("reach:" in text) == ("reach" not in absent)
    assert f" {12 - len(lines)} more " in more


def test_the_first_is_compared_with_the_next(tmp_path, synthetic_sweep, short_text):
    """The numbers are those of `lengthwise compare`; ten seeds have an interval, four the command for more."""

    def parted(number, seed, average, metric, lengths, step):
        return noisy(number, seed, average, metric, lengths, step) + 0.002 * math.sin(seed * (1 + number))

    for seeds in (10, 4):
        result = summarize(synthetic_sweep(tmp_path / f"with{seeds}", draws(12), seeds, parted))
        first, second = (f"#{row.number}" for row in result.rows[:2])
        (outcome,) = [
            line.outcome for line in compare_named(result.folder, first[1:], second[1:]).comparisons
            if line.question.group == "test"
        ]  # fmt: skip
        (line,) = [line for line in short_text(result).splitlines() if line.startswith("Against the next")]
        assert second in line and f"{outcome.n} pairs" in line and math.isnan(outcome.low) == (seeds == 4)
        assert (first in line and format_number(abs(outcome.difference)) in line) == (seeds == 10)
        command = f"lengthwise extend {result.folder} --seeds 10"  # in one piece, however long it is
        assert (command in short_text(result, 100)) == (seeds == 4)
        assert len(short_text(replace(result, notes=("a long note " * 30,)), 100).splitlines()) <= 20


@pytest.mark.parametrize(("seeds", "lost", "died"), [(10, (2, 3, 7), [1]), (4, (2, 3, 7), [1]), (4, (2,), [])])
def test_failed_seeds_are_named_on_one_screen(seeds, lost, died, in_tmp_path, synthetic_sweep, short_text):
    """Of each configuration in `lost` all seeds but the last diverge, all of those in `died` crash."""
    failed = {(number, seed): 10 for number in lost for seed in range(seeds - 1)}
    result = summarize(synthetic_sweep(Path("lost"), draws(12), seeds, noisy, failed, died=died))
    text = short_text(replace(result, notes=("a long note " * 30,)), 100)
    assert len(text.splitlines()) <= 20
    named = {line.partition(":")[0]: line for line in text.splitlines() if " seeds " in line}
    labels = " ".join(f"#{number}" for number in lost)
    assert f"{labels} seeds 0-{seeds - 2}" in named["Diverged"] and "step 10" in named["Diverged"]
    assert ("Crashed" in named) == bool(died) == (f"lengthwise resume {result.folder} --retry-failed" in text)
    if died:
        assert f"#1 seeds 0-{seeds - 1}" in named["Crashed"] and "worker died" in named["Crashed"]


# The short name of each searched key, and its values in two configurations.
QUICKSTART = {
    "training.learning_rate": ("lr", 0.01, 0.1),
    "training.weight_decay": ("wd", 0.001, 0.01),
    "training.batch_size": ("batch", 16, 32),
    "model.dropout": ("dropout", 0.1, 0.2),
    "training.averages.ema.decay": ("ema.decay", 0.9, 0.99),
}


def test_the_columns_of_the_quickstart_have_short_names(tmp_path, synthetic_sweep, short_text):
    space = load_sweep(REPOSITORY / "search_spaces" / "quickstart.yaml").resolved()["space"]
    assert space.keys() == QUICKSTART.keys()
    configurations = [{key: row[n] for key, row in QUICKSTART.items()} for n in (1, 2)]
    state = synthetic_sweep(tmp_path / "quick", configurations, 2, noisy, spec={"space": space})
    heading, _ = table_of(short_text(summarize(state), 1000))
    assert {name for name, *_ in QUICKSTART.values()} <= {*heading}


@pytest.fixture(scope="module")
def eighty(tmp_path_factory, synthetic_sweep):
    """Eighty configurations of two seeds; one seed of one of them diverged."""
    return summarize(synthetic_sweep(tmp_path_factory.mktemp("built") / "eighty", draws(80), 2, noisy, {(4, 1): 60}))


@pytest.mark.parametrize("height", [24, 40, 60])
def test_a_higher_window_has_more_rows(height, eighty, short_text):
    """A window has room for a prompt, too."""
    text = short_text(eighty, 100, height)
    lines = sum(math.ceil(max(1, len(line)) / 100) for line in text.splitlines())  # a command is in one piece
    assert lines == max(20, height - 5)
    assert text.count("...") == 0 and f" {80 - len(table_of(text)[1])} more configurations" in text


def test_sentences_and_errors_are_whole_in_every_window(in_tmp_path, synthetic_sweep, short_text):
    values = draws(12)
    state = synthetic_sweep(Path("died"), values, 10, noisy, {(7, 2): 10}, died=[0, 1, 2])
    errors = [f"exit code 1: RuntimeError: {letter * 30} {'the end of a long error ' * 6}{letter}" for letter in "abc"]
    for number, error in enumerate(errors):
        for member in list(state.configurations.values())[number].members.values():
            member.error = error
    result = summarize(state)
    lead, confirm = describe_lead(result)
    effects = describe_effects(result, with_values=False)
    for height in (24, 40, 60):
        shown = short_text(result, 100, height)
        text = " ".join(shown.split())
        assert errors[0] in text and make_answers(result, with_values=False)[0] in text
        assert lead in text and len(table_of(shown)[1]) >= 3
        assert (f"{confirm}\n" in shown and effects in text) or height == 24


@pytest.mark.parametrize("count", [3, 7, 8, 9])
def test_no_line_takes_the_place_of_a_single_row(count, tmp_path, synthetic_sweep, short_text):
    result = summarize(synthetic_sweep(tmp_path / "many", draws(count), 2, noisy, {(1, 1): 60}))
    for height in (24, 40, 60):
        for width in (100, None):
            shown = len(table_of(short_text(result, width, height))[1])
            assert shown == count or shown < count - 1
            assert shown == count or (width is not None and height == 24)


@pytest.mark.parametrize(("count", "shown"), [(20, 20), (21, 21), (22, 20)])
def test_a_file_has_20_rows(count, shown, tmp_path, synthetic_sweep, short_text):
    """One more takes no more room than the line that names it."""
    text = short_text(summarize(synthetic_sweep(tmp_path / "many", draws(count), 2, noisy)))
    assert len(table_of(text)[1]) == shown and (" 2 more configurations" in text) == (shown < count)


@pytest.mark.parametrize("width", [None, 100])
def test_the_first_note_is_whole_in_a_file(width, twelve, short_text):
    notes = ("first " * 30 + "end", "second")
    (line,) = [
        line for line in short_text(replace(twelve, notes=notes), width).splitlines() if "Note (1 of 2):" in line
    ]
    assert notes[0] in line if width is None else line.endswith(" ...") and len(line) <= width
    sentences = short_text(replace(twelve, notes=("One. Two three. " + "four " * 60,)), width)
    assert width is None or "Two three. ...\n" in sentences


def test_an_unfinished_sweep_shows_what_is_finished(tmp_path, synthetic_sweep, short_text):
    done = summarize(synthetic_sweep(tmp_path / "some", draws(3), 2, noisy))
    rows = (*done.rows[:2], replace(done.rows[2], is_complete=False, rank=None, score=None))
    text = short_text(replace(done, rows=rows, status="interrupted"), 80)
    assert "Interrupted: 2 of 3 configurations" in text and "Best so far" in text
    assert [line[0] for line in table_of(text)[1]] == ["1", "2"]
    begun = short_text(summarize(synthetic_sweep(tmp_path / "begun", draws(3), 2, noisy, ended=False)), 80)
    assert "0 of 3 configurations" in begun and "rank" not in begun and "Best" not in begun


def test_of_equal_scores_no_seed_chose_the_first(tmp_path, synthetic_sweep):
    def curve(number, seed, average, metric, lengths, step):
        return [0.3 + 0.01 * seed + (0.1 * number if length > 7 or number == 2 else 0.0) for length in lengths]

    rates = [0.001, 0.01, 0.1]
    grid = {"space": {"training.learning_rate": {"grid": rates}}}
    values = [{"training.learning_rate": rate} for rate in rates]
    summary = summarize(synthetic_sweep(tmp_path / "tied", values, 10, curve, spec=grid))
    (lead,) = describe_lead(summary)
    assert "#0 is better than #1" in lead and "seeds that ranked" not in lead + make_short_answer(summary)


@pytest.mark.parametrize(
    ("failing", "named"),
    [
        ((2, 3), "4 of 8 with lr from 0.003, 0 of 8 below"),
        ((0,), "2 of 4 with lr 0.001, 0 of 12 with other values"),
        ((0, 3), ""),
        ((), ""),
    ],
)
def test_values_that_failed_seeds_share_are_counted(tmp_path, synthetic_sweep, failing, named):
    values = [{"training.learning_rate": 0.001 * (1 + n)} for n in range(4)]
    failed = {(number, seed): 50 for number in failing for seed in (0, 2)}
    state = synthetic_sweep(tmp_path / "some", values, 4, noisy, failed)
    assert describe_shared_values(state) == [("diverged seeds", named)] * bool(named)
    answers = [make_answers(summarize(state), with_values=with_values) for with_values in (True, False)]
    assert all(f"Diverged seeds: {named}." in sentences for sentences in answers) == bool(named)  # page and screen
    assert dict(make_status_rows(state)).get("diverged seeds", "") == named


def test_values_of_crashed_and_of_diverged_seeds_are_told_apart(tmp_path, synthetic_sweep):
    """Seeds crash at the two highest of eight rates and diverge with a norm: all failures share no value."""
    values = [
        {"training.learning_rate": 0.001 * (1 + n), "model.norm": "none" if n in (1, 4) else "pre"} for n in range(8)
    ]
    diverged = {(number, seed): 50 for number in (1, 4) for seed in (0, 2)}
    state = synthetic_sweep(tmp_path / "both", values, 4, noisy, diverged, died=(6, 7))
    assert describe_shared_values(state, max_keys=1) == [
        ("crashed seeds", "8 of 8 with lr from 0.007, 0 of 24 below"),
        ("diverged seeds", "4 of 8 with norm none, 0 of 24 with other values"),
    ]


@pytest.mark.parametrize("gap", [0.0, 0.1, -0.1])
def test_a_lead_is_called_favoured_unless_test_values_are_equal(tmp_path, synthetic_sweep, gap):
    """Both differ at the selection lengths; beyond them by `gap`."""

    def curve(number, seed, average, metric, lengths, step):
        return [0.3 + 0.01 * seed + number * (0.1 if length <= 7 else gap) for length in lengths]

    rates = [0.001, 0.01, 0.1]
    values, grid = [{"training.learning_rate": rate} for rate in rates], {"training.learning_rate": {"grid": rates}}
    summary = summarize(synthetic_sweep(tmp_path / "three", values, 10, curve, spec={"space": grid}))
    lead, *confirm = describe_lead(summary)
    command = f"lengthwise confirm {summary.folder} --top 3 --seeds 10"
    assert ("biased" in lead) == (gap != 0)
    assert [line.endswith(f": {command}") for line in confirm] == [True] * bool(gap)
    (unfinished,) = describe_lead(replace(summary, status="interrupted"))
    assert ("confirm" in lead, "confirm" in unfinished) == (gap != 0, False)
    assert (": no difference" in lead) == (not gap)
    assert not describe_lost(summary) and ("So do all others" in describe_best(summary)) == (not gap)
    assert make_short_answer(summary).endswith(
        {0.0: "no difference.", 0.1: "#1: ahead, on the seeds that ranked it first."}.get(gap, "worse.")
    )

    # `compare` explains the words "ahead" and "behind" where it says them.
    screen = io.StringIO()
    assert not [*compare_and_show(summary.folder, ["0", "1"], Console(file=screen, width=300))]
    assert ("Ahead, not better: #0 " in screen.getvalue()) == (" is ahead of " in screen.getvalue()) == (gap == 0.1)
    assert ("Behind, not worse: #0 " in screen.getvalue()) == (" is behind #1" in screen.getvalue()) == (gap == -0.1)


def test_a_text_without_room_ends_after_a_sentence():
    text = "One two three. Four five six. Seven eight nine."
    assert _cut_sentences(text, 20, 2) == "One two three. Four five six. ..."
    assert _cut_sentences(text, 5, 1) == "One two three. ..." and _cut_sentences(text, 50, 1) == text


def test_no_failure_is_denied_before_a_seed_has_ended(tmp_path, synthetic_sweep, simple_curve):
    values = [{"training.learning_rate": 0.001}]
    result = summarize(synthetic_sweep(tmp_path / "going", values, 3, simple_curve, ended=False))
    assert result.seeds_run == 0 and "failed" not in describe_status(result)
