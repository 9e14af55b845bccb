"""The section on provenance: code, machine and versions of a sweep and of its packs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.code.code_record import name_copy_folder
from orchestrator.code.user_code import DATA, PROGRAM
from orchestrator.record.state.state import SweepState
from orchestrator.report.tables.columns import Section
from orchestrator.results.pack_environments import PackEnvironments, PackGroup, describe_code
from orchestrator.results.pack_seeds import name_pack_seeds
from orchestrator.results.program_defaults import describe_defaults, list_program_defaults
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_count, join_first_few

MAX_GROUPS = 6  # shown groups of packs
MAX_NAMED = 3  # packs of a group, and configurations of a pack


def make_provenance_section(summary: Summary) -> Section:
    """Return the section with machine and versions, code records, user modules, and environments of packs."""
    # Facts of a driver are recorded by name, so a fact that a later version adds is shown, too.
    environments = PackEnvironments.from_state(summary.state)
    facts = dict(summary.state.provenance)
    versions = facts.pop("versions", {})
    texts = {key.replace("_", " "): _format_fact(fact) for key, fact in facts.items()}
    texts["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    texts |= _describe_codes(environments)
    copies = _list_copies(summary.state, environments)
    for copy in copies:
        where = "installed" if copy.fields["installed"] else name_copy_folder(copy.fields["sha256"])
        texts[_name_copy(copy, copies)] = f"{join_first_few(list(copy.fields['files']), maximum=8)} ({where})"

    # A script may change between packs, so its defaults belong to packs, not to the sweep.
    if defaults := list_program_defaults(summary.state.packs.values()):
        texts["defaults of the program"] = describe_defaults(defaults)

    # Packs with the same environment share a row; a large cluster could have a group for every node.
    groups, differing = environments.groups, environments.differing
    for group in groups[:MAX_GROUPS]:
        packs = [
            f"{pack_id} ({name_pack_seeds(summary.state, [pack_id], MAX_NAMED)})" for pack_id in group.packs[:MAX_NAMED]
        ] + list(group.packs[MAX_NAMED:])
        count = format_count(len(packs), environments.noun)
        texts[f"{count}: {join_first_few(packs, MAX_NAMED)}"] = _describe_group(group, differing)
    hidden = len(groups) - MAX_GROUPS
    notes = [f"{hidden} more groups of {environments.noun}s are in the ledger."] if hidden > 0 else []
    if sum(len(group.packs) for group in groups) > len({pack_id for group in groups for pack_id in group.packs}):
        notes.append(f"A {environments.noun} that was resumed with other code is in each of its rows.")
    return Section(heading="Provenance", cells={"what": list(texts), "value": list(texts.values())}, notes=notes)


@dataclass(frozen=True, kw_only=True)
class _Copy:
    """A copy of a module or program as code records have it, and the number of seeds that it trained."""

    fields: Mapping[str, Any]
    seeds: int


def _describe_codes(environments: PackEnvironments) -> dict[str, str]:
    """Return the rows of the code records that trained packs, of all where the packs are not known.

    Records with the same text share a row: they differ in modules, which have rows of their own.
    """
    trained = {group.code for group in environments.groups}
    names_by_text: dict[str, list[str]] = {}
    for name, code in environments.codes.items():
        if name in trained or trained.isdisjoint(environments.codes):
            names_by_text.setdefault(describe_code(code), []).append(name)
    return {f"code {', '.join(names)}": text for text, names in names_by_text.items()}


def _list_copies(state: SweepState, environments: PackEnvironments) -> list[_Copy]:
    """Return the copies of modules that trained packs in the order of their records; of the latest if none is known."""
    # A pack may have run with several records that have the same copy.
    packs_by_code: dict[str | None, set[str]] = {}
    for group in environments.groups:
        packs_by_code.setdefault(group.code, set()).update(group.packs)
    fields_by_copy = dict[tuple[str, str], Mapping[str, Any]]()
    packs_by_copy: dict[tuple[str, str], set[str]] = {}
    for name, code in environments.codes.items():
        for fields in code["modules"] if name in packs_by_code else ():
            copy = (fields["module"], fields["sha256"])
            fields_by_copy[copy] = fields
            packs_by_copy.setdefault(copy, set()).update(packs_by_code[name])
    if not fields_by_copy:
        return [_Copy(fields=fields, seeds=0) for fields in state.modules]
    return [
        _Copy(fields=fields, seeds=sum(len(state.packs[pack_id].members) for pack_id in packs_by_copy[copy]))
        for copy, fields in fields_by_copy.items()
    ]


def _name_copy(copy: _Copy, copies: Sequence[_Copy]) -> str:
    """Return the label of a copy: "program", or "program of 44 seeds" if other seeds have another copy of it."""
    module = copy.fields["module"]
    name = module.strip("()") if module in (PROGRAM, DATA) else f"module {module}"
    is_alone = sum(other.fields["module"] == module for other in copies) == 1
    return name if is_alone else f"{name} of {format_count(copy.seeds, 'seed')} ({copy.fields['sha256'][:12]})"


def _format_fact(fact: Any) -> str:
    """Return a recorded fact as text: ["NVIDIA H200"] -> "NVIDIA H200", [] -> "none"; other values as JSON."""
    if isinstance(fact, list) and all(isinstance(item, str) for item in fact):
        return ", ".join(fact) or "none"
    return fact if isinstance(fact, str) else json.dumps(fact)


def _describe_group(group: PackGroup, differing: list[str]) -> str:
    """Return code and environment of a group of packs as text."""
    values = {f"{key} (differs)": group.environment.get(key, "-") for key in differing}
    values |= {key: value for key, value in group.environment.items() if key not in differing}
    return "; ".join(f"{key} {value}" for key, value in {"code": group.code or "-", **values}.items())
