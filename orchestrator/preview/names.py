"""The names that a sweep file can use, with their fields, as `lengthwise list` prints them."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator.code.own_code import find_module, load_module
from orchestrator.errors import UserError
from trainers.errors import nearest
from trainers.settings import registry
from trainers.settings.descriptions import describe


def describe_names(kind: str | None, imports: Sequence[str]) -> list[str]:
    """Return a line for each name of a kind (default: all kinds), followed by a line for each of its fields.

    Names of the modules `imports` are included. Raises UserError for an unknown kind, OwnCodeError for a module that
    cannot be imported.
    """
    if kind is not None and kind not in registry.KINDS:
        hint = nearest(kind, (*registry.KINDS, "sweeps"))
        text = f"there is no kind {kind!r}; allowed: {', '.join(registry.KINDS)}, sweeps"
        raise UserError(text + (f"; did you mean {hint}?" if hint else ""))
    for module in imports:
        load_module(find_module(module, [Path.cwd()]))
    found = []
    for one in [kind] if kind else registry.KINDS:
        for named in describe(one):
            found.append(f"{one} {named.name}: {named.summary}")
            found += [f"    {field}: {text}" for field, text in named.fields.items()]
            if named.metrics:
                found.append("    metrics: " + ", ".join(f"{metric} ({way})" for metric, way in named.metrics.items()))
    return found
