"""The section on provenance: code, machine and versions of a sweep and of its packs."""

import json
from typing import Any

from orchestrator.code.code_record import name_copy_folder
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
    texts |= {f"code {name}": describe_code(code) for name, code in environments.codes.items()}
    for fields in summary.state.modules:
        where = "installed" if fields["installed"] else name_copy_folder(fields["sha256"])
        texts[f"module {fields['module']}"] = f"{join_first_few(list(fields['files']), maximum=8)} ({where})"

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
        notes.append(f"A {environments.noun} that was resumed or retried with other code is in each of its rows.")
    return Section(heading="Provenance", cells={"what": list(texts), "value": list(texts.values())}, notes=notes)


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
