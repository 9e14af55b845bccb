"""What the packs of a sweep ran under: the state of the code and the environment of each, and where they differ."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

from orchestrator.code.sources import counting
from orchestrator.record.state.state import SweepState
from orchestrator.wording import counted, differing, first_few

ENGINE, MODULE = "engine", "module "  # keys of an environment: the digest of what trains; begin of those of own modules
Code = Mapping[str, str]  # hashes of what trains: the engine, each module and each file of the user's own, by name


@dataclass(frozen=True, kw_only=True)
class Group:
    """Packs that ran under one state of the code (None where it is not recorded) and in one environment.

    A pack that was gone on with under another is in both groups.
    """

    sources: str | None
    environment: Mapping[str, Any]
    packs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RanUnder:
    """All groups of a sweep, the largest first, and the states of its code by name, the latest last."""

    groups: tuple[Group, ...] = ()
    states: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, state: SweepState) -> Self:
        """As a ledger tells it; without groups where it does not."""
        packs: dict[tuple[str | None, str], list[str]] = {}
        for pack in state.packs.values():
            for under in pack.ran_under:
                packs.setdefault(under, []).append(pack.pack_id)
        groups = [
            Group(sources=sources, environment=state.environments[name], packs=tuple(ids))
            for (sources, name), ids in packs.items()
        ]
        groups.sort(key=lambda group: -len(group.packs))
        return cls(groups=tuple(groups), states={known["name"]: known for known in state.sources})

    @property
    def differing(self) -> list[str]:
        """The keys in which environments of packs differ."""
        first, *others = [group.environment for group in self.groups] or [{}]
        return sorted({key for other in others for key in differing(first, other)})

    @property
    def changed_files(self) -> list[str]:
        """The files that count and were not the same for all packs."""
        used = dict.fromkeys(group.sources for group in self.groups if group.sources is not None)
        first, *others = [self.states[name] for name in used] or [{}]
        return sorted({file for other in others for file in differing(*counting(first, other))})

    @property
    def sentences(self) -> list[str]:
        """What a reader must know: that packs are not alike; nothing where they are."""
        found = []
        if files := self.changed_files:
            found.append(f"packs were trained with different code ({first_few(files)})")
        if keys := self.differing:
            count = len({tuple(str(group.environment.get(key)) for key in keys) for group in self.groups})
            found.append(f"packs ran in {counted(count, 'environment')}, which differ in {first_few(keys, most=8)}")
        return [f"{sentence}; which packs did: report.html, Provenance" for sentence in found]


def code_of_packs(state: SweepState) -> dict[str, Code]:
    """The code that each pack was trained with, by pack_id; empty where it is not recorded."""
    trees = {known["name"]: known["trees"] for known in state.sources}
    found: dict[str, Code] = {}
    for pack in state.packs.values():
        values: dict[str, dict[str, None]] = {}
        for sources, environment in pack.ran_under:
            table = state.environments[environment]
            parts = [(key, str(value)) for key, value in table.items() if key == ENGINE or key.startswith(MODULE)]
            for tree in trees.get(sources, ()):
                parts += [(name, short) for name, short in tree["files"].items() if name != tree["main"]]
            for key, value in parts:
                values.setdefault(key, {})[value] = None
        found[pack.pack_id] = {
            key: " then ".join(several) + (f" (pack {pack.pack_id})" if len(several) > 1 else "")
            for key, several in values.items()
        }
    return found


def differing_code(first: Mapping[int, Code], second: Mapping[int, Code]) -> dict[str, tuple[str | None, str | None]]:
    """The parts of the code, with both hashes, in which the seeds of one configuration differ from those of another.

    Seeds that both have are held against each other, else any against any. What only one has did not train the other,
    unless that has something of its own instead.
    """
    common = sorted(first.keys() & second.keys())
    pairs = [(first[seed], second[seed]) for seed in common] or list(product(_unlike(first), _unlike(second)))
    found: dict[str, tuple[str | None, str | None]] = {}
    for one, other in pairs:
        instead = one.keys() - other.keys() and other.keys() - one.keys()
        for key in differing(one, other):
            if instead or key == ENGINE or (key in one and key in other):
                found.setdefault(key, (one.get(key), other.get(key)))
    return found


def _unlike(code: Mapping[int, Code]) -> Iterable[Code]:
    return {tuple(sorted(one.items())): one for one in code.values()}.values()


def code_sentence(state: Mapping[str, Any]) -> str:
    """A recorded state of the code in a line: commits, changes, own files, and what is kept of it where."""
    parts = [_tree(tree) for tree in state["trees"]]
    lengthwise = state["lengthwise"]
    how = "installed" if lengthwise["installed"] else f"from {lengthwise['root']}"
    changed = lengthwise["uncommitted"]
    parts.append(
        f"lengthwise {lengthwise['version'] or ''} {how}".replace("  ", " ")
        + (f", not as committed: {first_few(changed)}" if changed else "")
    )
    if archive := state["archive"]:
        parts.append(f"what no commit holds is in {archive['file']} ({counted(archive['files'], 'file')})")
    if left_out := state["left_out"]:
        said = [f"{one['file']} ({one['bytes']} bytes: {one['why']})" for one in left_out]
        parts.append(f"not kept: {first_few(said)}")
    return "; ".join(parts)


def _tree(tree: Mapping[str, Any]) -> str:
    if tree["commit"]:
        dirty = {True: ", with uncommitted changes", False: ", clean", None: ""}[tree["dirty"]]
        said = f"commit {tree['commit'][:12]}{dirty}{', as the job was sent with it' if tree['by'] == 'job' else ''}"
    else:
        said = f"no commit ({tree['why']})" if tree["why"] else "no commit"
    own = f", own files: {first_few(list(tree['files']), most=8)}" if tree["files"] else ""
    return f"{said} in {tree['root']}{own}"
