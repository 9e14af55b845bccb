"""Find the seeds, configurations and grid values that a later specification of a sweep adds."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import UserError
from orchestrator.plan.optuna_draws import count_configurations
from orchestrator.text.wording import format_ranges
from search_spaces import Grid, SweepSpec, list_differences
from search_spaces.grammar.domains import make_value_key
from trainers.settings.descriptions import format_yaml


@dataclass(frozen=True, kw_only=True)
class Extension:
    """The additions to a sweep: seeds, a larger `search.configurations`, and grids with further values."""

    seeds: tuple[int, ...] = ()
    configurations: int | None = None
    grids: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def options(self) -> str:
        """The options of `lengthwise extend` for this extension, quoted for a shell."""
        arguments = ["--seeds", format_seeds(self.seeds)] if self.seeds else []
        arguments += ["--configurations", str(self.configurations)] if self.configurations else []
        for key, domain in self.grids.items():
            arguments += ["--set", f"space.{key}={json.dumps(domain)}"]
        return shlex.join(arguments)


def format_seeds(seeds: Sequence[int]) -> str:
    """Return seeds in the format of `--seeds`: format_seeds((4, 5, 9)) -> "4-5,9"; a single seed 9 is "9-9"."""
    text = format_ranges(seeds).replace(" ", "")
    return f"{text}-{text}" if text.isdigit() else text


def find_extension(before: SweepSpec, after: SweepSpec) -> Extension | None:
    """Return the additions of `after` to `before`; None if nothing is added, or something else changes."""
    changes = list_differences(before, after)
    return None if not changes or _find_refused_changes(changes) else _make_extension(changes, after)


def require_extension(before: SweepSpec, after: SweepSpec, sweep: str) -> Extension:
    """Return the additions of `after` to `before`; empty if there are none.

    Raises UserError if `after` removes or changes anything else, or if the sampler would have drawn other
    configurations; `sweep` is its folder, for messages.
    """
    # After any other change the recorded results would belong to another sweep.
    changes = list_differences(before, after)
    if refused_changes := _find_refused_changes(changes):
        raise UserError(
            f"{sweep} cannot be extended this way; allowed: more seeds, configurations or grid values, none removed\n"
            + "\n".join(f"  {key}: was {format_yaml(old)}, now {format_yaml(new)}" for key, old, new in refused_changes)
            + "\nfor another sweep: lengthwise run FILE --name NAME"
        )

    # An incomplete generation of tpe would have been drawn differently in a larger sweep.
    extension, search = _make_extension(changes, after), before.search
    if (
        extension.configurations
        and search.sampler == "tpe"
        and (remainder := count_configurations(before) % search.generation)
    ):
        raise UserError(
            f"{sweep}: its last tpe generation is incomplete ({remainder} of {search.generation}); allowed: more seeds"
        )
    return extension


def refuse_configurations(spec: SweepSpec, count: int, sweep: str) -> None:
    """Raise UserError if a sweep cannot have this many draws of its random domains."""
    search = spec.search
    if search.sampler == "listed":
        raise UserError(f"--configurations {count}: {sweep} lists its configurations; allowed: --seeds")
    if search.configurations is None or all(isinstance(domain, Grid) for domain in spec.space.values()):
        raise UserError(
            f"--configurations {count}: {sweep} has only a grid; add values with --set 'space.KEY={{grid: [...]}}'"
        )
    if count < search.configurations:
        raise UserError(
            f"--configurations {count}: must not shrink {sweep}; allowed: more than {search.configurations}"
        )


def _find_refused_changes(changes: Sequence[tuple[str, object, object]]) -> list[tuple[str, object, object]]:
    """Return the changes (key, old value, new value) that are not only additions."""
    return [change for change in changes if not _is_addition(*change)]


def _is_addition(key: str, old: Any, new: Any) -> bool:
    """Return whether the new value has every item of the old value."""
    if key == "search.configurations":
        return old is not None and new is not None and bool(new > old)
    if key == "seeds" or (key.startswith("space.") and key.endswith(".grid")):
        return old is not None and new is not None and set(map(make_value_key, old)) <= set(map(make_value_key, new))
    return False


def _make_extension(changes: Sequence[tuple[str, object, object]], after: SweepSpec) -> Extension:
    """Return the extension of these changes, all of which are additions; a reordered grid adds nothing."""
    values: dict[str, tuple[Any, Any]] = {key: (old, new) for key, old, new in changes}
    old_seeds, new_seeds = values.get("seeds", ((), ()))
    grids = [key for key, (old, new) in values.items() if key.startswith("space.") and len(new) > len(old)]
    keys = [key.removeprefix("space.").removesuffix(".grid") for key in grids]
    return Extension(
        seeds=tuple(seed for seed in new_seeds if seed not in old_seeds),
        configurations=after.search.configurations if "search.configurations" in values else None,
        grids={key: after.space[key].to_plain() for key in keys},
    )
