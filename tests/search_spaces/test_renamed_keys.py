"""`objective.checkpoint` is now called `objective.evaluation`: the old name is understood, in files and in ledgers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from search_spaces import Problem, load_sweep
from search_spaces.grammar.renamed import RENAMED, with_first_names, with_new_names
from search_spaces.grammar.spec import SweepSpec

Refuse = Callable[..., tuple[Problem, ...]]
Write = Callable[..., Path]
SAID = "objective.checkpoint is now called objective.evaluation"
LENGTHS = "  lengths: [6, 7]\n"


@pytest.mark.parametrize("which", ["last", "best"])
def test_the_old_name_is_read_as_the_new_one_with_a_note(edited: Write, which: str) -> None:
    old = load_sweep(edited(LENGTHS, f"{LENGTHS}  checkpoint: {which}\n"))
    path = edited(LENGTHS, f"{LENGTHS}  evaluation: {which}\n")
    new = load_sweep(path)
    assert (old.objective.evaluation, old.notes, new.notes) == (which, (f"{path}:26: {SAID}",), ())
    assert old == new and old.where("objective.evaluation") == f"{path}:26"


def test_a_sweep_keeps_the_hash_that_it_had_under_the_old_name(edited: Write) -> None:
    spec = load_sweep(edited(LENGTHS, f"{LENGTHS}  evaluation: best\n"))
    assert spec.spec_hash == "201e5452edaf593e"  # as the code that had only the old name computed it


def test_both_names_are_one_problem_with_its_line(edited: Write, problems: Refuse) -> None:
    path = edited(LENGTHS, f"{LENGTHS}  evaluation: best\n  checkpoint: last\n")
    (problem,) = problems(path)
    assert str(problem) == (
        f"{path}:27: objective.checkpoint: is the old name of objective.evaluation, which is given too; "
        "keep one of them; given 'last'"
    )


@pytest.mark.parametrize("written", ["", "  evaluation: last\n", "  checkpoint: last\n"])
def test_an_override_under_the_old_name_replaces_the_value(edited: Write, written: str) -> None:
    override = "objective.checkpoint=best"
    spec = load_sweep(edited(LENGTHS, LENGTHS + written), [override])
    assert spec.objective.evaluation == "best" and spec.where("objective.evaluation") == f"--set {override}"
    assert spec.notes[-1] == f"--set {override}: {SAID}" and len(spec.notes) == 1 + written.startswith("  checkpoint")
    assert load_sweep(edited(LENGTHS, LENGTHS + written), [override, "objective.evaluation=last"]).objective == (
        load_sweep(edited(LENGTHS, LENGTHS)).objective
    )


def test_an_override_of_the_whole_section_may_hold_the_old_name(sweep_file: Write) -> None:
    section = "{metric: total_variation, average: ema, lengths: [6], direction: minimize, checkpoint: best}"
    spec = load_sweep(sweep_file(), [f"objective={section}"])
    assert spec.objective.evaluation == "best" and spec.notes == (f"{spec.where('objective')}: {SAID}",)


def test_the_value_is_checked_as_under_the_new_name(edited: Write, problems: Refuse) -> None:
    (problem,) = problems(edited(LENGTHS, f"{LENGTHS}  checkpoint: bets\n"))
    assert problem.where.endswith("sweep.yaml:26") and problem.nearest == "best"
    (damaged,) = problems(edited(LENGTHS, f"{LENGTHS}  checkpoint: 007\n"))
    assert damaged.where.endswith("sweep.yaml:26") and "leading zero" in damaged.message


def test_recorded_specifications_are_read_with_new_names_and_left_as_they_are() -> None:
    recorded = {"name": "a", "objective": {"metric": "m", "checkpoint": "best", "threshold": 1}}
    read = with_new_names(recorded)
    assert read == {"name": "a", "objective": {"metric": "m", "evaluation": "best", "threshold": 1}}
    assert list(read["objective"]) == ["metric", "evaluation", "threshold"]
    assert with_first_names(read) == recorded and recorded["objective"]["checkpoint"] == "best"
    assert with_new_names(read) == read and with_new_names({"name": "a"}) == {"name": "a"}


def test_new_names_are_keys_of_the_grammar_and_old_ones_are_not() -> None:
    for old, new in RENAMED.items():
        sections = [key.split(".") for key in (old, new)]
        fields = [SweepSpec.model_fields[section].annotation.model_fields for section, _ in sections]
        assert sections[0][1] not in fields[0] and sections[1][1] in fields[1]
