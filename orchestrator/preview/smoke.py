"""Try a sweep in this process: every structure trains one step and is evaluated once. Nothing is written.

Errors appear in seconds, with the lines of the user's own code, and breakpoints in a task work.

SmokeFailed (a LengthwiseError)    a structure cannot be trained or evaluated
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.code.own_code import import_for
from orchestrator.plan.checks.soundness import build_sample, configurations_of, drawn_configurations
from orchestrator.preview.program import SmokeFailed, smoke_program
from orchestrator.running.pack.protocol import describe_exception
from orchestrator.running.schedulers.choice import find_missing_resources
from orchestrator.wording import counted, label
from search_spaces import SweepSpec
from trainers.config.member import MemberConfig

SEEDS = 2  # per structure, at most


def validate_sweep(spec: SweepSpec, *, smoked: bool) -> list[str]:
    """Return what `validate` prints for a valid sweep: warnings, then what was tried (`smoked`: by `smoke` too).

    Raises SweepFileError with every problem found, and what `smoke` raises.
    """
    tried = ""
    if smoked and spec.program:
        tried = f"; {smoke_program(spec, configurations_of(spec, [(0, drawn_configurations(spec)[0].values)]))}"
    elif smoked:
        tried = f"; {counted(smoke(spec), 'structure')} trained for a step and evaluated"
    sample = build_sample(spec)
    evaluated = f"; evaluated at lengths {sample.evaluated}" if sample.evaluated else ""
    return [
        *(f"warning: {warning}" for warning in sample.warnings),
        *(f"note: `run` refuses this here: {problem}" for problem in find_missing_resources(spec).problems),
        f"good; built {counted(sample.built, 'configuration')}{tried}{evaluated}",
    ]


def smoke(spec: SweepSpec) -> int:
    """Train each structure for one step and evaluate it once, uncompiled, with up to SEEDS seeds; return their number.

    The structures are those of every grid point and of the draws that `validate` builds. Raises SweepFileError for a
    sweep that cannot be built, SmokeFailed for the first structure that fails.
    """
    structures: dict[str, int] = {}
    own = frozenset(str(source.root / name) for source in import_for(spec) for name in source.files)
    for configuration in drawn_configurations(spec):
        first = configuration.member(spec.seeds[0])
        if first.structural_key in structures:
            continue
        structures[first.structural_key] = configuration.number
        sections = {**first.to_dict(), "training": {**first.to_dict()["training"], "compile": False}}
        members = [MemberConfig.from_dict({**sections, "seed": seed}) for seed in spec.seeds[:SEEDS]]
        _try(members, label(configuration.number), own)
    return len(structures)


def _try(members: list[MemberConfig], which: str, own: frozenset[str]) -> None:
    import torch

    from trainers.evaluation.evaluate import evaluate
    from trainers.packs.pack import Pack, State
    from trainers.training.step import step_once

    with _explained(f"{which} cannot be begun", own):
        pack = Pack(members, torch.device("cpu"))
        state = State.initial(pack)
    with _explained(f"{which} cannot take a training step", own):
        step_once(pack, state)
    if int(state.failed_at.max()) >= 0:
        raise SmokeFailed(f"configuration {which}: its loss or its weights are not finite after one step")
    with _explained(f"{which} cannot be evaluated", own):
        evaluate(pack, state)


@contextmanager
def _explained(what: str, own: frozenset[str]) -> Iterator[None]:
    """Raise an exception as SmokeFailed, with its frames in the user's own files if there are any."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        mine: list[Any] = [frame for frame in frames if frame.filename in own] or list(frames)[1:]
        text = describe_exception(error, [(frame.filename, frame.lineno) for frame in mine])
        lines = "".join(traceback.format_list(mine)).rstrip()
        raise SmokeFailed(f"configuration {what}: {text}\n{lines}") from error
