"""Checks of `search.racing` against the sampler, the seeds, the steps, the objective and claims."""

from typing import Any

from search_spaces.grammar.problems.findings import Findings, lookup

KEY = "search.racing"


def check_racing(data: dict[str, Any], findings: Findings) -> None:
    """Record problems of a race; a section that could not be read is ignored."""
    racing = lookup(data, KEY)
    if not isinstance(racing, dict):
        return
    rules = [rule for rule in ("keep", "test") if racing.get(rule) is not None]
    seeds = lookup(data, "seeds")
    count = len(seeds) if isinstance(seeds, list | tuple) else seeds
    first, steps = racing.get("first"), racing.get("steps")
    has_one_round = isinstance(count, int) and isinstance(first, int) and 1 <= count <= first
    if len(rules) != 1 and (rules or not (steps and has_one_round)):
        message = "has both keep and test" if rules else "does not say which configurations stay"
        findings.add(KEY, message, allowed="keep: a share such as 0.25, or test: friedman")
    if racing.get("level") is not None and "test" not in rules:
        findings.add(f"{KEY}.level", "is read by a test only", given=racing["level"], nearest="test: friedman")
    if lookup(data, "search.sampler") == "tpe":
        findings.add(
            KEY,
            "tpe learns from scores, and scores over different numbers of seeds cannot be compared",
            allowed="the samplers random, qmc, grid and listed",
        )
    if has_one_round and steps is None:
        message = f"there is no round after the first: all {count} seeds are in it"
        findings.add(f"{KEY}.first", message, given=first, allowed=f"less than seeds ({count}), or search.racing.steps")
    if isinstance(steps, dict):
        _check_rungs(data, steps, count if has_one_round else first, findings)
    if "test" in rules and lookup(data, "objective.failed_seeds") == "exclude":
        findings.add(
            "objective.failed_seeds",
            "a rank test needs a value of every seed, but exclude leaves out failed seeds",
            given="exclude",
            allowed="worst or fail, or search.racing.keep instead of search.racing.test",
        )
    if data.get("claims") is not None:
        findings.add("claims", "claims compare arms over the same seeds, but a race gives seeds by results")


def _check_rungs(data: dict[str, Any], rungs: dict[str, Any], seeds: Any, findings: Findings) -> None:
    """Record problems of the rungs of the first round; `seeds`: number of seeds of every configuration in it."""
    key, guard = f"{KEY}.steps", rungs.get("guard", True) is True
    listed = lookup(data, "search.listed")
    varied = [lookup(data, "space"), *(listed if isinstance(listed, list) else ())]
    for name in ("training.steps", "evaluation.every"):
        section = name.partition(".")[0]
        if any(isinstance(one, dict) and (name in one or section in one) for one in varied):
            findings.add(key, f"its rungs are steps of every configuration, and {name} is searched")
            return
    first, every, last = rungs.get("first"), lookup(data, "evaluation.every"), lookup(data, "training.steps")
    if not isinstance(every, int):
        message = "compares configurations at evaluations, and there is none before the end"
        findings.add(key, message, allowed="evaluation.every: a number of steps")
        return
    if not isinstance(first, int) or every < 1:
        return
    if first % every:
        allowed = f"a multiple of evaluation.every ({every})"
        findings.add(f"{key}.first", "there is no evaluation at this step", given=first, allowed=allowed)
    elif guard and first < 2 * every:
        message = "the guard compares with an evaluation in the first half, and there is none"
        allowed = f"at least {2 * every}, a smaller evaluation.every, or guard: false"
        findings.add(f"{key}.first", message, given=first, allowed=allowed)
    if isinstance(last, int) and first >= last:
        findings.add(f"{key}.first", "is not before the end", given=first, allowed=f"less than training.steps ({last})")
    if guard and seeds == 1:
        message = "the guard compares with the spread over seeds, and one seed has none"
        address = f"{KEY}.first" if lookup(data, f"{KEY}.first") == 1 else "seeds"
        findings.add(address, message, given=seeds, allowed=f"at least 2, or {key}.guard: false")
