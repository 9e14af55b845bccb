"""Compare the code and the environments of the packs of a sweep."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Self

from orchestrator.code.code_record import merge_file_digests
from orchestrator.engine.environment import ENGINE, MODULE
from orchestrator.interface.work import get_checkpoint_folder
from orchestrator.record.state.entities import PackState
from orchestrator.record.state.lineage import IMPORTED
from orchestrator.record.state.state import SweepState
from orchestrator.results.program_defaults import add_defaults, list_program_defaults
from orchestrator.text.wording import format_count, join_first_few, list_differing_keys
from orchestrator.trainer_choice import name_pack

Run = tuple[str | None, str]  # the name of a code record or None, the digest of an environment
Code = Mapping[str, str]  # digests of the engine, of the user's modules and of imported files, by name


@dataclass(frozen=True, kw_only=True)
class ConfigurationProvenance:
    """A configuration as recorded: its resolved sections with defaults of a program, and structural keys of its packs.

    `code` has the code of each seed's pack, `technical` are the dotted keys whose values do not change results.
    `task_module` is the top-level module of the task, "" if it is not recorded.
    """

    resolved: Mapping[str, Any]
    structural_keys: frozenset[str]
    code: Mapping[int, Code] = field(default_factory=dict)
    technical: tuple[str, ...] = ()
    task_module: str = ""


@dataclass(frozen=True, kw_only=True)
class PackGroup:
    """Packs that ran with the same code (None if not recorded) in the same environment.

    A pack that was resumed in another environment is in both groups.
    """

    code: str | None
    environment: Mapping[str, Any]
    packs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PackEnvironments:
    """All groups of packs of a sweep, the largest first, and its code records by name, the latest last.

    `noun` is the word for a pack. `began_with_other_code` counts the seeds with a run, usually the first, of other code
    than the newest run. Of these, `ended_with_newest_code` counts those that also ran with the newest code. Not among
    them, `trained_again` counts the seeds that ran with other code first, and then from step 0 with the newest.
    `seed_count` counts all. Seeds that train or wait for a retry are in no count.
    """

    noun: str = "pack"
    groups: tuple[PackGroup, ...] = ()
    codes: Mapping[str, Mapping[str, Any]]
    began_with_other_code: int = 0
    ended_with_newest_code: int = 0
    trained_again: int = 0
    seed_count: int = 0

    @classmethod
    def from_state(cls, state: SweepState) -> Self:
        """Group the packs of a sweep; no groups if its ledger records no environments."""
        # A pack resumed elsewhere ran in several environments, and is in the group of each.
        ids_by_group: dict[Run, list[str]] = {}
        seeds_by_runs: Counter[tuple[tuple[Run, ...], tuple[Run, ...]]] = Counter()  # by lasting runs and all runs
        for pack in state.packs.values():
            runs = list_lasting_runs(state, pack)
            for run in runs:
                ids_by_group.setdefault(run, []).append(pack.pack_id)
            if runs and pack.has_ended:
                seeds_by_runs[tuple(runs), tuple(pack.ran_under)] += len(pack.members)

        # The largest group comes first, because the others are compared with it.
        groups = [
            PackGroup(code=code, environment=state.environments[name], packs=tuple(pack_ids))
            for (code, name), pack_ids in ids_by_group.items()
        ]
        groups.sort(key=lambda group: -len(group.packs))
        codes = {code["name"]: code for code in state.codes}
        digests = _list_digests(codes)

        # Code is recorded in the order of the runs; before it was recorded, only the environment has its digests.
        def read_code(run: Run) -> dict[str, Any]:
            modules = {key: value for key, value in state.environments[run[1]].items() if key.startswith(MODULE)}
            return modules | digests.get(run[0] or "", {})

        order = list(codes)
        newest = max(ids_by_group, key=lambda run: order.index(run[0]) if run[0] else -1, default=None)
        newest_code = read_code(newest) if newest else {}
        began = ended = trained_again = 0
        for (lasting, all_runs), count in seeds_by_runs.items():
            if any(read_code(run) != newest_code for run in lasting):
                began += count
                ended += count if newest_code in map(read_code, lasting) else 0
            elif any(read_code(run) != newest_code for run in set(all_runs).difference(lasting)):
                trained_again += count
        return cls(
            noun=name_recorded_pack(state),
            groups=tuple(groups),
            codes=codes,
            began_with_other_code=began,
            ended_with_newest_code=ended,
            trained_again=trained_again,
            seed_count=seeds_by_runs.total(),
        )

    @property
    def differing(self) -> list[str]:
        """The keys in which environments of packs differ."""
        return _list_changed_keys([group.environment for group in self.groups])

    @property
    def changed_code(self) -> list[str]:
        """The folders of lengthwise and the imported files that differ between packs."""
        digests = _list_digests(self.codes)
        names = dict.fromkeys(group.code for group in self.groups)
        return _list_changed_keys([digests[name] for name in names if name is not None])

    @property
    def sentences(self) -> list[str]:
        """Warnings that packs differ in code, and that they differ in environment."""
        return [*self.code_sentences, *self.environment_sentences]

    @property
    def code_sentences(self) -> list[str]:
        """A warning that packs were trained with different code; empty if no finished pack was."""
        modules = [key.removeprefix(MODULE).strip("()") for key in self.differing if key.startswith(MODULE)]
        if not (changed_parts := self.changed_code or modules) or not self.began_with_other_code:
            return []
        with_earlier_alone = self.began_with_other_code - self.ended_with_newest_code
        count = f"{with_earlier_alone} of {format_count(self.seed_count, 'finished seed')} ran with earlier code alone"
        if self.ended_with_newest_code:
            count += f", {self.ended_with_newest_code} began with it and ended with the newest"
        if self.trained_again:
            were = "was" if self.trained_again == 1 else "were"
            count += f", {self.trained_again} {were} trained again from the start with the newest"
        changed = f"{self.noun}s were trained with different code ({join_first_few(changed_parts)})"
        return [f"{changed}: {count}; the Provenance of report.html names them"]

    @property
    def environment_sentences(self) -> list[str]:
        """A warning that packs ran in different environments, which may round differently; empty if they did not."""
        keys = [key for key in self.differing if not key.startswith(MODULE)]
        if not keys:
            return []
        count = len({tuple(str(group.environment.get(key)) for key in keys) for group in self.groups})
        differing = join_first_few(keys, maximum=8)
        return [
            f"{self.noun}s ran in {format_count(count, 'environment')}, which differ in {differing}; the Provenance of "
            "report.html names them"
        ]


def list_lasting_runs(state: SweepState, pack: PackState) -> list[Run]:
    """Return code and environment of each run of a pack that left a report or a checkpoint.

    Leaves out runs before one that started from step 0 and reported: the ledger has their reports, but the results at
    the end are not theirs. Of a pack without reports the last run counts, because its failure is the result.
    """
    # A checkpoint without a report is not in the ledger, but its file may be older than the last of these runs.
    runs = [run for run in pack.ran_under if run not in pack.superseded]
    lasting = [run for run in runs if run not in pack.unreported]
    if len(lasting) == len(runs):
        return runs
    lasting = lasting or [max(runs, key=lambda run: pack.unreported[run])]
    files = [path for path in get_checkpoint_folder(state.folder, pack.pack_id).rglob("*") if path.is_file()]
    oldest = min((path.stat().st_mtime for path in files), default=math.inf)
    return [run for run in runs if run in lasting or oldest <= pack.unreported[run]]


def name_recorded_pack(state: SweepState) -> str:
    """Return the noun for packs of a recorded sweep."""
    # Imported results have the section of a program, but one pack has many members.
    return "pack" if IMPORTED in state.provenance else name_pack(state.spec)


def _list_digests(codes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the digests of each code record: of imported files, and of the parts of lengthwise that all records have.

    Earlier versions recorded fewer parts.
    """
    engines = [code["engine"] for code in codes.values()]
    parts = [part for part in (engines[0] if engines else ()) if all(part in engine for engine in engines)]
    return {
        name: {**{part: code["engine"][part] for part in parts}, **merge_file_digests(code)}
        for name, code in codes.items()
    }


def _list_changed_keys(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the sorted keys whose value differs between the first table and another one."""
    first, *others = [*tables] or [{}]
    return sorted({key for other in others for key in list_differing_keys(first, other)})


def read_pack_code(state: SweepState) -> dict[str, Code]:
    """Return the code of each pack by pack_id; empty mappings if it is not recorded."""
    # A resumed pack can have several digests of a part, in the order of its runs.
    files = {code["name"]: merge_file_digests(code) for code in state.codes}
    pack_code: dict[str, Code] = {}
    for pack in state.packs.values():
        digests: dict[str, dict[str, None]] = {}
        for code, environment in list_lasting_runs(state, pack):
            fields = state.environments[environment]
            parts = {key: str(value) for key, value in fields.items() if key == ENGINE or key.startswith(MODULE)}
            for key, digest in (parts | files.get(code or "", {})).items():
                digests.setdefault(key, {})[digest] = None

        # After several digests the pack is named, because two packs may have switched code at different steps.
        pack_code[pack.pack_id] = {
            key: " then ".join(several) + (f" (pack {pack.pack_id})" if len(several) > 1 else "")
            for key, several in digests.items()
        }
    return pack_code


def record_configurations(state: SweepState) -> dict[str, ConfigurationProvenance]:
    """Return the record of every configuration by config_id."""
    recorded = {}
    pack_code = read_pack_code(state)
    for config_id, configuration in state.configurations.items():
        # A configuration may have seeds in several packs; "" is an unknown structure, which equals no other.
        pack_by_seed = {seed: member.pack_id for seed, member in configuration.members.items()}
        packs = [state.packs[pack_id] for pack_id in pack_by_seed.values()]
        keys = {pack.structural_key for pack in packs} - {""}
        measured = state.measurements_by_digest[configuration.measurements_digest]
        recorded[config_id] = ConfigurationProvenance(
            resolved=add_defaults(configuration.resolved, list_program_defaults(packs)),
            structural_keys=frozenset(keys),
            code={seed: pack_code[pack_id] for seed, pack_id in pack_by_seed.items()},
            technical=tuple(measured.get("technical", ())),
            task_module=measured.get("task_module", ""),
        )
    return recorded


def find_differing_code(
    first: Mapping[int, Code], second: Mapping[int, Code]
) -> dict[str, tuple[str | None, str | None]]:
    """Return the parts of the code in which two configurations differ, with both digests.

    Common seeds are compared; without common seeds every seed is compared with every other. A part that only one
    configuration has is ignored, unless the other has a different part instead.
    """
    # Only the packs of a common seed are compared with each other by a paired test.
    common_seeds = sorted(first.keys() & second.keys())
    pairs = [(first[seed], second[seed]) for seed in common_seeds] or list(
        product(_find_distinct(first), _find_distinct(second))
    )

    # A part on one side only is a file that the other never imported; if each side has one, it was replaced.
    differing: dict[str, tuple[str | None, str | None]] = {}
    for code, other_code in pairs:
        is_replaced = code.keys() - other_code.keys() and other_code.keys() - code.keys()
        for key in list_differing_keys(code, other_code):
            if is_replaced or key == ENGINE or (key in code and key in other_code):
                differing.setdefault(key, (code.get(key), other_code.get(key)))
    return differing


def find_differing_environment(first: SweepState, second: SweepState) -> dict[str, tuple[str, str]]:
    """Return the keys in which environments of two sweeps differ, except code, with the values of each sweep.

    Empty if one of the sweeps records no environments.
    """
    # Old ledgers record no environments.
    groups = [PackEnvironments.from_state(state).groups for state in (first, second)]
    if not all(groups):
        return {}

    # Packs of a sweep may have run on several machines, so all their values are joined.
    first_values, second_values = map(_join_environment_values, groups)
    return {
        key: (first_values.get(key, "-"), second_values.get(key, "-"))
        for key in list_differing_keys(first_values, second_values)
    }


def _join_environment_values(groups: Iterable[PackGroup]) -> dict[str, str]:
    """Return the sorted distinct values of every key over all packs, joined to a text."""
    values: dict[str, set[str]] = {}
    for group in groups:
        for key, value in group.environment.items():
            if key != ENGINE and not key.startswith(MODULE):
                values.setdefault(key, set()).add(str(value))
    return {key: " and ".join(sorted(texts)) for key, texts in values.items()}


def _find_distinct(code: Mapping[int, Code]) -> Iterable[Code]:
    """Return the distinct codes of the seeds."""
    return {tuple(sorted(parts.items())): parts for parts in code.values()}.values()


def describe_code(code: Mapping[str, Any]) -> str:
    """Return a code record as a line: commits, changes, imported files, version of lengthwise."""
    parts = [_describe_folder(folder) for folder in code["folders"]]
    parts.append(f"lengthwise {code['version'] or ''} from {code['root']}".replace("  ", " "))
    return "; ".join(parts)


def _describe_folder(folder: Mapping[str, Any]) -> str:
    """Return the code of one folder as text: commit, root, diff, imported files, files that were not copied."""
    # The commit alone does not identify code with uncommitted changes.
    if folder["commit"]:
        changes = ", with uncommitted changes" if folder["diff"] or folder["problem"] else ", with untracked files"
        dirty = {True: changes, False: ", clean", None: ""}[folder["dirty"]]
        job_note = ", as sent with the job" if folder["source"] == "job" else ""
        sentence = f"commit {folder['commit'][:12]}{dirty}{job_note}"
    else:
        sentence = f"no commit ({folder['problem']})" if folder["problem"] else "no commit"
    sentence += f" in {folder['root']}"

    # Reproducing needs the kept copies, so files without one are named.
    if diff := folder["diff"]:
        sentence += f", diff in {diff['file']}" if diff["file"] else f", diff not kept ({diff['bytes']} bytes)"
    if folder["files"]:
        sentence += f", imported files: {join_first_few(list(folder['files']), maximum=8)}"
    if folder["not_copied"]:
        sentence += f", not copied (too large, or named like credentials): {join_first_few(folder['not_copied'])}"
    return sentence
