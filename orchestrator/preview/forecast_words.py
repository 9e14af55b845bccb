"""The rows of a plan that say the same for every trainer: search, rounds, rungs, and what is used of the budget."""

from collections.abc import Mapping, Sequence

from orchestrator.plan import search
from orchestrator.plan.rounds import PlannedRound
from orchestrator.wording import counted
from search_spaces import SweepSpec


def describe_uses(used: Mapping[str, tuple[float | None, float | None]]) -> str:
    """Return how much a sweep uses of each quantity, as text, with the share that exceeds its budget.

    `used` has (use, budget) by unit: a use is None if it is unknown, a budget if there is none.
    """
    known = {unit: (value, most) for unit, (value, most) in used.items() if value is not None}
    text = ", ".join(f"{value:.3g} {unit}" for unit, (value, _) in known.items())
    passed = [
        f"{100 * (1 - most / value):.0f} % of the {unit} do not fit into {most:g}"
        for unit, (value, most) in known.items()
        if most is not None and value > most
    ]
    unknown = [f"the {unit} are not known here" for unit, (value, most) in used.items() if most and value is None]
    return "; ".join([text, *passed, *unknown])


def describe_race(spec: SweepSpec, rounds: Sequence[PlannedRound]) -> str | None:
    """Return the rounds of a race and how many members they have, None without a race."""
    if spec.search.racing is None:
        return None
    parts = [f"{counted(len(one.seeds), 'seed')} of {counted(one.configurations, 'configuration')}" for one in rounds]
    members, without = sum(one.members for one in rounds), rounds[0].configurations * len(spec.seeds)
    most, ties = ("at most ", "") if spec.search.racing.test else ("", ", more with ties")
    share = f"{100 * members / without:.0f} %"
    return f"{', then '.join(parts)}: {most}{members:,} members of {without:,} ({share}{ties})"


def describe_rungs(first: PlannedRound) -> str | None:
    """Return how many configurations of the first round train to which step, None if all train to the end."""
    if not first.rungs:
        return None
    parts = [f"{counted(left, 'configuration')} to step {step:,}" for step, left in first.rungs]
    most = first.members * first.rungs[-1][0]
    done = round(first.share * most)
    return (
        f"{', '.join(parts)}: {done:,} member-steps of {most:,} in the first round ({100 * first.share:.0f} %, more "
        "with ties and what the guard keeps)"
    )


def describe_informed(spec: SweepSpec) -> str | None:
    """Return how many configurations tpe draws by results, None for other samplers."""
    if spec.search.sampler != "tpe":
        return None
    count, needed = search.total(spec), spec.search.results_needed
    return f"{spec.search.informed(count)} of {count}: tpe learns from {needed} results on (search.startup)"
