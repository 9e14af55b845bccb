"""The code, machine and versions with which a sweep was begun, and those with which its packs ran."""

import json

from orchestrator.code.code_record import copy_folder
from orchestrator.report.tables.columns import Cells, Section
from orchestrator.results.ran_under import code_sentence
from orchestrator.results.summary import Summary
from orchestrator.wording import counted, first_few

MOST_GROUPS = 6  # columns of the table of environments


def provenance_section(result: Summary) -> Section:
    """Return the machine and versions of the sweep's start, every record of its code, and its own modules."""
    facts = dict(result.provenance)
    versions = facts.pop("versions", {})
    texts = {key.replace("_", " "): one if isinstance(one, str) else json.dumps(one) for key, one in facts.items()}
    texts["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    texts |= {f"code {name}": code_sentence(code) for name, code in result.ran_under.codes.items()}
    for fields in result.code:
        where = "installed" if fields["installed"] else copy_folder(fields["sha256"])
        texts[f"module {fields['module']}"] = f"{first_few(list(fields['files']), most=8)} ({where})"
    return Section(heading="Provenance", cells={"what": list(texts), "value": list(texts.values())})


def environment_section(result: Summary) -> Section | None:
    """Return a column per group of packs that ran alike, the largest first; None without a record of them.

    Rows are the code and all keys of the environment, those that differ first.
    """
    groups, differing = result.ran_under.groups[:MOST_GROUPS], result.ran_under.differing
    if not groups:
        return None
    keys = [*differing, *(key for key in groups[0].environment if key not in differing)]
    cells: Cells = {"what": ["packs", "code", *(f"{key} (differs)" if key in differing else key for key in keys)]}
    for place, group in enumerate(groups, start=1):
        packs = f"{counted(len(group.packs), 'pack')}: {first_few(group.packs)}"
        cells[str(place)] = [packs, group.code or "-", *(str(group.environment.get(key, "-")) for key in keys)]
    more = len(result.ran_under.groups) - MOST_GROUPS
    notes = [f"{more} more groups of packs are in the ledger"] if more > 0 else []
    return Section(heading="Code and environment of packs", cells=cells, notes=[*result.ran_under.sentences, *notes])
