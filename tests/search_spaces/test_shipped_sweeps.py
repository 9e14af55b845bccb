"""Every sweep file of the repository is one that `lengthwise validate` finds good, and says what it is."""

import re
from pathlib import Path

import pytest

from orchestrator.code.user_code import import_spec_modules
from orchestrator.plan.configurations import list_warnings, make_configurations
from orchestrator.plan.optuna_draws import draw_sample
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN, find_order_statistic
from orchestrator.trainer_choice import get_trainer
from search_spaces import load_sweep
from search_spaces.grammar.shipped import find_shipped_sweeps

FOLDER = Path(__file__).parents[2] / "search_spaces"
FILES = sorted(
    find_shipped_sweeps().values()
)  # those of `lengthwise init` are tested in tests/orchestrator/upkeep/test_new_study.py


def name_of(file: Path) -> str:
    return str(file.relative_to(FOLDER))


def test_there_are_sweeps() -> None:
    assert len(FILES) > 10 and FOLDER / "quickstart.yaml" in FILES


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_shipped_sweep_is_good(file: Path, own_code_forgotten: None) -> None:
    spec = load_sweep(file)
    import_spec_modules(spec)
    configurations = make_configurations(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 20)])
    member = configurations[0].build_member(spec.seeds[0])
    judged = get_trainer(spec.sections).list_measurements(member).metrics[spec.objective.metric]
    beyond = set(judged.lengths) - set(judged.trained_lengths) if judged.trained_lengths else set()
    spec = spec.with_direction(judged.direction) if spec.direction_is_assumed else spec
    # The decays of averages are those of the papers.
    warnings = [
        warning for warning in list_warnings(spec, [member]) if "still the weights with which it began" not in warning
    ]
    assert spec.name == file.stem
    if "chosen in distribution" in file.read_text(encoding="utf-8"):  # as the file says of its objective.lengths
        warnings = [warning for warning in warnings if "objective.lengths includes trained lengths" not in warning]
    assert not beyond or not warnings, "selection is on lengths beyond training, in the metric's better direction"


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_shipped_sweep_names_the_schema_and_explains_itself(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    match = re.match(r"# yaml-language-server: \$schema=(\S+)\n# ", text)
    assert match and (file.parent / match.group(1)).resolve() == FOLDER / "schema.json"
    assert re.search(r"chosen|paper", text.partition("\nname:")[0]), "says where its values come from"


@pytest.mark.parametrize("file", sorted((FOLDER / "set_complement").glob("*_cpu.yaml")), ids=name_of)
def test_a_small_sweep_asks_what_its_large_one_asks(file: Path) -> None:
    small, large = load_sweep(file), load_sweep(file.with_name(file.name.replace("_cpu", "")))
    assert set(small.space) == set(large.space) and small.study == large.study
    assert small.objective.metric == large.objective.metric


@pytest.mark.parametrize("file", [file for file in FILES if file.stem.endswith("_cpu")], ids=name_of)
def test_a_small_sweep_does_not_ask_for_seeds_that_decide_nothing_more(file: Path) -> None:
    seeds = len(load_sweep(file).seeds)
    contrary = find_order_statistic(seeds)  # how many seeds may differ from all others for the median to be decided
    assert seeds <= MIN_FOR_MEDIAN or contrary != find_order_statistic(seeds - 1), f"{seeds - 1} seeds decide as much"


SCRATCHPADS = {path.stem: path for path in FILES if path.parent.name == "inductive_scratchpad"}
AT_PAPER_SIZE = [path for name, path in SCRATCHPADS.items() if f"{name}_cpu" in SCRATCHPADS]  # others are small alone


@pytest.mark.parametrize("file", AT_PAPER_SIZE, ids=name_of)
def test_scratchpads_at_the_size_of_their_paper_train_as_its_code_does(file: Path) -> None:
    spec = load_sweep(file)
    member = make_configurations(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 1)])[0].build_member(0)
    trained, task = (member.to_dict()[section] for section in ("training", "task"))
    assert trained["compute_dtype"] == "bfloat16"
    assert task["name"] != "shift_addition" or task["fix_first_state"] is False


def test_the_random_search_is_as_large_as_a_search_should_be() -> None:
    spec = load_sweep(FOLDER / "set_complement" / "random_search.yaml")
    assert (spec.search.configurations or 0) >= 128 and len(spec.seeds) >= 10


def test_every_sampler_that_draws_is_shown() -> None:
    samplers = {
        load_sweep(file).search.sampler for file in (FOLDER / "quickstart.yaml", *FOLDER.glob("examples/*.yaml"))
    }
    assert samplers >= {"random", "qmc", "tpe"}
    tpe = load_sweep(FOLDER / "examples" / "tpe.yaml")
    assert tpe.search.count_informed(tpe.search.configurations or 0) >= 3 * tpe.search.generation
