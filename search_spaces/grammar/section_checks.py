"""Check sections of a sweep file against each other: sampler and space, objective and evaluation, races and rungs."""

from typing import Any

from search_spaces.grammar.domains import Domain, Grid, is_number
from search_spaces.grammar.problems import Findings, is_within, join_key_path
from search_spaces.grammar.search import Search
from search_spaces.grammar.sections import ABSENT, list_sections, read_key
from search_spaces.grammar.space import check_key


def check_between_sections(
    data: dict[str, Any], space: dict[str, Domain], overridden: list[str], findings: Findings
) -> None:
    """Record values that contradict another section; values that could not be read are ignored.

    overridden: the keys of all --set overrides.
    """
    listed = _check_listed(data, findings)
    _check_search(data, space, findings)
    _check_objective(data, space, listed, findings)
    _check_racing(data, findings)

    # The user of an override expects that it sets a value, but a searched key is set by every draw.
    for key in overridden:
        drawn_key = next((name for name, domain in space.items() if is_within(key, name) and not domain.when), None)
        if drawn_key:
            message = (
                f"has no effect: the space draws {drawn_key}; remove it from the space by --set space.{drawn_key}=null"
            )
            findings.add(key, message)
        elif listed and all(any(is_within(key, name) for name in values) for values in listed):
            findings.add(key, "has no effect: every configuration of search.listed sets this key")


def note_random_search(search: Search, findings: Findings) -> None:
    """Note that a tpe search has too few configurations to learn from any result, so it is a random search."""
    count = search.configurations
    if search.sampler == "tpe" and count is not None and not search.count_informed(count):
        findings.note(
            findings.find_location("search.configurations"),
            f"search.configurations: {count} are too few for tpe, so this is a random search: it needs "
            f"{search.results_needed} results and draws {search.generation} at a time; add configurations, or lower "
            "search.startup and search.generation",
        )


def note_unread_search(search: Search, findings: Findings) -> None:
    """Note keys that only tpe reads, given with another sampler."""
    for key in ("generation", "startup", "failed_configurations") if search.sampler != "tpe" else ():
        if getattr(search, key) != Search.model_fields[key].default:
            key_path = f"search.{key}"
            findings.note(
                findings.find_location(key_path), f"{key_path}: only tpe reads it, not sampler {search.sampler}"
            )


def _check_search(data: dict[str, Any], space: dict[str, Domain], findings: Findings) -> None:
    """Record a space, or a number of configurations, that the sampler cannot use."""
    search = data.get("search", {})
    if not isinstance(search, dict) or not isinstance(data.get("space", {}), dict):
        return
    sampler = search.get("sampler", "random")
    configurations = search.get("configurations")
    drawn = [key for key, domain in space.items() if not isinstance(domain, Grid)]
    grids = [key for key in space if key not in drawn]

    # The sampler `listed` reads all configurations from the file, so it would silently ignore a space.
    if sampler == "listed":
        for key in space:
            message = "is not read by sampler listed, whose configurations are in search.listed"
            findings.add(f"space.{key}", message)
        if search.get("listed") is None:
            findings.add("search.listed", "is needed by sampler listed")
        if configurations is not None:
            message = "must be left out: search.listed has the configurations"
            findings.add("search.configurations", message, given=configurations)
        return
    if search.get("listed") is not None:
        findings.add("search.listed", f"is not read by sampler {sampler}", nearest="sampler: listed")

    # A number of configurations is needed exactly if something is drawn at random.
    if sampler == "tpe":
        for key in grids:
            findings.add(f"space.{key}", "a grid cannot be searched by tpe; use choice")
    if sampler == "grid":
        for key in drawn:
            message = f"sampler grid cannot draw from {space[key].kind}; use a grid, or sampler random"
            findings.add(f"space.{key}", message, allowed="grid")
    elif drawn and configurations is None:
        given = {"given": None} if "configurations" in search else {}
        message = f"is needed, because the space has random domains ({', '.join(drawn)})"
        findings.add("search.configurations", message, **given)
    are_all_valid = data.get("space", {}).keys() == space.keys()
    if configurations is not None and not drawn and are_all_valid:
        message = "must be left out, because nothing is drawn at random: every grid point is tried once"
        findings.add("search.configurations", message, given=configurations)


def _check_listed(data: dict[str, Any], findings: Findings) -> list[dict[str, Any]]:
    """Return the configurations of search.listed that are mappings, and record problems of their keys."""
    listed = read_key(data, "search.listed")
    sections = {section: data.get(section, {}) for section in list_sections(data)}
    mappings = []
    for index, values in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(values, dict):
            continue  # reported with its type
        mappings.append(values)

        # The keys follow the rules of the space; later checks would only repeat the problem of an invalid key.
        key_path = f"search.listed[{index}]"
        for key in values:
            if not check_key(key_path, key, values, sections, findings):
                findings.mark_doubtful(join_key_path(key_path, key))
    return mappings


def _check_objective(
    data: dict[str, Any], space: dict[str, Domain], listed: list[dict[str, Any]], findings: Findings
) -> None:
    """Record lengths of the objective that are not evaluated, and an average that is not defined."""
    # Lengths that configurations vary are checked when these are built.
    objective = data["objective"] if isinstance(data.get("objective"), dict) else {}
    evaluated = read_key(data, "evaluation.lengths")
    varied = dict.fromkeys([*space, *(key for values in listed for key in values)])
    if (
        "program" not in data  # metrics of a program may have separate lengths
        and isinstance(evaluated, list)
        and isinstance(objective.get("lengths"), list)
        and not any(is_within("evaluation.lengths", key) for key in varied)
    ):
        for index, length in enumerate(objective["lengths"]):
            if is_number(length, whole=True) and length >= 1 and length not in evaluated:
                allowed = ", ".join(str(other) for other in evaluated)
                findings.add(f"objective.lengths[{index}]", "is not evaluated", given=length, allowed=allowed)

    # An average may come from the file or, label by label, from the space.
    averages = read_key(data, "training.averages")
    average = objective.get("average", ABSENT)
    start = "training.averages."
    is_searched = any(is_within(start.rstrip("."), key) for key in varied)
    if isinstance(averages, dict) and averages and isinstance(average, str) and not is_searched:
        drawn_labels = [key.removeprefix(start).split(".")[0] for key in varied if key.startswith(start)]
        labels = list(dict.fromkeys([*averages, *drawn_labels]))
        if average not in labels:
            findings.add("objective.average", "is not one of training.averages", given=average, names=labels)


RACING_KEY = "search.racing"


def _check_racing(data: dict[str, Any], findings: Findings) -> None:
    """Record problems of a race; a section that could not be read is ignored."""
    # Exactly one rule decides which configurations stay, unless a single round is only pruned at rungs.
    racing = read_key(data, RACING_KEY)
    if not isinstance(racing, dict):
        return
    rules = [rule for rule in ("keep", "test") if racing.get(rule) is not None]
    seeds = read_key(data, "seeds")
    count = len(seeds) if isinstance(seeds, list | tuple) else seeds
    first, steps = racing.get("first"), racing.get("steps")
    has_one_round = isinstance(count, int) and isinstance(first, int) and 1 <= count <= first
    if len(rules) != 1 and (rules or not (steps and has_one_round)):
        message = "has both keep and test" if rules else "has neither keep nor test"
        findings.add(RACING_KEY, message, allowed="keep: a share such as 0.25, or test: friedman")
    if racing.get("level") is not None and "test" not in rules:
        findings.add(f"{RACING_KEY}.level", "is read by a test only", given=racing["level"], nearest="test: friedman")
    if read_key(data, "search.sampler") == "tpe":
        findings.add(
            RACING_KEY,
            "tpe cannot learn from scores over different numbers of seeds",
            allowed="the samplers random, qmc, grid and listed",
        )

    # With all seeds in the first round there is nothing to race for.
    if has_one_round and steps is None:
        message = f"there is no round after the first: all {count} seeds are in it"
        findings.add(
            f"{RACING_KEY}.first", message, given=first, allowed=f"less than seeds ({count}), or search.racing.steps"
        )
    if isinstance(steps, dict):
        _check_rungs(data, steps, count if has_one_round else first, findings)

    # Rank tests and claims compare configurations seed by seed, so every seed needs a value.
    if "test" in rules and read_key(data, "objective.failed_seeds") == "exclude":
        findings.add(
            "objective.failed_seeds",
            "a rank test needs a value of every seed, but exclude leaves out failed seeds",
            given="exclude",
            allowed="worst or fail, or search.racing.keep instead of search.racing.test",
        )
    if data.get("claims") is not None:
        findings.add("claims", "claims compare arms over the same seeds, but a race gives seeds by results")


def _check_rungs(data: dict[str, Any], rungs: dict[str, Any], seeds: Any, findings: Findings) -> None:
    """Record problems of the rungs of the first round, in which every configuration has `seeds` seeds."""
    # A rung compares configurations at a step, so all must have evaluations at the same steps.
    key = f"{RACING_KEY}.steps"
    guard = rungs.get("guard", True) is True
    listed = read_key(data, "search.listed")
    varied = [read_key(data, "space"), *(listed if isinstance(listed, list) else ())]
    for name in ("training.steps", "evaluation.every"):
        section = name.partition(".")[0]
        if any(isinstance(entry, dict) and (name in entry or section in entry) for entry in varied):
            findings.add(key, f"rungs need the same {name} in every configuration, but it is searched")
            return

    # The first rung must be at an evaluation before the end.
    first = rungs.get("first")
    every = read_key(data, "evaluation.every")
    last = read_key(data, "training.steps")
    if not isinstance(every, int):
        message = "compares configurations at evaluations, but the only evaluation is at the end"
        findings.add(key, message, allowed="evaluation.every: a number of steps")
        return
    if not isinstance(first, int) or every < 1:
        return
    if first % every:
        allowed = f"a multiple of evaluation.every ({every})"
        findings.add(f"{key}.first", "there is no evaluation at this step", given=first, allowed=allowed)
    elif guard and first < 2 * every:
        message = "the guard needs an evaluation in the first half of the steps to the rung"
        allowed = f"at least {2 * every}, a smaller evaluation.every, or guard: false"
        findings.add(f"{key}.first", message, given=first, allowed=allowed)
    if isinstance(last, int) and first >= last:
        findings.add(f"{key}.first", "is not before the end", given=first, allowed=f"less than training.steps ({last})")

    # The guard compares an improvement with the spread over seeds, which a single seed does not have.
    if guard and seeds == 1:
        message = "the guard needs the spread over seeds, but there is only one seed"
        key_path = f"{RACING_KEY}.first" if read_key(data, f"{RACING_KEY}.first") == 1 else "seeds"
        findings.add(key_path, message, given=seeds, allowed=f"at least 2, or {key}.guard: false")
