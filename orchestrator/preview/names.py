"""The names a sweep file can use, with their fields: what `lengthwise list` prints."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator.code.own_code import find_module, load_module
from orchestrator.errors import UserError
from trainers.errors import nearest
from trainers.settings import registry
from trainers.settings.descriptions import describe


def lines(kind: str | None, imports: Sequence[str] = ()) -> list[str]:
    """Of one kind or of all, those of `imports` too: a line for each name, one for each of its fields below it.

    Raises UserError for a kind that is not there, OwnCodeError for a module that cannot be imported.
    """
    if kind is not None and kind not in registry.KINDS:
        hint = nearest(kind, registry.KINDS)
        said = f"there is no kind {kind!r}; allowed: {', '.join(registry.KINDS)}"
        raise UserError(said + (f"; did you mean {hint}?" if hint else ""))
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
