"""The step that counts for each seed, against loops that anyone can follow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.results.scoring.configuration_scores import choose_evaluations, score_members
from orchestrator.results.scoring.evaluation_choice import choose_steps, select_steps
from search_spaces import Objective

LENGTHS = (5, 6, 7, 9)
BASE = Objective(metric="acc", average="ema", lengths=(6, 7), direction="maximize", evaluation="best")
METRICS, AVERAGES = ("acc", "loss"), ("raw", "ema")

# few different values, so that equal ones are common; NaN and infinities happen
number = st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0, math.nan, math.inf, -math.inf])


@st.composite
def curves(draw: Any) -> pd.DataFrame:
    """Curves of up to three configurations of up to three seeds, evaluated up to four times, rows in any order."""
    steps = draw(st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True))
    rows = []
    for name in draw(st.lists(st.sampled_from(["b", "a", "c"]), min_size=1, max_size=3, unique=True)):
        for seed in draw(st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)):
            rows += [
                (name, seed, average, metric, length, step, draw(number))
                for step in steps
                for average in AVERAGES
                for metric in METRICS
                for length in LENGTHS
            ]
    columns = ["config_id", "seed", "average", "metric", "length", "step", "value"]
    frame = pd.DataFrame(rows, columns=columns).astype({"value": np.float32})
    if draw(st.booleans()):
        frame = frame.astype({"config_id": "category", "average": "category", "metric": "category"})
    return frame.sample(frac=1, random_state=draw(st.integers(0, 9))) if draw(st.booleans()) else frame


def loop(frame: pd.DataFrame, objective: Objective) -> dict[tuple[str, int], tuple[int, float]]:
    """(step, value) of every member, found one evaluation after the other."""
    mine = frame[(frame["metric"] == objective.metric) & (frame["average"] == objective.average)]
    chosen = {}
    for (name, seed), member in mine.astype({"config_id": str}).groupby(["config_id", "seed"]):
        value_at = {}
        for step, rows in member.groupby("step"):
            values = [float(rows[rows["length"] == length]["value"].iloc[0]) for length in sorted(objective.lengths)]
            if any(map(math.isnan, values)) or (math.inf in values and -math.inf in values):
                value_at[step] = math.nan
                if objective.reduce != "mean" and not any(map(math.isnan, values)):
                    value_at[step] = max(values) if objective.reduce == "max" else values[-1]
            else:
                reduced = {"mean": sum(values) / len(values), "max": max(values), "last": values[-1]}
                value_at[step] = reduced[objective.reduce]
        last = max(value_at)
        best = last
        if objective.evaluation == "best" and not math.isnan(value_at[last]):
            for step in sorted(value_at):
                new, old = value_at[step], value_at[best]
                if new > old if objective.direction == "maximize" else new < old:
                    best = step
                elif new == old:
                    best = max(best, step)
        chosen[name, seed] = (best, value_at[best])
    return chosen


def as_dict(chosen: pd.DataFrame) -> dict[tuple[str, int], tuple[int, float]]:
    assert not chosen.duplicated(["config_id", "seed"]).any()
    return {(name, seed): (step, value) for name, seed, step, value in chosen.itertuples(index=False)}


def equal(first: dict[Any, tuple[int, float]], second: dict[Any, tuple[int, float]]) -> bool:
    return first.keys() == second.keys() and all(
        first[key][0] == second[key][0] and np.array_equal(first[key][1], second[key][1], equal_nan=True)
        for key in first
    )


objectives = st.builds(
    lambda direction, reduce, evaluation, lengths: BASE.model_copy(
        update={"direction": direction, "reduce": reduce, "evaluation": evaluation, "lengths": tuple(lengths)}
    ),
    st.sampled_from(["minimize", "maximize"]),
    st.sampled_from(["mean", "max", "last"]),
    st.sampled_from(["last", "best"]),
    st.lists(st.sampled_from(LENGTHS), min_size=1, max_size=3, unique=True),
)


@settings(max_examples=10, derandomize=True)
@given(curves(), objectives)
def test_the_step_is_that_of_a_loop_over_the_evaluations(frame, objective):
    expected = loop(frame, objective)
    assert equal(as_dict(choose_evaluations(frame, objective)), expected)
    scores = score_members(frame, objective)
    assert equal(
        {(name, seed): (0, score) for name, seed, score in scores.itertuples(index=False)},
        {member: (0, value) for member, (_, value) in expected.items()},
    )


@settings(max_examples=8, derandomize=True)
@given(curves(), objectives, st.randoms(use_true_random=False))
def test_no_other_length_metric_or_average_has_a_say(frame, objective, chance):
    """Values anywhere but at the selection lengths of the judged metric and average are shuffled."""
    judged = (frame["metric"] == objective.metric) & (frame["average"] == objective.average)
    free = ~(judged & frame["length"].isin(objective.lengths)).to_numpy()
    values = frame["value"].to_numpy().copy()
    others = values[free].tolist()
    chance.shuffle(others)
    values[free] = others
    assert equal(
        as_dict(choose_evaluations(frame.assign(value=values), objective)),
        as_dict(choose_evaluations(frame, objective)),
    )


@settings(max_examples=8, derandomize=True)
@given(curves(), objectives)
def test_every_metric_average_and_length_of_a_member_is_taken_at_its_one_step(frame, objective):
    chosen = choose_evaluations(frame, objective)
    rows = frame[select_steps(frame, chosen)].astype({"config_id": str})
    assert len(rows) == len(chosen) * len(AVERAGES) * len(METRICS) * len(LENGTHS)
    steps = rows.groupby(["config_id", "seed"])["step"].agg(["nunique", "first"])
    assert (steps["nunique"] == 1).all()
    assert steps["first"].to_dict() == {member: step for member, (step, _) in as_dict(chosen).items()}


def judged(values: dict[int, list[float]], name: str = "c") -> pd.DataFrame:
    """seed -> its values at steps 10, 20, ..."""
    rows = [(name, seed, 10 * (i + 1), value) for seed, line in values.items() for i, value in enumerate(line)]
    return pd.DataFrame(rows, columns=["config_id", "seed", "step", "value"])


def steps_of(values: dict[int, list[float]], direction: str = "maximize", evaluation: str = "best") -> list[int]:
    return choose_steps(judged(values), direction, evaluation)["step"].tolist()


def flat(values: dict[tuple[int, int], float]) -> pd.DataFrame:
    """(seed, step) -> the value of a curve that is the same at both selection lengths."""
    rows = [
        ("c", seed, "ema", "acc", length, step, value) for (seed, step), value in values.items() for length in (6, 7)
    ]
    return pd.DataFrame(rows, columns=["config_id", "seed", "average", "metric", "length", "step", "value"])


def test_best_follows_the_direction():
    values = {0: [0.3, 0.9, 0.1, 0.5], 1: [0.2, 0.1, 0.4, 0.3]}
    assert steps_of(values) == [20, 30]
    assert steps_of(values, "minimize") == [30, 20]
    assert steps_of(values, evaluation="last") == [40, 40]


def test_the_latest_of_equal_values_counts():
    assert steps_of({0: [1.0, 1.0, 0.5, 1.0, 0.9], 1: [1.0, 1.0, 1.0, 1.0, 1.0], 2: [0.0, -0.0, 0.0, 0.0, -1.0]}) == [
        40, 50, 40,
    ]  # fmt: skip


def test_a_seed_that_diverged_is_not_rescued_by_an_earlier_evaluation():
    chosen = choose_steps(judged({0: [0.9, math.nan, math.nan], 1: [math.nan, 0.5, 0.4]}), "maximize", "best")
    assert chosen["step"].tolist() == [30, 20]  # a hole in the middle is no failure, and is never chosen
    assert math.isnan(chosen["value"][0]) and chosen["value"][1] == 0.5
    for policy in ("worst", "exclude", "fail"):
        frame = flat({(0, 10): 0.9, (0, 20): math.nan})
        assert score_members(frame, BASE.model_copy(update={"failed_seeds": policy}))["score"].isna().all()


def test_a_seed_that_never_reached_the_last_evaluation_has_no_step():
    short = pd.concat([judged({0: [0.1, 0.2, 0.3]}), judged({1: [0.9, 0.9]})])
    assert choose_steps(short, "maximize", "best")["seed"].tolist() == [0]
    frame = flat({(0, 10): 0.9, (0, 20): 0.9, (1, 10): 0.9})
    assert score_members(frame, BASE, {"c": (0, 1)})["score"].isna().tolist() == [False, True]


def test_configurations_have_last_steps_of_their_own():
    both = pd.concat([judged({0: [0.1, 0.2, 0.9]}, "a"), judged({0: [0.5]}, "b")])
    assert as_dict(choose_steps(both, "minimize", "best")) == {("a", 0): (10, 0.1), ("b", 0): (10, 0.5)}


def test_nothing_is_chosen_from_nothing():
    for evaluation in ("last", "best"):
        assert len(choose_steps(judged({}), "maximize", evaluation)) == 0
