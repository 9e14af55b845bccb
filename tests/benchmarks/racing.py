"""Races over the seeds of a finished sweep without a race, replayed in random orders of its seeds; trains nothing.

    python tests/benchmarks/racing.py sweeps/full --first 4 --keep 0.25 --keep 0.5 --level 0.05

Prints for each rule how many members the race has, how often its first configuration is the first of the full sweep,
and how much worse it is by the score over all seeds.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.configuration_scores import mask_judged_rows, read_objective, score_members
from orchestrator.results.scoring.race_decision import decide_round
from search_spaces import Objective, Racing

ORDERS = 300


def race(scores: pd.DataFrame, order: np.ndarray, rule: Racing, objective: Objective) -> tuple[list[str], int]:
    """Return the configurations that stay to the end and the number of members; `scores` is configurations by seeds."""
    alive, count, members = list(scores.index), rule.first, len(scores) * rule.first
    while alive and count < len(order):
        outcome = decide_round({name: scores.loc[name, order[:count]].tolist() for name in alive}, rule, objective)
        alive, more = list(outcome.survivors), rule.compute_next_seed_count(count, len(order))
        members, count = members + len(alive) * (more - count), more
    return alive, members


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=4)
    parser.add_argument("--keep", type=float, action="append", default=[])
    parser.add_argument("--level", type=float, action="append", default=[])
    given = parser.parse_args()
    rules = {f"keep {keep:g}": Racing(first=given.first, keep=keep) for keep in given.keep}
    rules |= {f"friedman {p:g}": Racing(first=given.first, test="friedman", level=p) for p in given.level}
    state = SweepState.load(given.folder)
    objective, curves = read_objective(state.spec), read_curves(state)
    members = score_members(curves[mask_judged_rows(curves, objective)], objective)
    scores = members.pivot(index="config_id", columns="seed", values="score")
    goodness = scores.median(axis=1) * (-1 if objective.direction == "minimize" else 1)
    random = np.random.default_rng(0)
    orders = [random.permutation(scores.columns) for _ in range(ORDERS)]
    for name, rule in rules.items():
        ended = [race(scores, order, rule, objective) for order in orders]
        losses = np.array([goodness.max() - goodness[alive].max() for alive, _ in ended])
        share = np.mean([count for _, count in ended]) / scores.size
        print(f"{name}: {100 * share:.0f} % of {scores.size} members; same first in {100 * np.mean(losses == 0):.0f} %")
        print(
            f"  of {ORDERS} orders of the seeds; its score is worse by {losses.mean():.3g}, at most {losses.max():.3g}"
        )


if __name__ == "__main__":
    main()
