"""Provenance tables: code, machine and versions of a sweep, and the environments of its packs."""

import json

from orchestrator.code.code_record import copy_folder
from orchestrator.report.tables.tables import Columns
from orchestrator.results.ran_under import Group, code_sentence
from orchestrator.results.summary import Summary
from orchestrator.wording import counted, first_few

GROUPS = 6  # columns of one table


def provenance_columns(result: Summary) -> Columns:
    """Return the machine and versions of the sweep's start, every record of its code and its own modules."""
    facts = dict(result.provenance)
    versions = facts.pop("versions", {})
    texts = {
        key.replace("_", " "): value if isinstance(value, str) else json.dumps(value) for key, value in facts.items()
    }
    texts["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    texts |= {f"code {name}": code_sentence(code) for name, code in result.ran_under.codes.items()}
    for fields in result.code:
        where = "installed" if fields["installed"] else copy_folder(fields["sha256"])
        texts[f"module {fields['module']}"] = f"{first_few(list(fields['files']), most=8)} ({where})"
    return {"what": list(texts), "value": list(texts.values())}


def ran_under_columns(result: Summary) -> Columns:
    """Return a column per group of packs, the largest first; rows are the code and all keys, differing ones first."""
    groups = result.ran_under.groups[:GROUPS]
    if not groups:
        return {}
    differing = result.ran_under.differing
    keys = [*differing, *(key for key in groups[0].environment if key not in differing)]
    rows = ["packs", "code", *(f"{key} (differs)" if key in differing else key for key in keys)]
    return {"what": rows} | {
        f"{place}": [_packs(group), group.code or "-", *(str(group.environment.get(key, "-")) for key in keys)]
        for place, group in enumerate(groups, start=1)
    }


def ran_under_notes(result: Summary) -> list[str]:
    """Return the notes above the table of environments."""
    more = len(result.ran_under.groups) - GROUPS
    return [*result.ran_under.sentences, *([f"{more} more groups of packs are in the ledger"] if more > 0 else [])]


def _packs(group: Group) -> str:
    return f"{counted(len(group.packs), 'pack')}: {first_few(group.packs)}"
