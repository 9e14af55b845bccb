"""The names that a sweep file can use, with their fields, as `lengthwise list` prints them."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator.code.own_code import find_module, load_module
from orchestrator.consoles import align_rows
from orchestrator.errors import UserError
from orchestrator.wording import first_few
from trainers.errors import nearest
from trainers.settings import registry
from trainers.settings.descriptions import describe

ALL = "all"


def describe_names(kind: str | None, imports: Sequence[str]) -> list[str]:
    """Return a line for each name of a kind, or of ALL kinds, followed by a line for each of its fields.

    Without a kind: a line for everything that `lengthwise list` can list. Names of the modules `imports` are included.
    Raises UserError for an unknown kind, OwnCodeError for a module that cannot be imported.
    """
    if kind is not None and kind not in (allowed := (*registry.KINDS, ALL, "sweeps")):
        hint = nearest(kind, allowed)
        text = f"there is no kind {kind!r}; allowed: {', '.join(allowed)}"
        raise UserError(text + (f"; did you mean {hint}?" if hint else ""))
    for module in imports:
        load_module(find_module(module, [Path.cwd()]))
    if kind is None:
        names = [(f"lengthwise list {one}", first_few(sorted(registry.classes(one)))) for one in registry.KINDS]
        rows = [("lengthwise list sweeps", "the sweeps of the storage folder"), *names]
        return align_rows([*rows, (f"lengthwise list {ALL}", "every name that a sweep file can use")]).splitlines()
    found = []
    for one in registry.KINDS if kind == ALL else [kind]:
        for named in describe(one):
            found.append(f"{one} {named.name}: {named.summary}")
            found += [f"    {field}: {text}" for field, text in named.fields.items()]
            if named.metrics:
                found.append("    metrics: " + ", ".join(f"{metric} ({way})" for metric, way in named.metrics.items()))
    return found
