"""The work that a worker gets to train one pack."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.addresses import find_address
from orchestrator.interface.work import PackWork
from orchestrator.plan.recorded_configurations import RecordedConfiguration
from orchestrator.record.files.recorded_modules import make_worker_modules
from orchestrator.record.ledger.folders import STOP_FILE, WEIGHTS_FOLDER
from orchestrator.record.state.lineage import list_checkpoint_sources
from orchestrator.record.state.state import SweepState
from search_spaces import Resources


def make_single_member_work(
    resources: Resources,
    folder: Path,
    configuration: RecordedConfiguration,
    seed: int,
    modules: Sequence[Mapping[str, Any]],
) -> PackWork:
    """Return the work of one member that is trained in this process, below `folder`, outside of any sweep.

    `modules` are the recorded modules, with copies below `folder` unless they are installed.
    """
    return PackWork(
        pack_id="alone",
        members=[dict(configuration.resolved)],
        member_ids=[(configuration.config_id, seed)],
        folder=str(folder),
        modules=make_worker_modules(folder, modules),
        **_make_limits(resources),
    )


def make_pack_work(resources: Resources, state: SweepState, pack_id: str) -> PackWork:
    """Return everything that a worker needs to train a recorded pack."""
    pack, folder, race = state.packs[pack_id], state.folder.resolve(), state.race
    keeps_weights = state.has_small_weights if resources.keep_weights == "auto" else resources.keep_weights
    return PackWork(
        # The members, and their files.
        pack_id=pack_id,
        members=[state.configurations[config_id].resolved for config_id, _ in pack.members],
        member_ids=pack.members,
        folder=str(folder),
        address=find_address(folder) or "",
        modules=make_worker_modules(state.folder, state.modules),
        weights_folder=str(folder / WEIGHTS_FOLDER) if keeps_weights else None,
        checkpoint_steps=resources.checkpoint_steps,
        checkpoint_seconds=resources.checkpoint_seconds,
        **_make_limits(resources),
        # Where to start, and where to end.
        recorded_step=pack.step,
        seconds=pack.seconds,
        checkpoint_sources=list_checkpoint_sources(state, pack),
        prune_at=[pack.pruned_at.get(config_id) for config_id, _ in pack.members],
        pause_at=race.next_rung.step if race and race.next_rung else None,
        objective=state.spec.get("objective"),
    )


def _make_limits(resources: Resources) -> dict[str, Any]:
    """Return the fields of the CPUs, GPUs and time limits of a pack."""
    return {
        "cpus": resources.cpus,
        "gpus": resources.gpus,
        "heartbeat_timeout": resources.heartbeat_timeout,
        "grace_seconds": resources.grace_seconds,
        "member_hours": resources.member_hours,
        "stop_file": STOP_FILE,
    }
