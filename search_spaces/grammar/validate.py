"""Validate plain data as a SweepSpec: pydantic's errors in the terms of sweep files, and checks between sections.

A file with problems still becomes a specification, with defaults or placeholders for invalid values, so that the rest
of the file is checked in the same run.
"""

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from search_spaces.grammar.domains import Domain, Grid, is_number, suggest_number
from search_spaces.grammar.problems import (
    ABSENT,
    SECTIONS,
    Findings,
    child,
    dotted_keys,
    lookup,
    nearest_name,
    sections_of,
    within,
)
from search_spaces.grammar.space import check_key
from search_spaces.grammar.spec import Search, SweepSpec

_PLACEHOLDERS: dict[str, Any] = {
    **{"name": "unnamed", "study": "unnamed", "task": {}, "model": {}, "training": {}, "seeds": 1},
    "objective": {"metric": "unnamed", "average": "unnamed", "lengths": [1], "direction": "minimize"},
}
"""Placeholders for missing or invalid values without a default. They are marked as doubtful and never checked."""


def build_spec(data: dict[str, Any], findings: Findings) -> tuple[SweepSpec, list[str]]:
    """Return the specification in `data` and the addresses of replaced values; record problems."""
    # Without errors nothing is replaced.
    try:
        return SweepSpec.model_validate(data), []
    except ValidationError as error:
        faults = error.errors(include_url=False)

    # Report all errors, then replace the invalid values.
    misspelt = report_faults(faults, data, findings, SweepSpec)
    replaced = [_replace_value(data, fault["loc"]) for fault in faults]
    missing = [str(loc[0]) for loc in misspelt if len(loc) == 1 and loc[0] and not data.get(str(loc[0]))]
    return SweepSpec.model_validate(data), [*replaced, *missing]


def report_faults(
    faults: Sequence[ErrorDetails], data: dict[str, Any], findings: Findings, model: type[BaseModel]
) -> set[tuple[int | str | None, ...]]:
    """Record pydantic's errors about the data of a model; return the locations of keys that were misspelt.

    A missing key is not reported if an unknown key probably misspells it.
    """
    # An unknown key may misspell a missing one.
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    if model is SweepSpec:
        unknown = [fault for fault in unknown if not _find_section_key(fault, data)]
    misspelt = {(*fault["loc"][:-1], _find_nearest_key(fault, model)) for fault in unknown}

    # Record the other errors.
    for fault in faults:
        if fault["type"] != "missing" or fault["loc"] not in misspelt:
            _translate_error(fault, data, findings, model)
    return misspelt


def _replace_value(data: dict[str, Any], location: tuple[int | str, ...]) -> str:
    """Replace an invalid value by a placeholder, or remove it if its key has a default; return its address."""
    # Walk to the innermost section that has the value.
    model: type[BaseModel] = SweepSpec
    placeholders, address = _PLACEHOLDERS, ""
    for depth, step in enumerate(map(str, location), 1):
        address = child(address, step)
        inner = model.model_fields[step].annotation if step in model.model_fields else None
        if depth == len(location) or not isinstance(inner, type) or not issubclass(inner, BaseModel):
            data.pop(step, None)
            data |= {step: placeholders[step]} if step in placeholders else {}
            break
        data[step] = dict(data[step])
        data, model, placeholders = data[step], inner, placeholders.get(step, {})
    return address


_MESSAGES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "too_long": "has too many entries",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
}
_BOUNDS = {"greater_than": "above {gt}", "greater_than_equal": "at least {ge}"}
_BOUNDS |= {"less_than": "below {lt}", "less_than_equal": "at most {le}"}
_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def _translate_error(details: ErrorDetails, data: dict[str, Any], findings: Findings, model: type[BaseModel]) -> None:
    """Record an error of pydantic about `model` as a problem in the terms of the file."""
    # Translate missing and unknown keys.
    address = ""
    for step in details["loc"]:
        address = child(address, step)
    given, context, kind = details["input"], details.get("ctx", {}), details["type"]
    if kind == "missing":
        allowed = "task and model, or program for a script of your own" if address in ("task", "model") else None
        findings.add(address, "is missing", allowed=allowed)
    elif kind == "extra_forbidden" and findings.holds_anchor(address):
        return  # its anchor is reported already
    elif kind == "extra_forbidden":
        allowed = ", ".join(_list_fields(details["loc"], model))
        nearest = (_find_section_key(details, data) if model is SweepSpec else None) or _find_nearest_key(
            details, model
        )
        findings.add(address, "unknown key", allowed=allowed, nearest=nearest)

    # Translate invalid values.
    elif kind == "literal_error":
        names = [option.strip("'") for option in context["expected"].replace(" or ", ", ").split(", ")]
        findings.add(address, "is not allowed", given=given, names=names)
    elif kind == "lengthwise":
        findings.add(address, context["message"], given=given, allowed=context["allowed"], nearest=context["nearest"])
    elif kind in _BOUNDS:
        findings.add(address, "is out of bounds", given=given, allowed=_BOUNDS[kind].format(**context))
    elif kind in _MESSAGES:
        findings.add(address, _MESSAGES[kind], given=given, nearest=_suggest_value(kind, given))
    else:
        findings.add(address, details["msg"], given=given)


def _suggest_value(kind: str, given: Any) -> str | None:
    """Return the YAML text of the flag or number that was probably meant by a value of another type, else None."""
    if kind == "bool_type" and isinstance(given, str):
        return _BOOLEANS.get(given.casefold())
    return suggest_number(given, whole=kind == "int_type") if kind in ("int_type", "float_type") else None


def _find_nearest_key(unknown: ErrorDetails, model: type[BaseModel]) -> str | None:
    """Return the valid key that an unknown key probably misspells."""
    return nearest_name(str(unknown["loc"][-1]), _list_fields(unknown["loc"], model))


def _find_section_key(unknown: ErrorDetails, data: dict[str, Any]) -> str | None:
    """Return the dotted key that ends with an unknown top-level key: steps -> training.steps.

    None if it may be a misspelt top-level key, such as seed (seeds).
    """
    # A similar top-level key is the better suggestion.
    name = str(unknown["loc"][-1])
    if len(unknown["loc"]) > 1 or nearest_name(name, _list_fields(unknown["loc"]), cutoff=0.85):
        return None

    # Search the keys of the file, then all known keys.
    written = dotted_keys({section: data[section] for section in SECTIONS if isinstance(data.get(section), dict)})
    models = {key: field.annotation for key, field in SweepSpec.model_fields.items()}
    typed = (
        f"{section}.{key}"
        for section, model in models.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for key in model.model_fields
    )
    return next((key for key in (*written, *typed) if "." in key and key.rpartition(".")[2] == name), None)


def _list_fields(location: tuple[int | str, ...], model: type[BaseModel] = SweepSpec) -> Sequence[str]:
    """Return the valid keys at a location of a model, which may have models in lists and mappings."""
    for step in location[:-1]:
        if step in model.model_fields and (inner := _find_models(model.model_fields[str(step)].annotation)):
            model = inner[0]
    return tuple(model.model_fields)


def _find_models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in a type: [Arm] for dict[str, Arm]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _find_models(part)]


def check_across(data: dict[str, Any], space: dict[str, Domain], overridden: list[str], findings: Findings) -> None:
    """Record problems between sections; values that could not be read are ignored."""
    # Check each section with those that it depends on.
    listed = _check_listed(data, findings)
    _check_search(data, space, findings)
    _check_objective(data, space, listed, findings)
    check_racing(data, findings)

    # Overrides of searched keys have no effect.
    for key in overridden:
        drawn = next((name for name, domain in space.items() if within(key, name) and not domain.when), None)
        if drawn:
            message = f"has no effect: the space draws {drawn}; remove it from the space by --set space.{drawn}=null"
            findings.add(key, message)
        elif listed and all(any(within(key, name) for name in values) for values in listed):
            findings.add(key, "has no effect: every configuration of search.listed sets this key")


def note_random_search(search: Search, findings: Findings) -> None:
    """Note a search by tpe that is a random search, because it has too few configurations to use any result."""
    count = search.configurations
    if search.sampler == "tpe" and count is not None and not search.count_informed(count):
        findings.note(
            findings.place("search.configurations"),
            f"search.configurations: {count} are too few for tpe, so this is a random search: it needs "
            f"{search.results_needed} results and draws {search.generation} at a time; add configurations, or lower "
            "search.startup and search.generation",
        )


def note_unread_search(search: Search, findings: Findings) -> None:
    """Note values of keys that only tpe reads, with another sampler."""
    for key in ("generation", "startup", "failed_configurations") if search.sampler != "tpe" else ():
        if getattr(search, key) != Search.model_fields[key].default:
            address = f"search.{key}"
            findings.note(findings.place(address), f"{address}: only tpe reads it, not sampler {search.sampler}")


def _check_search(data: dict[str, Any], space: dict[str, Domain], findings: Findings) -> None:
    """Record problems between the sampler, the space and the number of configurations."""
    search = data.get("search", {})
    if not isinstance(search, dict) or not isinstance(data.get("space", {}), dict):
        return
    sampler = search.get("sampler", "random")
    configurations = search.get("configurations")
    drawn = [key for key, domain in space.items() if not isinstance(domain, Grid)]
    grids = [key for key in space if key not in drawn]

    # Sampler listed reads neither the space nor the number of configurations.
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

    # Reject domains that the sampler cannot draw from, and a missing or useless number of configurations.
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
    # Configurations that are no mappings are reported elsewhere.
    listed = _require_mapping(data.get("search")).get("listed")
    entries = [values for values in listed if isinstance(values, dict)] if isinstance(listed, list) else []

    # Check each key as a key of the space.
    sections = {section: data.get(section, {}) for section in sections_of(data)}
    for index, values in enumerate(listed if isinstance(listed, list) else []):
        for key in values if isinstance(values, dict) else ():
            address = f"search.listed[{index}]"
            if not check_key(address, key, values, sections, findings):
                findings.mark_doubtful(child(address, key))
    return entries


def _check_objective(
    data: dict[str, Any], space: dict[str, Domain], listed: list[dict[str, Any]], findings: Findings
) -> None:
    """Record lengths of the objective that are not evaluated, and an average that is not defined."""
    # Check the lengths.
    objective = _require_mapping(data.get("objective"))
    evaluated = lookup(data, "evaluation.lengths")
    varied = dict.fromkeys([*space, *(key for values in listed for key in values)])
    if (
        "program" not in data  # metrics of a program may have separate lengths
        and isinstance(evaluated, list)
        and isinstance(objective.get("lengths"), list)
        and not any(within("evaluation.lengths", key) for key in varied)
    ):
        for index, length in enumerate(objective["lengths"]):
            if is_number(length, whole=True) and length >= 1 and length not in evaluated:
                allowed = ", ".join(str(other) for other in evaluated)
                findings.add(f"objective.lengths[{index}]", "is not evaluated", given=length, allowed=allowed)

    # Check the average.
    averages = lookup(data, "training.averages")
    average = objective.get("average", ABSENT)
    start = "training.averages."
    is_searched = any(within(start.rstrip("."), key) for key in varied)
    if isinstance(averages, dict) and averages and isinstance(average, str) and not is_searched:
        drawn = [key.removeprefix(start).split(".")[0] for key in varied if key.startswith(start)]
        labels = list(dict.fromkeys([*averages, *drawn]))
        if average not in labels:
            findings.add("objective.average", "is not one of training.averages", given=average, names=labels)


def _require_mapping(value: Any) -> dict[str, Any]:
    """Return a value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


RACING_KEY = "search.racing"


def check_racing(data: dict[str, Any], findings: Findings) -> None:
    """Record problems of a race; a section that could not be read is ignored."""
    # Check the rule by which configurations stay.
    racing = lookup(data, RACING_KEY)
    if not isinstance(racing, dict):
        return
    rules = [rule for rule in ("keep", "test") if racing.get(rule) is not None]
    seeds = lookup(data, "seeds")
    count = len(seeds) if isinstance(seeds, list | tuple) else seeds
    first, steps = racing.get("first"), racing.get("steps")
    has_one_round = isinstance(count, int) and isinstance(first, int) and 1 <= count <= first
    if len(rules) != 1 and (rules or not (steps and has_one_round)):
        message = "has both keep and test" if rules else "has neither keep nor test"
        findings.add(RACING_KEY, message, allowed="keep: a share such as 0.25, or test: friedman")
    if racing.get("level") is not None and "test" not in rules:
        findings.add(f"{RACING_KEY}.level", "is read by a test only", given=racing["level"], nearest="test: friedman")
    if lookup(data, "search.sampler") == "tpe":
        findings.add(
            RACING_KEY,
            "tpe cannot learn from scores over different numbers of seeds",
            allowed="the samplers random, qmc, grid and listed",
        )

    # A race needs a second round, or rungs in the first round.
    if has_one_round and steps is None:
        message = f"there is no round after the first: all {count} seeds are in it"
        findings.add(
            f"{RACING_KEY}.first", message, given=first, allowed=f"less than seeds ({count}), or search.racing.steps"
        )
    if isinstance(steps, dict):
        _check_rungs(data, steps, count if has_one_round else first, findings)

    # A test and claims need a value of every seed.
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
    """Record problems of the rungs of the first round, in which every configuration has `seeds` seeds."""
    # Rungs need the same steps in all configurations.
    key, guard = f"{RACING_KEY}.steps", rungs.get("guard", True) is True
    listed = lookup(data, "search.listed")
    varied = [lookup(data, "space"), *(listed if isinstance(listed, list) else ())]
    for name in ("training.steps", "evaluation.every"):
        section = name.partition(".")[0]
        if any(isinstance(entry, dict) and (name in entry or section in entry) for entry in varied):
            findings.add(key, f"rungs need the same {name} in every configuration, but it is searched")
            return

    # Rungs need an evaluation before the end.
    first, every, last = rungs.get("first"), lookup(data, "evaluation.every"), lookup(data, "training.steps")
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

    # The guard needs several seeds.
    if guard and seeds == 1:
        message = "the guard needs the spread over seeds, but there is only one seed"
        address = f"{RACING_KEY}.first" if lookup(data, f"{RACING_KEY}.first") == 1 else "seeds"
        findings.add(address, message, given=seeds, allowed=f"at least 2, or {key}.guard: false")
