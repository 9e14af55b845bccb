"""List the names and the keys of sections that a sweep file can use (`lengthwise list`)."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from orchestrator.code.user_code import find_module, load_module
from orchestrator.errors import UserError
from orchestrator.text.consoles import align_rows
from search_spaces import Budget, Objective, Racing, Resources, Rungs, Search, SweepSpec, Tracking
from search_spaces.grammar.domains import DOMAINS
from search_spaces.grammar.shipped import find_shipped_sweeps
from trainers.config.initial_weights import InitialWeights
from trainers.config.member import EvaluationConfig, TrainingConfig
from trainers.errors import suggest_nearest
from trainers.optimization.criterion import Stop
from trainers.settings import registry
from trainers.settings.descriptions import Description, describe_class, describe_kind, format_yaml
from trainers.settings.fields import Settings

NARROW_WIDTH = 80  # characters of a usual terminal
ALL, EXAMPLES = "all", "examples"  # arguments of `lengthwise list` that are not kinds
SECTIONS: dict[str, dict[str, type[Settings] | type[BaseModel]]] = {
    "file": {"file": SweepSpec},
    "training": {"training": TrainingConfig, "training.stop": Stop, "training.initial": InitialWeights},
    "evaluation": {"evaluation": EvaluationConfig},
    "search": {"search": Search, "search.racing": Racing, "search.racing.steps": Rungs},
    "objective": {"objective": Objective},
    "resources": {"resources": Resources},
    "budget": {"budget": Budget},
    "tracking": {"tracking": Tracking},
}
"""Sections of a sweep file without a `name`; their keys are the fields of these classes."""
LISTED_KINDS = (*registry.KINDS, *SECTIONS, "space")


def describe_names(kind: str | None, imports: Sequence[str]) -> list[str]:
    """Return the lines of `lengthwise list KIND`: for each name of the kind, or part of a section, summary and fields.

    EXAMPLES gives name, path and description of each shipped sweep file, ALL all kinds, and None the kinds that can be
    listed. Names of the modules `imports` are included. Raises UserError for an unknown kind,
    UserCodeError for a module that cannot be imported.
    """
    # Examples are files; all other names are registered by modules, the user's included.
    if kind == EXAMPLES:
        return [
            line for name, path in find_shipped_sweeps().items() for line in (f"{name}  {path}", _describe_file(path))
        ]
    if kind is not None and kind not in (allowed := (*LISTED_KINDS, ALL, "sweeps", EXAMPLES)):
        raise UserError(f"unknown kind {kind!r}; allowed: {', '.join(allowed)}{suggest_nearest(kind, allowed)}")
    for module in imports:
        load_module(find_module(module, [Path.cwd()]))

    # Without a kind, a newcomer learns what can be listed at all.
    if kind is None:
        kinds = (
            f"names: {', '.join(registry.KINDS)}",
            f"keys: {', '.join(SECTIONS)}, space",
            f"{EXAMPLES} (the sweep files that come with lengthwise), sweeps, {ALL}",
        )
        label = "lengthwise list KIND"
        texts = [line for text in kinds for line in textwrap.wrap(text, NARROW_WIDTH - len(f"{label}  "))]
        return align_rows([(label if text is texts[0] else "", text) for text in texts]).splitlines()

    # The metrics of a task are listed, because an objective refers to them.
    lines = []
    for listed_kind in LISTED_KINDS if kind == ALL else [kind]:
        for title, description in _list_descriptions(listed_kind):
            lines.append(f"{title}: {description.summary}")
            lines += [f"    {field}: {text}" for field, text in description.fields.items()]
            if description.metrics:
                metrics = (f"{metric} ({direction})" for metric, direction in description.metrics.items())
                lines.append(f"    metrics: {', '.join(metrics)}")
    return lines


def _list_descriptions(kind: str) -> list[tuple[str, Description]]:
    """Return (title, description) for each name of a kind or each part of a section."""
    # Neither domains nor sections are registered, so the registry describes only the other kinds.
    if kind == "space":
        texts = {
            ", ".join([name, *domain.options, "when"]): " ".join((domain.__doc__ or "").split())
            for name, domain in DOMAINS.items()
        }
        return [("space", Description("space", "Dotted keys, each with one domain.", texts, {}))]
    if kind in SECTIONS:
        return [
            (section, _describe_model(cls) if issubclass(cls, BaseModel) else describe_class(cls))
            for section, cls in SECTIONS[kind].items()
        ]
    return [(f"{kind} {description.name}", description) for description in describe_kind(kind)]


def _describe_model(model: type[BaseModel]) -> Description:
    """Return the description of a section of the grammar: each key with its meaning, choices and default."""
    # An empty text or a whole section as default would say nothing.
    texts = {}
    for key, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        requirement = "required" if field.is_required() else f"default {format_yaml(default)}"
        notes = [
            *_list_choices(field.annotation),
            *([requirement] if default != "" and not isinstance(default, BaseModel) else []),
        ]
        texts[key] = f"{field.description} ({'; '.join(notes)})" if notes else str(field.description)

    summary = (model.__doc__ or "").strip().partition("\n")[0]
    return Description(model.__name__, summary, texts, {})


def _list_choices(annotation: Any) -> list[str]:
    """Return the choices of a key as a text in a list; empty without choices."""
    options = [annotation, *get_args(annotation)]
    literal = next((option for option in options if get_origin(option) is Literal), None)
    return [", ".join(map(str, get_args(literal)))] if literal is not None else []


def _describe_file(path: Path) -> str:
    """Return the description of a sweep file as an indented line, without checking the file."""
    description = re.search(r"^description: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return f"    {description[1] if description else ''}"
