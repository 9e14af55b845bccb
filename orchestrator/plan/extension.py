"""Compare two specifications of a sweep: the seeds, configurations and grid values that the later one adds."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import UserError
from orchestrator.plan.search import count_configurations
from orchestrator.text.wording import spans
from search_spaces import Grid, SweepSpec, differences
from search_spaces.grammar.domains import value_key
from trainers.settings.descriptions import as_yaml


@dataclass(frozen=True, kw_only=True)
class Extension:
    """Seeds for every configuration, `search.configurations` where it is larger, and grids with more values."""

    seeds: tuple[int, ...] = ()
    configurations: int | None = None
    grids: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def options(self) -> str:
        """The options of `lengthwise extend` that add it, as they can be pasted into a shell."""
        words = ["--seeds", format_seeds(self.seeds)] if self.seeds else []
        words += ["--configurations", str(self.configurations)] if self.configurations else []
        for key, domain in self.grids.items():
            words += ["--set", f"space.{key}={json.dumps(domain)}"]
        return shlex.join(words)


def format_seeds(seeds: Sequence[int]) -> str:
    """Return seeds as `--seeds` takes a list: format_seeds((4, 5, 9)) -> "4-5,9"; a single one is "9-9"."""
    text = spans(seeds).replace(" ", "")
    return f"{text}-{text}" if text.isdigit() else text


def find_extension(before: SweepSpec, after: SweepSpec) -> Extension | None:
    """Return the additions of `after` to `before`; None if they compute the same, or differ otherwise."""
    changes = differences(before, after)
    return None if not changes or _find_refused_changes(changes) else _make_extension(changes, after)


def require_extension(before: SweepSpec, after: SweepSpec, sweep: str) -> Extension:
    """Return the additions of `after` to `before`, perhaps none.

    Raises UserError where `after` takes something away or computes something else, and where the sampler would have
    drawn other configurations; `sweep` is its folder, for messages.
    """
    changes = differences(before, after)
    if refused := _find_refused_changes(changes):
        raise UserError(
            f"{sweep} cannot be extended like this: only seeds, configurations and values of a grid can be added, and "
            "nothing can be taken away\n"
            + "\n".join(f"  {key}: was {as_yaml(old)}, now {as_yaml(new)}" for key, old, new in refused)
            + "\nfor another sweep: lengthwise run FILE --name NAME"
        )
    added, search = _make_extension(changes, after), before.search
    if added.configurations and search.sampler == "tpe" and (left := count_configurations(before) % search.generation):
        raise UserError(
            f"{sweep}: its last generation of tpe has only {left} of {search.generation} configurations, and a larger "
            "sweep would have drawn others in their place; allowed: more seeds"
        )
    return added


def refuse_configurations(spec: SweepSpec, asked: int, sweep: str) -> None:
    """Raise UserError where a sweep cannot have this many draws of its random domains."""
    search = spec.search
    if search.sampler == "listed":
        raise UserError(
            f"--configurations {asked}: {sweep} has a list of {len(search.listed or ())} configurations, to which none "
            "can be added; seeds can"
        )
    if search.configurations is None or all(isinstance(domain, Grid) for domain in spec.space.values()):
        raise UserError(
            f"--configurations {asked}: {sweep} draws nothing at random, so that it has a configuration for each grid "
            "point; values are added to a grid by --set 'space.KEY={grid: [...]}'"
        )
    if asked < search.configurations:
        raise UserError(
            f"--configurations {asked}: {sweep} has {search.configurations} and none can be taken away; allowed: "
            f"{search.configurations} or more"
        )


def _find_refused_changes(changes: Sequence[tuple[str, object, object]]) -> list[tuple[str, object, object]]:
    return [change for change in changes if not _is_addition(*change)]


def _is_addition(key: str, old: Any, new: Any) -> bool:
    """Return whether the new value keeps everything of the old one."""
    if key == "search.configurations":
        return old is not None and new is not None and bool(new > old)
    if key == "seeds" or (key.startswith("space.") and key.endswith(".grid")):
        return old is not None and new is not None and set(map(value_key, old)) <= set(map(value_key, new))
    return False


def _make_extension(changes: Sequence[tuple[str, object, object]], after: SweepSpec) -> Extension:
    values: dict[str, tuple[Any, Any]] = {key: (old, new) for key, old, new in changes}
    old, new = values.get("seeds", ((), ()))
    longer = [key for key, (was, is_now) in values.items() if key.startswith("space.") and len(is_now) > len(was)]
    keys = [key.removeprefix("space.").removesuffix(".grid") for key in longer]
    return Extension(
        seeds=tuple(seed for seed in new if seed not in old),
        configurations=after.search.configurations if "search.configurations" in values else None,
        grids={key: after.space[key].to_plain() for key in keys},
    )
