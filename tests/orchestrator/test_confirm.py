"""A confirmation takes what the validation lengths chose, on seeds nothing has used, and says what it is worth."""

import hashlib
import io
import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from orchestrator.errors import DamagedLedger, SweepExists, UserError
from orchestrator.plan import search
from orchestrator.plan.configurations import make_configurations
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.records import LEDGER_FILE, read_first_record, read_records
from orchestrator.record.state.lineage import CONFIRMS, find_used_seeds, read_lineage
from orchestrator.record.state.state import SweepState
from orchestrator.report.confirmation_sentences import describe_confirmation_briefly
from orchestrator.report.page.data import has_fresh_seeds, make_page_data
from orchestrator.report.sentences import describe_best, make_answers, make_short_answer
from orchestrator.report.tables.columns import make_cells
from orchestrator.report.tables.configuration_tables import make_identity_columns
from orchestrator.report.terminal import Screen
from orchestrator.report.write_report import write_report
from orchestrator.results import read_confirmations as confirmations_module
from orchestrator.results.make_summary import summarize
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.running.watching.status import make_status_rows
from orchestrator.session.session import Outcome
from orchestrator.sweep import confirm as confirm_module
from orchestrator.sweep import derived_sweep
from orchestrator.sweep.confirm import choose_fresh_seeds, plan_confirmation
from orchestrator.tracking.run_contents import MlflowRunBuilder
from orchestrator.upkeep.listing import list_sweeps
from search_spaces import SweepFileError, dump_yaml, load_sweep
from tests.orchestrator.running.ledgers import begin_ledger, cut_ledger
from trainers.config.member import MemberConfig
from trainers.optimization.averaging import Ema

SPACE = {"training.learning_rate": {"log_uniform": [1e-4, 1e-2]}, "training.averages.ema.decay": {"uniform": [0.1, 1]}}
DRAWS = [
    {"training.learning_rate": 10.0 ** -(4 - n / 3), "training.averages.ema.decay": 0.9 + n / 100} for n in (2, 1, 0, 3)
]


def curve(number, seed, average, metric, lengths, step):
    """Number 2 is first at the validation lengths 6 and 7, number 0 at every other one."""
    place = abs(number - 2) * 0.1
    beyond = 0.01 * number
    return [place + 0.001 * seed if length in (6, 7) else beyond for length in lengths]


@pytest.fixture
def searched(tmp_path, synthetic_sweep):
    def build(name="searched", seeds=3, **settings):
        return synthetic_sweep(tmp_path / name, DRAWS, seeds, settings.pop("curve", curve), **settings)

    return build


@pytest.fixture
def searched_by_older_code(searched, monkeypatch):
    """The same sweep, its configurations named by another rule than today's."""

    def older_name(member):
        values = {key: value for key, value in member.to_dict().items() if key != "seed"}
        return "0ld" + hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:9]

    with monkeypatch.context() as older:
        older.setattr(MemberConfig, "config_id", property(older_name))
        return searched("searched")


def built_of(planned):
    drawn = search.draw_configurations(planned.spec, range(search.count_configurations(planned.spec)))
    return make_configurations(planned.spec, [(one.number, one.values) for one in drawn])


def begin(confirmation, storage):
    """Write the first record of a planned confirmation, as running it would."""
    folder = storage / confirmation.spec.name
    begin_ledger(folder, confirmation.spec, provenance=confirmation.origin).close()
    return SweepState.load(folder)


def test_the_first_by_validation_lengths_are_taken_and_stay_what_they_were(searched):
    state = searched()
    planned = plan_confirmation(state, top=2, seeds="4")
    result = summarize(state)
    assert [row.number for row in result.rows[:2]] == [2, 1]  # by test lengths it would be 0, 1
    assert planned.spec.name == "searched-confirm" and planned.spec.seeds == (3, 4, 5, 6)
    assert planned.spec.search.listed == (DRAWS[2], DRAWS[1])
    assert [one.config_id for one in built_of(planned)] == [row.config_id for row in result.rows[:2]]
    origin = planned.origin[CONFIRMS]
    assert (origin["sweep"], origin["spec_hash"], origin["of"]) == ("searched", state.spec_hash, 4)
    assert [(one["config_id"], one["rank"]) for one in origin["configurations"]] == [
        (result.rows[0].config_id, 1),
        (result.rows[1].config_id, 2),
    ]
    assert origin["configurations"][0]["score"][0] == result.rows[0].score
    assert origin["configurations"][0]["test"][0] == result.rows[0].test_quartiles.median


def test_the_confirmation_is_judged_at_the_evaluation_of_its_search(searched):
    def rising(number, seed, average, metric, lengths, step):  # number 0 was better half-way, number 3 at the end
        return [(0.1 * number + 0.2 if step == 50 else 1.0 - 0.1 * number) + 0.01 * length for length in lengths]

    for evaluation, first in (("last", 3), ("best", 0)):
        state = searched(evaluation, curve=rising, spec={"objective.evaluation": evaluation})
        planned = plan_confirmation(state, top=1)
        assert planned.spec.objective.evaluation == evaluation and planned.spec.search.listed == (DRAWS[first],)
        assert planned.origin[CONFIRMS]["configurations"][0]["score"][0] == summarize(state).rows[0].score
    with pytest.raises(UserError, match=r"--set objective\.evaluation: cannot be changed"):
        plan_confirmation(state, top=1, overrides=["objective.evaluation=last"])


def test_the_specification_is_one_that_a_file_could_hold(searched, tmp_path):
    spec = plan_confirmation(searched(), top=2).spec
    (tmp_path / "again.yaml").write_text(dump_yaml(spec.resolved()))
    assert load_sweep(tmp_path / "again.yaml") == spec and len(spec.seeds) == 10
    assert search.list_generations(spec) == [range(2)]
    assert search.draw_sample(spec, 1) == search.draw_configurations(spec, range(2))


@settings(max_examples=200, derandomize=True)
@given(st.sets(st.integers(0, 60)), st.integers(1, 40))
def test_fresh_seeds_are_fresh_for_any_history(used, count):
    found = choose_fresh_seeds(str(count), dict.fromkeys(used, "a"))
    assert len(set(found)) == count and not used & set(found)


@settings(max_examples=200, derandomize=True)
@given(st.sets(st.integers(0, 20), min_size=1), st.lists(st.integers(0, 20), min_size=2, unique=True))
def test_listed_seeds_are_taken_whole_or_refused(used, asked):
    text = ",".join(map(str, asked))
    if used & set(asked):
        with pytest.raises(UserError, match="already used by a"):
            choose_fresh_seeds(text, dict.fromkeys(used, "a"))
    else:
        assert choose_fresh_seeds(text, dict.fromkeys(used, "a")) == tuple(asked)


def test_seeds_to_confirm_on_may_be_a_range():
    assert choose_fresh_seeds("100-102,110", {0: "a"}) == (100, 101, 102, 110) and choose_fresh_seeds(
        "7-7", {0: "a"}
    ) == (7,)
    with pytest.raises(
        UserError, match="--seeds '5-3': not seeds; allowed: a number of seeds such as 10, or different"
    ):
        choose_fresh_seeds("5-3", {})


@pytest.mark.parametrize("asked", ["100001", "0-99999,100000-100000"])
def test_more_seeds_than_a_sweep_file_may_ask_for_are_refused(asked):
    assert len(choose_fresh_seeds("100000", {0: "a"})) == 100_000
    with pytest.raises(UserError, match=f"--seeds {asked}: too many seeds; allowed: up to 100000"):
        choose_fresh_seeds(asked, {})


@pytest.mark.slow
@settings(
    max_examples=8,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sets(st.integers(0, 12), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), min_size=1, max_size=4),
)
def test_no_chain_of_confirmations_uses_a_seed_twice(tmp_path, synthetic_sweep, seeds, steps):
    """Any sweep of the chain may be confirmed next: the search, a confirmation of it, or one of those."""
    storage = tmp_path / "storage"
    shutil.rmtree(storage, ignore_errors=True)
    states = [synthetic_sweep(storage / "s", DRAWS[:1], sorted(seeds), curve, spec={"space": SPACE})]
    used = set(seeds)
    for count, (which, number) in enumerate(steps):
        parent = states[which % len(states)]
        planned = plan_confirmation(parent, top=1, seeds=str(number), name=f"c{count}") if parent is states[0] else None
        if planned is None:  # a confirmation that has begun has no scores yet: only its seeds matter here
            fresh = choose_fresh_seeds(str(number), find_used_seeds(parent))
        else:
            fresh = planned.spec.seeds
            states.append(begin(planned, storage))
        assert not used & set(fresh) and len(fresh) == number
        if planned is not None:
            used |= set(fresh)


def test_a_confirmation_of_a_confirmation_knows_the_seeds_of_both(searched, synthetic_sweep, tmp_path):
    state = searched()
    planned = plan_confirmation(state, top=1, seeds="2")
    child = begin(planned, tmp_path)
    assert read_lineage(child.folder).root == read_lineage(state.folder).identity
    assert set(find_used_seeds(child)) == {0, 1, 2, 3, 4} == set(find_used_seeds(state))
    shutil.rmtree(state.folder)
    assert set(find_used_seeds(child)) == {0, 1, 2, 3, 4}, "the search is gone; its seeds are remembered"


@pytest.mark.slow
def test_refusals(searched, tmp_path):
    state = searched()

    def said(**options):
        with pytest.raises(UserError) as caught:
            plan_confirmation(state, **options)
        return str(caught.value)

    assert "--top 9: 4 configurations of searched succeeded (there are no more); allowed: a number from 1 to 4" in said(
        top=9
    )
    assert "--top 0 is not a number of configurations" in said(top=0)
    assert "give only one" in said(top=1, labels=["#2"])
    for seeds in ("0", "ten", "", "1.5", "-3", ","):
        assert "allowed: a number of seeds such as 10" in said(seeds=seeds)
    assert "--seeds 2,7: already used by searched: 2" in said(seeds="2,7")
    assert "--set seeds: cannot be changed" in said(overrides=["seeds=[1, 2]"])
    with pytest.raises(SweepFileError, match="must not start with"):
        plan_confirmation(state, name="../up")
    with pytest.raises(SweepExists, match="already has a sweep; it is complete; show it with: lengthwise report "):
        plan_confirmation(state, name="searched")
    assert plan_confirmation(state, overrides=["resources.cpus=2"]).spec.resources.cpus == 2
    begin(plan_confirmation(state), tmp_path)
    with pytest.raises(SweepExists, match=r"can be resumed with: lengthwise resume .*/searched-confirm\n"):
        plan_confirmation(state)


def test_a_taken_name_is_shown_as_the_sweep_was_typed(searched, synthetic_sweep, tmp_path, monkeypatch):
    folder = searched().folder
    synthetic_sweep(tmp_path / "searched-confirm", DRAWS, 1, curve)
    monkeypatch.chdir(tmp_path.parent)
    typed = folder.relative_to(tmp_path.parent)
    with pytest.raises(SweepExists, match=f"(?m)^{typed}-confirm already .* {typed}-confirm$"):
        plan_confirmation(SweepState.load(typed))
    monkeypatch.chdir(folder)
    with pytest.raises(SweepExists, match=f"^{tmp_path}/searched-confirm already"):
        plan_confirmation(SweepState.load(Path()))


def test_what_a_confirmation_keeps_is_refused_by_its_keys_alone(searched):
    state, secrets = searched(), ["notify=https://host/se-cret", "tracking.uri=http://ada:pass-word@host"]
    allowed = "allowed: resources, budget, tracking, notify (--name sets the name)"
    for kept, why in (
        ("training.steps=5", " in a sweep with the same configurations"),
        ("name=foo", ""),
        (" description=x", ""),
    ):
        with pytest.raises(UserError) as caught:
            plan_confirmation(state, top=1, overrides=[secrets[0], kept, secrets[1]])
        assert str(caught.value) == f"--set {kept.partition('=')[0].strip()}: cannot be changed{why}; {allowed}"
    assert plan_confirmation(state, top=1, overrides=secrets).spec.notify == "https://host/se-cret"


def test_failed_configurations_are_not_confirmed(searched):
    state = searched(failed={(2, seed): 60 for seed in range(3)})
    with pytest.raises(UserError, match=r"3 configurations of searched succeeded \(1 failed\)"):
        plan_confirmation(state, top=4)
    assert DRAWS[2] not in plan_confirmation(state, top=3).spec.search.listed
    single = searched("single", failed={(number, seed): 60 for number in (0, 1, 3) for seed in range(3)})
    assert plan_confirmation(single).spec.search.listed == (DRAWS[2],), "three unless there are fewer"


def test_named_configurations_are_confirmed_instead_of_the_first(searched):
    state = searched()
    rows = summarize(state).rows
    third, second = rows[2], rows[1]
    names = [f"#{third.number}", second.config_id[:8]]
    planned = plan_confirmation(state, seeds="2", labels=names)
    listed = [one["number"] for one in planned.origin[CONFIRMS]["configurations"]]
    assert listed == [second.number, third.number]
    assert list(planned.spec.search.listed) == [second.values, third.values]
    assert f"#{second.number}, #{third.number} of" in planned.spec.description
    with pytest.raises(UserError, match="no configuration #99"):
        plan_confirmation(state, labels=["#99"])


def test_an_unfinished_sweep_needs_to_be_allowed(searched):
    state = searched()
    cut_ledger(state.folder, -1)
    state = SweepState.load(state.folder)
    with pytest.raises(UserError, match=r"not finished.*lengthwise resume"):
        plan_confirmation(state)
    planned = plan_confirmation(state, allow_unfinished=True)
    assert planned.origin[CONFIRMS]["finished"] is False


def test_a_fixed_value_whose_default_changed_is_written_out(searched, monkeypatch):
    state = searched()
    monkeypatch.setitem(state.spec["training"], "weight_decay", 0.5)  # as if 0.5 were today's default
    monkeypatch.setitem(state.spec["model"], "norm", "pre")
    planned = plan_confirmation(state, top=2)
    assert planned.spec.training["weight_decay"] == 0.01 and planned.spec.model["norm"] == "none"
    assert planned.spec.search.listed == (DRAWS[2], DRAWS[1]), "what was searched is listed, and nothing else"
    recorded = [state.configurations[row.config_id].resolved for row in summarize(state).rows[:2]]
    assert [one.resolved for one in built_of(planned)] == recorded


def test_a_value_that_was_not_the_same_in_all_is_listed_with_each(searched, monkeypatch):
    state = searched()
    rows = summarize(state).rows[:2]
    for row, norm in zip(rows, ("pre", "post"), strict=True):
        monkeypatch.setitem(state.configurations[row.config_id].resolved["model"], "norm", norm)
    planned = plan_confirmation(state, top=2)
    assert [one["model.norm"] for one in planned.spec.search.listed] == ["pre", "post"]
    assert [one.resolved["model"]["norm"] for one in built_of(planned)] == ["pre", "post"]


def test_what_was_mended_since_is_not_confirmed(searched, monkeypatch):
    state = searched()
    monkeypatch.setattr(Ema, "revision", 2)
    with pytest.raises(UserError, match=r"training.averages.ema: ema was revision 1 and is revision 2 today"):
        plan_confirmation(state)


def test_a_damaged_sweep_beside_it_is_an_error_for_seeds_and_none_for_reports(searched, tmp_path):
    state = searched()
    other = tmp_path / "other"
    other.mkdir()
    (other / LEDGER_FILE).write_bytes(b"not a ledger\n")
    with pytest.raises(DamagedLedger):
        plan_confirmation(state)
    assert read_confirmations(summarize(state)) == ()


@pytest.mark.parametrize("sweep", ["searched", "searched_by_older_code"])
def test_both_scores_are_side_by_side_in_both_reports(request, synthetic_sweep, tmp_path, sweep):
    found = request.getfixturevalue(sweep)
    state = found() if callable(found) else found
    planned = plan_confirmation(state, top=2, seeds="4")

    def luck_is_gone(number, seed, average, metric, lengths, step):
        return [0.3 + 0.1 * number + 0.001 * seed] * len(lengths)

    draft = synthetic_sweep(tmp_path / "draft", planned.spec.search.listed, planned.spec.seeds, luck_is_gone)
    as_confirmation(draft, planned, tmp_path / planned.spec.name)
    search, child = summarize(state), summarize(SweepState.load(tmp_path / planned.spec.name))
    for result in (search, child):
        (one,) = read_confirmations(result)
        assert (one.name, one.parent, one.seeds, one.reused_seeds) == ("searched-confirm", "searched", (3, 4, 5, 6), ())
        first, second = one.rows
        assert [row.config_id for row in one.rows] == [row.config_id for row in search.rows[:2]]
        assert first.config_id.startswith("0ld") is (sweep == "searched_by_older_code")
        assert first.search.median == search.rows[0].score
        assert first.confirmed.median == pytest.approx(0.3045) and second.confirmed.median == pytest.approx(0.4045)
        assert first.confirmed_test.median == pytest.approx(0.3045) and first.seeds_run == 4
        assert "on seeds 3-6, which no selection used" in one.sentence
    assert has_fresh_seeds(child) and not has_fresh_seeds(search)
    screen = io.StringIO()
    Console(file=screen, width=1000).print(Screen(search))
    assert len(make_answers(search)) == 4
    assert all(sentence in screen.getvalue() for sentence in make_answers(search, with_values=False))
    other = search.rows[1].number
    for result in (search, child):  # four pairs of seeds have no interval
        (told,) = [sentence for sentence in make_answers(result)[2:3] if sentence.startswith("Confirmation ")]
        assert "#2 stays first" in told and f"No verdict at the test lengths 8-11: #2 minus #{other} " in told
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
    assert [line.split()[-1] for line in list_sweeps(tmp_path) if line.startswith("searched-")] == ["searched"]


@pytest.mark.parametrize("gain", [-0.1, 0.0, 0.1])  # of the search's second configuration, on fresh seeds
def test_the_verdict_of_fresh_seeds_comes_after_the_best(searched, synthetic_sweep, tmp_path, short_text, gain):
    planned = plan_confirmation(state := searched(), top=2, seeds="10")

    def fresh(number, seed, average, metric, lengths, step):
        noise = 0.0 if gain else 0.01 * (-1) ** seed  # without a gain, seeds disagree
        return [0.3 + 0.001 * seed + number * (noise - gain)] * len(lengths)

    draft = synthetic_sweep(tmp_path / "draft", planned.spec.search.listed, planned.spec.seeds, fresh)
    as_confirmation(draft, planned, tmp_path / planned.spec.name)
    search, child = summarize(state), summarize(SweepState.load(tmp_path / planned.spec.name))
    best, second = (f"#{row.number}" for row in search.rows[:2])
    runs = MlflowRunBuilder(child, read_records(child.folder), read_curves(child.state))
    names = [contents.name.partition(":")[0] for _, contents in runs.make_configuration_runs()]
    assert names == [best, second] != ["#0", "#1"]
    outcome = read_confirmations(search)[0].comparison.outcome
    assert outcome.n == 10 and outcome.difference == pytest.approx(gain, abs=1e-6)
    clear = {-0.1: f"{best} is better than {second}", 0.1: f"{second} is better than {best}", 0.0: "Inconclusive"}
    for result in (search, child):
        told = make_answers(result)[2]
        assert f" {second} is first" in told if gain > 0 else f" {best} stays first" in told
        assert f". {clear[gain]} at the test lengths 8-11" in told and "(97.9 % interval, 10 pairs of seeds)" in told
        assert "10 pairs" in " ".join(short_text(result, 100).split())

        # A table of the page has the scores; the metric is that of the answer before.
        with_scores = make_answers(result, with_values=False)[2]
        assert "Scores: " in with_scores and "Scores: " not in told
        assert result.objective.metric in make_answers(result)[1] and result.objective.metric not in with_scores
        assert len(told) < 240
    data = make_page_data(search, read_curves(state))
    assert data["confirmations"] == 1  # where the page continues its answers
    (pair,) = data["confirmed_pairs"]  # beside the comparison on the seeds of the search
    assert pair["labels"] == [best, second] and clear[gain].lower() in pair["sentence"]
    assert make_page_data(child, read_curves(child.state))["confirmed_pairs"] == []


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
    write_report(result.folder, result)
    Console(file=io.StringIO()).print(Screen(result))
    assert read_confirmations(result) == () and read == ["searched"]


def as_confirmation(draft, planned, target):
    """The records of a synthetic sweep under the first record that the confirmation would have."""
    with begin_ledger(target, planned.spec, provenance=planned.origin) as ledger:
        for record in read_records(draft.folder)[1:]:
            ledger.append(record.kind, **record.fields)
    shutil.copytree(draft.folder / "curves", target / "curves")
    shutil.rmtree(draft.folder)


def test_the_confirmation_runs_by_the_path_of_every_sweep(searched, monkeypatch):
    state = searched()
    seen = {}

    def run(spec, storage, console, origin, **_):
        seen.update(spec=spec, storage=storage, origin=origin)
        return Outcome(folder=storage / spec.name, status="failed", exit_code=1)

    monkeypatch.setattr(derived_sweep.run_and_resume, "run_sweep", run)
    plan = partial(plan_confirmation, top=1, seeds="2", name="other")
    outcome = confirm_module.confirm_sweep(state.folder, Console(file=io.StringIO()), plan)
    assert outcome.exit_code == 1 and seen["storage"] == state.folder.parent
    assert seen["spec"].name == "other" and seen["origin"][CONFIRMS]["sweep"] == "searched"
    assert read_first_record(state.folder).fields["name"] == "searched"
