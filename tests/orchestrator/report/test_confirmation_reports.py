"""What the reports of a search and of its confirmation say about each other."""

import hashlib
import html
import io
import json
import re
import shutil
from dataclasses import replace

import pytest
from rich.console import Console

from orchestrator.errors import UserError
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.comparisons import compare_and_show
from orchestrator.report.confirmation_sentences import describe_confirmation_briefly
from orchestrator.report.page.data import make_page_data
from orchestrator.report.sentences import describe_best, make_answers, make_short_answer
from orchestrator.report.tables.columns import make_cells
from orchestrator.report.tables.configuration_tables import make_identity_columns
from orchestrator.report.terminal import Screen
from orchestrator.report.write_report import write_report
from orchestrator.results import read_confirmations as confirmations_module
from orchestrator.results.comparing.named_comparison import compare_named
from orchestrator.results.make_summary import summarize
from orchestrator.results.read_confirmations import has_fresh_seeds, read_confirmations
from orchestrator.results.summary import Summary
from orchestrator.running.watching.leading_curve import make_leading_curve_rows
from orchestrator.running.watching.status import make_status_rows
from orchestrator.sweep.confirm import plan_confirmation
from orchestrator.tracking.run_contents import MlflowRunBuilder
from orchestrator.upkeep.listing import list_sweeps
from tests.orchestrator.confirmations import as_confirmation, begin
from trainers.config.member import MemberConfig


@pytest.fixture
def searched_by_older_code(searched, monkeypatch):
    """The same sweep, its configurations named by another rule than today's."""

    def older_name(member):
        values = {key: value for key, value in member.to_dict().items() if key != "seed"}
        return "0ld" + hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:9]

    with monkeypatch.context() as older:
        older.setattr(MemberConfig, "config_id", property(older_name))
        return searched("searched")


@pytest.mark.parametrize("sweep", ["searched", "searched_by_older_code"])
def test_both_scores_are_side_by_side_in_both_reports(request, synthetic_sweep, tmp_path, sweep):
    fixture = request.getfixturevalue(sweep)
    state = fixture() if callable(fixture) else fixture
    planned = plan_confirmation(state, top=2, seeds="4")

    def luck_is_gone(number, seed, average, metric, lengths, step):
        return [0.3 + 0.1 * number + 0.001 * seed] * len(lengths)

    draft = synthetic_sweep(tmp_path / "draft", planned.spec.search.listed, planned.spec.seeds, luck_is_gone)
    as_confirmation(draft, planned, tmp_path / planned.spec.name)
    search, child = summarize(state), summarize(SweepState.load(tmp_path / planned.spec.name))
    for result in (search, child):
        (confirmation,) = read_confirmations(result)
        assert (confirmation.name, confirmation.parent) == ("searched-confirm", "searched")
        assert (confirmation.seeds, confirmation.reused_seeds) == ((3, 4, 5, 6), ())
        first, second = confirmation.rows
        assert [row.config_id for row in confirmation.rows] == [row.config_id for row in search.rows[:2]]
        assert first.config_id.startswith("0ld") is (sweep == "searched_by_older_code")
        assert first.search.median == search.rows[0].score
        assert first.confirmed.median == pytest.approx(0.3045) and second.confirmed.median == pytest.approx(0.4045)
        assert first.confirmed_test.median == pytest.approx(0.3045) and first.seeds_run == 4
        assert "on seeds 3-6, which no selection used" in confirmation.sentence
    assert has_fresh_seeds(child) and not has_fresh_seeds(search)
    screen = io.StringIO()
    Console(file=screen, width=1000).print(Screen(search))
    assert len(make_answers(search)) == 4
    assert all(sentence in screen.getvalue() for sentence in make_answers(search, with_values=False))
    other = search.rows[1].number
    for result in (search, child):  # four pairs of seeds have no interval
        (answer,) = [sentence for sentence in make_answers(result)[2:3] if sentence.startswith("Confirmation ")]
        assert "#2 stays first" in answer and f"No verdict at the test lengths 8-11: #2 minus #{other} " in answer
    assert ": #2, " in describe_best(child) and " 0.304" in describe_best(child)
    cells = make_cells(child.rows, make_identity_columns(child))
    assert (cells["label"], cells["number"]) == (["#2", f"#{other}"], ["0", "1"])
    data = make_page_data(child, read_curves(child.state))
    assert [shown["label"] for shown in data["configurations"]] == cells["label"]
    assert all(make_page_data(summary, read_curves(summary.state))["confirmed"] is True for summary in (search, child))
    assert "#2 stays first" in make_short_answer(child)
    assert make_short_answer(search).startswith("#2 ") and make_short_answer(search).endswith(make_short_answer(child))
    (score, at_test) = (search.rows[0].score, search.rows[0].test_quartiles.median)
    assert re.findall(r" (0\.\d+)[,.]? ", make_short_answer(search))[:2] == [f"{score:#.3g}", f"{at_test:#.3g}"]
    (confirmed,) = read_confirmations(search)
    for caveat in ({"reused_seeds": (4,)}, {"changed_code": ("lengthwise",)}):  # each weakens what it shows
        assert describe_confirmation_briefly(replace(confirmed, **caveat)).count("(") == 1
    assert "(" not in describe_confirmation_briefly(confirmed)
    assert (
        dict(make_status_rows(SweepState.load(child.folder)))["confirms"]
        == f"searched (#0 is #2, #1 is #{other} there)"
    )

    # Commands on the confirmation take the labels of its tables; a number that is no label is its own.
    for names in (("#2", str(other)), ("2", f"#{other}")):
        compared = compare_named(child.folder, *names)
        assert (compared.first.row.number, compared.second.row.number) == (0, 1)
        assert (compared.first.label, compared.second.label) == ("#2", f"#{other}")
    with pytest.raises(UserError, match=f"allowed: #2, #{other}, a config_id"):
        compare_named(child.folder, "9", "2")
    screen = io.StringIO()
    [*compare_and_show(search.folder, [str(child.folder)], Console(file=screen, width=1000))]
    assert "#2 of searched minus #2 of searched-confirm" in screen.getvalue()
    is_named_alike = sweep == "searched"
    assert (f"configuration, {search.rows[0].config_id}." in screen.getvalue()) == is_named_alike

    (listed,) = (line for line in list_sweeps(tmp_path) if line.startswith("searched-"))
    assert "  searched  " in listed and "(#2)" in listed  # the label in the search, as in the report
    score_text, _, judged_by = dict(make_status_rows(child.state))["best score"].partition(": ")
    assert score_text.endswith("(#2)") and judged_by.startswith(child.judged_name) and "lower" in judged_by
    assert [name for name, _ in make_leading_curve_rows(child.state)] == ["median of #2"]
    assert any("4 seeds" in message and "6" in message for message in planned.messages)


@pytest.mark.parametrize("gain", [-0.1, 0.0, 0.1])  # of the search's second configuration, on fresh seeds
def test_the_verdict_of_fresh_seeds_comes_after_the_best(
    searched, synthetic_sweep, tmp_path, short_text, gain, monkeypatch
):
    planned = plan_confirmation(state := searched(), top=2, seeds="10")
    assert planned.messages == plan_confirmation(state, top=1, seeds="2").messages == ()  # enough; nothing to compare

    def fresh(number, seed, average, metric, lengths, step):
        noise = 0.0 if gain else 0.01 * (-1) ** seed  # without a gain, seeds disagree
        return [0.3 + 0.001 * seed + number * (noise - gain)] * len(lengths)

    draft = synthetic_sweep(tmp_path / "draft", planned.spec.search.listed, planned.spec.seeds, fresh)
    as_confirmation(draft, planned, tmp_path / planned.spec.name)
    search, child = summarize(state), summarize(SweepState.load(tmp_path / planned.spec.name))
    best, second = (f"#{row.number}" for row in search.rows[:2])
    runs = MlflowRunBuilder(child, read_records(child.folder), read_curves(child.state))
    names = [re.findall(r"#\d+", contents.name)[0] for _, contents in runs.make_configuration_runs()]
    assert names == [best, second] != ["#0", "#1"]
    outcome = read_confirmations(search)[0].comparison.outcome
    assert outcome.n == 10 and outcome.difference == pytest.approx(gain, abs=1e-6)
    # The difference is that of the best minus the second, and the word is about the best.
    clear = {-0.1: f"{best} is better than {second}", 0.1: f"{best} is worse than {second}", 0.0: "Inconclusive"}
    for result in (search, child):
        answer = make_answers(result)[2]
        assert f" {second} is first" in answer if gain > 0 else f" {best} stays first" in answer
        assert f". {clear[gain]} at the test lengths 8-11" in answer and "(95 % interval, 10 pairs of seeds)" in answer
        assert "10 pairs" in " ".join(short_text(result, 100).split())

        # A table of the page has the scores; the metric is that of the answer before.
        with_scores = make_answers(result, with_values=False)[2]
        assert "Scores: " in with_scores and "Scores: " not in answer
        assert result.objective.metric in make_answers(result)[1] and result.objective.metric not in with_scores
        assert len(answer) < 240
    data = make_page_data(search, read_curves(state))
    assert data["confirmations"] == 1  # where the page continues its answers
    (pair,) = data["confirmed_pairs"]  # beside the comparison on the seeds of the search
    assert pair["labels"] == [best, second] and clear[gain].lower() in pair["sentence"]
    assert make_page_data(child, read_curves(child.state))["confirmed_pairs"] == []

    # A comparison of the two in the search begins with the answer of the fresh seeds; it advises no other seeds.
    def compare():
        screen = io.StringIO()
        numbers = [label[1:] for label in (best, second)]
        assert not [*compare_and_show(state.folder, numbers, Console(file=screen, width=300))]
        return screen.getvalue().splitlines()

    on_fresh, on_chosen, third, *_ = compare()
    assert on_fresh == pair["sentence"] and f"ranked {best} first" in on_chosen and "extend" not in third

    # So does that of a search of these two alone, although its seeds favour neither.
    monkeypatch.setattr(Summary, "planned_configurations", 2)
    on_fresh, in_search, *_ = compare()
    assert on_fresh == pair["sentence"] and in_search.startswith("In the search: ")


def test_a_search_extended_onto_the_seeds_takes_the_confirmation_its_worth(searched, synthetic_sweep, tmp_path):
    state = searched()
    planned = plan_confirmation(state, top=1, seeds="2")
    begin(planned, tmp_path)
    shutil.rmtree(state.folder)
    searched(seeds=4)  # as if seed 3 had been added to the search afterwards
    search, confirmation = (summarize(SweepState.load(tmp_path / name)) for name in (state.name, planned.spec.name))
    (confirmed,) = read_confirmations(search)
    assert confirmed.reused_seeds == (3,) and confirmed.unfinished == "interrupted"
    assert "of which the search has since used 3: not independent of the selection" in confirmed.sentence
    assert not any("fresh" in sentence for sentence in make_answers(search)) and not has_fresh_seeds(confirmation)


@pytest.mark.slow
def test_confirmations_are_read_once_for_everything_that_is_written_and_printed(searched, monkeypatch):
    read = []
    monkeypatch.setattr(confirmations_module, "find_confirmations", lambda state: read.append(state.name) or [])
    result = summarize(searched())
    assert read == []  # what nobody looks at is not read
    write_report(result.folder, result, read_curves(result.state))
    Console(file=io.StringIO()).print(Screen(result))
    assert read_confirmations(result) == () and read == ["searched"]


def test_the_page_offers_a_confirmation_with_a_free_name(searched, synthetic_sweep, simple_curve, tmp_path):
    state = searched()
    for number in (1, 2, 3):
        page = write_report(state.folder)[0].read_text()
        (command,) = re.findall(r"^lengthwise confirm .*?(?=  )", html.unescape(page), re.MULTILINE)
        options = dict(re.findall(r"--(\w+) (\S+)", command))
        name = options.get("name")
        assert name == (None if number == 1 else f"{state.name}-confirm{number}")
        planned = plan_confirmation(state, top=int(options["top"]), seeds=options["seeds"], name=name)
        assert not (tmp_path / planned.spec.name).exists()
        listed, seeds = planned.spec.search.listed, planned.spec.seeds
        draft = synthetic_sweep(tmp_path / f"draft{number}", listed, seeds, simple_curve)
        as_confirmation(draft, planned, tmp_path / planned.spec.name)
