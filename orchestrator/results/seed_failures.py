"""Name the seeds that failed, and why: for `status`, the screen of a sweep and report.html; needs no pandas."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from orchestrator.addresses import find_address
from orchestrator.record.state.entities import ConfigurationState, MemberState, PackState
from orchestrator.record.state.lineage import IMPORTED, may_have_checkpoint
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_command, format_count, format_label, format_ranges, group_errors

MAX_NAMED = 6  # configurations with failed seeds, in one line


def describe_failure(state: SweepState, configuration: ConfigurationState, member: MemberState) -> str:
    """Return as text why a member of a configuration failed; if it diverged, also at which step."""
    if member.failed_at is None:
        return member.error or "its pack failed"
    return f"diverged: {_describe_divergence(state, configuration, member.failed_at)} at step {member.failed_at:,}"


def _describe_divergence(state: SweepState, configuration: ConfigurationState, step: int) -> str:
    """Return the values that were NaN or infinite when a member diverged at this step, as text."""
    # A program diverges by the loss that it reports, or by scores of nothing but NaN at its last step.
    if IMPORTED in state.provenance:
        subject = str(state.spec["objective"]["metric"])
    elif "program" in configuration.resolved:
        subject = "loss or every score" if step == configuration.resolved["training"]["steps"] else "loss"
    else:
        subject = "loss or weights"
    return f"{subject} NaN or infinite"


def describe_divergences(
    state: SweepState,
    pack: PackState,
    earlier_failures: Sequence[int | None],
    labels: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """Return as text which members of a pack diverged since their `failed_at` were `earlier_failures`; "" if none.

    For example "#0 seed 5, #3 seeds 0-1: diverged: loss or weights NaN or infinite at steps 20 to 75". `labels` are as
    in `make_failure_rows`.
    """
    seeds, causes, steps = list[tuple[str, int]](), list[str](), list[int]()
    for (config_id, seed), member, earlier in zip(pack.members, pack.member_states, earlier_failures, strict=True):
        if member.failed_at is not None and earlier is None:
            configuration = state.configurations[config_id]
            seeds.append((labels.get(configuration.number, format_label(configuration.number)), seed))
            causes.append(_describe_divergence(state, configuration, member.failed_at))
            steps.append(member.failed_at)
    return f"{name_seeds(seeds)}: diverged: {causes[0]} at {format_steps(steps)}" if seeds else ""


def make_failure_rows(state: SweepState, labels: Mapping[int, str] = MappingProxyType({})) -> list[tuple[str, str]]:
    """Return rows of label and text that name the seeds that diverged and those that crashed, a row for each cause.

    Crashes are in the order of their frequency. `labels` are those of configurations whose label is not their number.
    """
    # Seeds that diverged for the same reason share a row, whatever the step.
    diverged: dict[str, list[tuple[str, int, int]]] = {}
    crashed: list[tuple[str, tuple[str, int]]] = []
    for configuration in state.configurations.values():
        label = labels.get(configuration.number, format_label(configuration.number))
        for seed, member in sorted(configuration.members.items()):
            if member.has_crashed:
                crashed.append((describe_failure(state, configuration, member), (label, seed)))
            elif member.failed_at is not None and member.status == "failed":
                cause = _describe_divergence(state, configuration, member.failed_at)
                diverged.setdefault(cause, []).append((label, seed, member.failed_at))

    rows = []
    for cause, failures in diverged.items():
        when = format_steps(step for _, _, step in failures)
        rows.append(("diverged", f"{name_seeds((label, seed) for label, seed, _ in failures)}, {cause} at {when}"))

    # Similar errors share a row, which shows one of them.
    error_by_seed = {seed: error for error, seed in crashed}
    for error, seeds in group_errors(crashed).items():
        example = "" if all(error_by_seed[seed] == error for seed in seeds) else "for example "
        rows.append(("crashed", f"{name_seeds(seeds)}: {example}{error}"))
    return rows


def format_steps(steps: Iterable[int]) -> str:
    """Return the first and the last of these steps as text: "step 200", or "steps 200 to 1,000"."""
    ordered = sorted(steps)
    first, last = ordered[0], ordered[-1]
    return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"


def name_seeds(seeds: Iterable[tuple[str, int]], maximum: int = MAX_NAMED) -> str:
    """Return seeds, given with the label of their configuration, as text: "#0 #1 seed 5, #7 seeds 0-3 and 4 others".

    At most `maximum` configurations are named; `others` counts the seeds of all others.
    """
    # Configurations with the same seeds are named together.
    seeds_by_label: dict[str, list[int]] = {}
    for label, seed in seeds:
        seeds_by_label.setdefault(label, []).append(seed)
    labels_by_seeds: dict[tuple[int, ...], list[str]] = {}
    for label, numbers in seeds_by_label.items():
        labels_by_seeds.setdefault(tuple(sorted(numbers)), []).append(label)

    texts, others, room = [], 0, maximum
    for group, labels in labels_by_seeds.items():
        named, room = labels[:room], room - len(labels[:room])
        others += len(group) * (len(labels) - len(named))
        texts += [f"{' '.join(named)} seed{'s'[: len(group) > 1]} {format_ranges(group)}"] if named else []
    return ", ".join(texts) + (f" and {format_count(others, 'other')}" if others else "")


def make_retry_command(state: SweepState) -> str:
    """Return the command that retries packs that failed; empty without any, and for imported results.

    A program or a module of the user's is assumed to have been fixed.
    """
    if not state.failed_packs or IMPORTED in state.provenance:
        return ""
    accept = " --accept-code-change" if state.modules else ""
    return f"{format_command('resume', state.folder)} --retry-failed{accept}"


def describe_retry(state: SweepState) -> str:
    """Return a sentence on how the crashed seeds are retried, with the command at its end; empty if they cannot be."""
    if not (command := make_retry_command(state)):
        return ""
    seeds = "crashed seed" if state.seeds_crashed == 1 else f"{state.seeds_crashed} crashed seeds"
    start = f" ({text})" if (text := describe_retry_start(state)) else ""
    return f"when the cause is fixed, retry the {seeds}{start} with: {command}"


def describe_retry_start(state: SweepState) -> str:
    """Return where a retry of the crashed seeds starts: "from the start" or "2 from checkpoints, 1 from the start".

    Empty for a sweep at an address, whose checkpoints may not be on this machine.
    """
    failed_packs = [pack for pack in state.packs.values() if pack.status == "failed"]
    if find_address(state.folder) is not None or not failed_packs:
        return ""
    total = sum(len(pack.members) for pack in failed_packs)
    saved = sum(len(pack.members) for pack in failed_packs if may_have_checkpoint(state, pack))
    if saved and saved < total:
        return f"{saved} from checkpoints, {total - saved} from the start"
    checkpoints = "its checkpoint" if total == 1 else "their checkpoints"
    return f"from {checkpoints if saved else 'the start'}"
