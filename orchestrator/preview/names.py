"""The names that a sweep file can use and the keys of its sections, as `lengthwise list` prints them."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator.code.own_code import find_module, load_module
from orchestrator.consoles import align_rows
from orchestrator.errors import UserError
from orchestrator.wording import first_few
from search_spaces.grammar.shipped import shipped_sweeps
from trainers.config.member import EvaluationConfig, TrainingConfig
from trainers.errors import nearest
from trainers.optimization.criterion import Stop
from trainers.settings import registry
from trainers.settings.descriptions import Description, describe, describe_class
from trainers.settings.fields import Settings

ALL, EXAMPLES = "all", "examples"
SECTIONS: dict[str, dict[str, type[Settings]]] = {
    "training": {"training": TrainingConfig, "training.stop": Stop},
    "evaluation": {"evaluation": EvaluationConfig},
}
"""Sections of a sweep file without a `name`; their keys are the fields of these classes."""
KINDS = (*registry.KINDS, *SECTIONS)


def describe_names(kind: str | None, imports: Sequence[str]) -> list[str]:
    """Return a line for each name of a kind, or of ALL kinds, or for a section, followed by a line for each field.

    Of EXAMPLES: a line for each shipped sweep file, its name and path, with which every verb on a sweep file finds it.
    Without a kind: a line for everything that `lengthwise list` can list. Names of the modules `imports` are included.
    Raises UserError for an unknown kind, OwnCodeError for a module that cannot be imported.
    """
    if kind == EXAMPLES:
        return align_rows([(name, str(path)) for name, path in shipped_sweeps().items()]).splitlines()
    if kind is not None and kind not in (allowed := (*KINDS, ALL, "sweeps", EXAMPLES)):
        hint = nearest(kind, allowed)
        text = f"there is no kind {kind!r}; allowed: {', '.join(allowed)}"
        raise UserError(text + (f"; did you mean {hint}?" if hint else ""))
    for module in imports:
        load_module(find_module(module, [Path.cwd()]))
    if kind is None:
        names = [(f"lengthwise list {one}", first_few(sorted(registry.classes(one)))) for one in registry.KINDS]
        rows = [("lengthwise list sweeps", "the sweeps of the storage folder")]
        rows += [(f"lengthwise list {EXAMPLES}", "the sweep files that come with lengthwise"), *names]
        rows += [(f"lengthwise list {one}", f"the keys of {one}") for one in SECTIONS]
        return align_rows([*rows, (f"lengthwise list {ALL}", "all of these but sweeps and examples")]).splitlines()
    found = []
    for one in KINDS if kind == ALL else [kind]:
        for title, named in _describe(one):
            found.append(f"{title}: {named.summary}")
            found += [f"    {field}: {text}" for field, text in named.fields.items()]
            if named.metrics:
                found.append("    metrics: " + ", ".join(f"{metric} ({way})" for metric, way in named.metrics.items()))
    return found


def _describe(kind: str) -> list[tuple[str, Description]]:
    """Return the names of a kind or the parts of a section, each with a title and a description."""
    if kind in SECTIONS:
        return [(section, describe_class(cls)) for section, cls in SECTIONS[kind].items()]
    return [(f"{kind} {named.name}", named) for named in describe(kind)]
