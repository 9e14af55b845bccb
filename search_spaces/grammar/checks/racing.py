"""Checks of `search.racing` against the sampler, the seeds, the objective and claims."""

from typing import Any

from search_spaces.grammar.problems.findings import Findings, lookup

KEY = "search.racing"


def check_racing(data: dict[str, Any], findings: Findings) -> None:
    """Record problems of a race; a section that could not be read is ignored."""
    racing = lookup(data, KEY)
    if not isinstance(racing, dict):
        return
    rules = [rule for rule in ("keep", "test") if racing.get(rule) is not None]
    if len(rules) != 1:
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
    seeds = lookup(data, "seeds")
    count = len(seeds) if isinstance(seeds, list | tuple) else seeds
    first = racing.get("first")
    if isinstance(count, int) and isinstance(first, int) and 1 <= count <= first:
        message = f"there is no round after the first: all {count} seeds are in it"
        findings.add(f"{KEY}.first", message, given=first, allowed=f"less than seeds ({count})")
    if "test" in rules and lookup(data, "objective.failed_seeds") == "exclude":
        findings.add(
            "objective.failed_seeds",
            "a rank test needs a value of every seed, and this leaves those out that failed",
            given="exclude",
            allowed="worst or fail, or search.racing.keep instead of search.racing.test",
        )
    if data.get("claims") is not None:
        findings.add(
            "claims", "claims are judged over seeds that are the same in all arms, and a race gives seeds by results"
        )
