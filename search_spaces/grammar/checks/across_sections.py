"""Checks that need more than one section of a sweep file."""

from typing import Any

from search_spaces.grammar.checks.racing import check_racing
from search_spaces.grammar.problems.errors import ABSENT, nearest_name
from search_spaces.grammar.problems.findings import Findings, child, lookup, sections_of, within
from search_spaces.grammar.space.domains import Domain, Grid, is_number
from search_spaces.grammar.space.keys import check_key
from search_spaces.grammar.spec.spec import Search


def check_across(data: dict[str, Any], space: dict[str, Domain], overridden: list[str], findings: Findings) -> None:
    """Record problems between sections; parts of sections that could not be read are ignored."""
    listed = _check_listed(data, findings)
    _check_search(data, space, findings)
    _check_objective(data, space, listed, findings)
    check_racing(data, findings)
    for key in overridden:
        drawn = next((name for name, domain in space.items() if within(key, name) and not domain.when), None)
        if drawn:
            findings.add(
                key,
                f"the space draws {drawn}, so this value would never be used; "
                f"take the key out of the space first with --set space.{drawn}=null",
            )
        elif listed and all(any(within(key, name) for name in values) for values in listed):
            findings.add(key, "every configuration of search.listed sets this key, so this value would never be used")


def note_random_search(search: Search, findings: Findings) -> None:
    """Note a budget of tpe that is too small to use any result, so that the search is random."""
    budget = search.configurations
    if search.sampler == "tpe" and budget is not None and not search.informed(budget):
        findings.note(
            findings.place("search.configurations"),
            f"search.configurations: none of the {budget} is drawn by results: tpe learns from "
            f"{search.results_needed} results on and draws {search.generation} at a time, so this is a random search; "
            "give it more configurations, or a smaller search.startup and search.generation",
        )


def note_unread_search(search: Search, findings: Findings) -> None:
    """Note values of keys that only tpe reads, behind another sampler."""
    for key in ("generation", "startup", "failed_configurations") if search.sampler != "tpe" else ():
        if getattr(search, key) != Search.model_fields[key].default:
            address = f"search.{key}"
            findings.note(findings.place(address), f"{address}: only tpe reads it, not sampler {search.sampler}")


def _check_search(data: dict[str, Any], space: dict[str, Domain], findings: Findings) -> None:
    search = data.get("search", {})
    if not isinstance(search, dict) or not isinstance(data.get("space", {}), dict):
        return
    sampler = search.get("sampler", "random")
    configurations = search.get("configurations")
    drawn = [key for key, domain in space.items() if not isinstance(domain, Grid)]
    grids = [key for key in space if key not in drawn]
    if sampler == "listed":
        for key in space:
            message = "sampler listed draws nothing: its configurations are those of search.listed"
            findings.add(f"space.{key}", message)
        if search.get("listed") is None:
            findings.add("search.listed", "is needed by sampler listed")
        if configurations is not None:
            message = "must be left out: search.listed has the configurations"
            findings.add("search.configurations", message, given=configurations)
        return
    if search.get("listed") is not None:
        findings.add("search.listed", f"is not read by sampler {sampler}", nearest="sampler: listed")
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
    every_domain_is_known = data.get("space", {}).keys() == space.keys()
    if configurations is not None and not drawn and every_domain_is_known:
        message = "must be left out, because nothing is drawn at random: every grid point is tried once"
        findings.add("search.configurations", message, given=configurations)


def _check_listed(data: dict[str, Any], findings: Findings) -> list[dict[str, Any]]:
    """Return the readable configurations of search.listed, and record problems of their keys."""
    listed = _mapping(data.get("search")).get("listed")
    found = [values for values in listed if isinstance(values, dict)] if isinstance(listed, list) else []
    sections = {section: data.get(section, {}) for section in sections_of(data)}
    for index, values in enumerate(listed if isinstance(listed, list) else []):
        for key in values if isinstance(values, dict) else ():
            address = f"search.listed[{index}]"
            if not check_key(address, key, values, sections, findings):
                findings.doubt(child(address, key))
    return found


def _check_objective(
    data: dict[str, Any], space: dict[str, Domain], listed: list[dict[str, Any]], findings: Findings
) -> None:
    objective = _mapping(data.get("objective"))
    evaluated = lookup(data, "evaluation.lengths")
    varied = dict.fromkeys([*space, *(key for values in listed for key in values)])
    if (
        "program" not in data  # whose metrics may have lengths of their own
        and isinstance(evaluated, list)
        and isinstance(objective.get("lengths"), list)
        and not any(within("evaluation.lengths", key) for key in varied)
    ):
        for index, length in enumerate(objective["lengths"]):
            if is_number(length, whole=True) and length >= 1 and length not in evaluated:
                allowed = ", ".join(str(other) for other in evaluated)
                findings.add(f"objective.lengths[{index}]", "is not evaluated", given=length, allowed=allowed)
    averages = lookup(data, "training.averages")
    average = objective.get("average", ABSENT)
    start = "training.averages."
    replaced = any(within(start.rstrip("."), key) for key in varied)
    if isinstance(averages, dict) and averages and isinstance(average, str) and not replaced:
        drawn = [key.removeprefix(start).split(".")[0] for key in varied if key.startswith(start)]
        labels = list(dict.fromkeys([*averages, *drawn]))
        if average not in labels:
            allowed = ", ".join(labels)
            nearest = nearest_name(average, labels)
            message = "is not one of training.averages"
            findings.add("objective.average", message, given=average, allowed=allowed, nearest=nearest)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
