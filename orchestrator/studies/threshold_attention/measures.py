"""What the claims about flip-flop reading share: arms by attention, read errors by test set, seeds that learned."""

from collections.abc import Iterable, Sequence

import pandas as pd

from orchestrator.studies.measures import Effect, Sweep, paired_effect

ERROR, EXACT = "read_error", "accuracy"
SETS = ("iid", "sparse", "dense")
LEARNED = 0.01  # the greatest read error at the trained length, in distribution, of a seed that has learned the task


def arms(sweep: Sweep) -> dict[str, str]:
    """The configurations by what sets them apart: the attention, with the switches in which it differs from the first.

    The first configuration of an attention has its plain name.
    """
    found: dict[str, str] = {}
    plain: dict[str, dict[str, object]] = {}
    for config_id, configuration in sweep.state.configurations.items():
        model = configuration.resolved["model"]
        position = model.get("position", {"name": model["name"]})
        first = plain.setdefault(position["name"], dict(position))
        switched = [f"{key}: {_word(value)}" for key, value in position.items() if value != first.get(key)]
        found[" ".join([position["name"], *([f"({', '.join(switched)})"] if switched else [])])] = config_id
    return found


def metric_of(test_set: str, base: str = ERROR) -> str:
    """The metric as the ledger calls it: of the in-distribution set its plain name."""
    return base if test_set == SETS[0] else f"{base}.{test_set}"


def errors(sweep: Sweep, name: str, lengths: Sequence[int], sets: Iterable[str] = SETS) -> pd.DataFrame:
    """One row per seed of a configuration: `value`, the read error, mean over lengths and test sets."""
    tables = [sweep.members(metric_of(one), "raw", lengths) for one in sets]
    rows = [table[table["config_id"] == name].set_index("seed")["value"] for table in tables]
    found = pd.concat(rows, axis=1).mean(axis=1, skipna=False).rename("value").reset_index()
    return found.assign(config_id=name)


def learned(sweep: Sweep, name: str) -> set[int]:
    """The seeds that read the trained length, in distribution, with an error of at most LEARNED."""
    rows = errors(sweep, name, sweep.trained, SETS[:1])
    return set(rows.loc[rows["value"] <= LEARNED, "seed"].tolist())


def difference(sweep: Sweep, first: str, second: str, lengths: Sequence[int], sets: Iterable[str] = SETS) -> Effect:
    """The read error of `first` minus that of `second`, seed by seed, over the seeds that learned with both."""
    both, sets = learned(sweep, first) & learned(sweep, second), tuple(sets)
    one, other = (errors(sweep, name, lengths, sets) for name in (first, second))
    return paired_effect(one[one["seed"].isin(both)], other[other["seed"].isin(both)], on=("seed",))


def _word(value: object) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
