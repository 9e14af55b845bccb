"""A confirmation takes what the selection lengths chose, on seeds that nothing has used."""

import io
import shutil
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from orchestrator.errors import DamagedLedger, SweepExists, UserError
from orchestrator.plan import optuna_draws
from orchestrator.plan.configurations import make_configurations
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.records import read_first_record
from orchestrator.record.state.lineage import CONFIRMS, find_used_seeds, read_lineage
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.session.session import Outcome
from orchestrator.sweep import confirm as confirm_module
from orchestrator.sweep import derived_sweep
from orchestrator.sweep.confirm import choose_fresh_seeds, plan_confirmation
from orchestrator.text.wording import describe_wrong_numbers
from orchestrator.tracking import publish as publishing
from orchestrator.tracking.tracking_errors import TrackingError
from search_spaces import SweepFileError, dump_yaml, load_sweep
from tests.orchestrator.confirmations import DRAWS, begin, curve
from tests.orchestrator.running.ledgers import cut_ledger
from trainers.optimization.averaging import Ema

SPACE = {"training.learning_rate": {"log_uniform": [1e-4, 1e-2]}, "training.averages.ema.decay": {"uniform": [0.1, 1]}}


def built_of(planned):
    drawn = optuna_draws.draw_configurations(planned.spec, range(optuna_draws.count_configurations(planned.spec)))
    return make_configurations(planned.spec, [(draw.number, draw.values) for draw in drawn])


def test_the_first_by_validation_lengths_are_taken_and_stay_what_they_were(searched):
    state = searched()
    planned = plan_confirmation(state, top=2, seeds="4")
    result = summarize(state)
    assert [row.number for row in result.rows[:2]] == [2, 1]  # by test lengths it would be 0, 1
    assert planned.spec.name == "searched-confirm" and planned.spec.seeds == (3, 4, 5, 6)
    assert planned.spec.search.listed == (DRAWS[2], DRAWS[1])
    assert [configuration.config_id for configuration in built_of(planned)] == [
        row.config_id for row in result.rows[:2]
    ]
    origin = planned.origin[CONFIRMS]
    assert (origin["sweep"], origin["spec_hash"], origin["of"]) == ("searched", state.spec_hash, 4)
    assert [(configuration["config_id"], configuration["rank"]) for configuration in origin["configurations"]] == [
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
    assert optuna_draws.list_generations(spec) == [range(2)]
    assert optuna_draws.draw_sample(spec, 1) == optuna_draws.draw_configurations(spec, range(2))


@settings(max_examples=200, derandomize=True)
@given(st.sets(st.integers(0, 60)), st.integers(1, 40))
def test_fresh_seeds_are_fresh_for_any_history(used, count):
    seeds = choose_fresh_seeds(str(count), dict.fromkeys(used, "a"))
    assert len(set(seeds)) == count and not used & set(seeds)


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


@pytest.mark.parametrize("seeds", ["5-3", "7,7", "0"])
def test_wrong_seeds_have_the_reason_of_wrong_lengths(seeds):
    with pytest.raises(UserError, match=f"--seeds '{seeds}': {describe_wrong_numbers(seeds)}"):
        choose_fresh_seeds(seeds, {})


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

    def read_refusal(**options):
        with pytest.raises(UserError) as caught:
            plan_confirmation(state, **options)
        return str(caught.value)

    refusal = read_refusal(top=9)
    assert (
        "--top 9: 4 configurations of searched succeeded (there are no more); allowed: a number from 1 to 4" in refusal
    )
    assert "--top 0 is not a number of configurations" in read_refusal(top=0)
    assert "give only one" in read_refusal(top=1, labels=["#2"])
    for seeds in ("0", "ten", "", "1.5", "-3", ","):
        assert "allowed: a number of seeds such as 10" in read_refusal(seeds=seeds)
    assert "--seeds 2,7: already used by searched: 2" in read_refusal(seeds="2,7")
    assert "--set seeds: cannot be changed" in read_refusal(overrides=["seeds=[1, 2]"])
    with pytest.raises(SweepFileError, match="must not start with"):
        plan_confirmation(state, name="../up")
    with pytest.raises(SweepExists, match="already has a sweep; it is finished; show it with: lengthwise report "):
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
    listed = [configuration["number"] for configuration in planned.origin[CONFIRMS]["configurations"]]
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
    assert [configuration.resolved for configuration in built_of(planned)] == recorded


def test_a_value_that_was_not_the_same_in_all_is_listed_with_each(searched, monkeypatch):
    state = searched()
    rows = summarize(state).rows[:2]
    for row, norm in zip(rows, ("pre", "post"), strict=True):
        monkeypatch.setitem(state.configurations[row.config_id].resolved["model"], "norm", norm)
    planned = plan_confirmation(state, top=2)
    assert [values["model.norm"] for values in planned.spec.search.listed] == ["pre", "post"]
    assert [configuration.resolved["model"]["norm"] for configuration in built_of(planned)] == ["pre", "post"]


def test_a_sweep_of_a_revised_class_cannot_be_confirmed(searched, monkeypatch):
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


@pytest.mark.parametrize("problem", [None, TrackingError("refused")])
def test_the_search_is_published_again_where_it_was_published(problem, searched, monkeypatch):
    state, sent = searched(), []

    def send(folder):
        sent.append(folder)
        if problem:
            raise problem

    done = Outcome(folder=state.folder, status="complete", exit_code=0)
    monkeypatch.setattr(confirm_module, "run_derived", lambda *_, **__: done)
    monkeypatch.setattr(publishing, "publish", send)
    assert confirm_module.confirm_sweep(state.folder, Console(file=io.StringIO()), plan_confirmation) is done
    assert sent == []
    publishing.record_address(state.folder, "http://mlflow:5000")
    output = io.StringIO()
    assert confirm_module.confirm_sweep(state.folder, Console(file=output), plan_confirmation) is done
    assert sent == [state.folder] and ("refused" in output.getvalue()) == bool(problem)
