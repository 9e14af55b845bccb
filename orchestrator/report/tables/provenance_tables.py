"""Where a sweep came from, as tables: its code, machine and versions, and what packs ran under."""

import json

from orchestrator.report.tables.tables import Columns
from orchestrator.results.ran_under import Group, code_sentence
from orchestrator.results.summary import Summary
from orchestrator.wording import counted, first_few

GROUPS = 6  # columns of one table


def provenance_columns(result: Summary) -> Columns:
    """What was recorded when the sweep was begun, with every state of its code and the modules of its own."""
    facts = dict(result.provenance)
    versions = facts.pop("versions", {})
    texts = {
        key.replace("_", " "): value if isinstance(value, str) else json.dumps(value) for key, value in facts.items()
    }
    texts["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    texts |= {f"code {name}": code_sentence(state) for name, state in result.ran_under.states.items()}
    for fields in result.code:
        where = "installed" if fields["installed"] else f"code/{fields['sha256'][:12]}"
        texts[f"module {fields['module']}"] = f"{first_few(list(fields['files']), most=8)} ({where})"
    return {"what": list(texts), "value": list(texts.values())}


def ran_under_columns(result: Summary) -> Columns:
    """A column for each group of packs, the largest first; a row for the code and each key, differing ones in front."""
    groups = result.ran_under.groups[:GROUPS]
    if not groups:
        return {}
    differing = result.ran_under.differing
    keys = [*differing, *(key for key in groups[0].environment if key not in differing)]
    rows = ["packs", "code", *(f"{key} (differs)" if key in differing else key for key in keys)]
    return {"what": rows} | {
        f"{place}": [_packs(group), group.sources or "-", *(str(group.environment.get(key, "-")) for key in keys)]
        for place, group in enumerate(groups, start=1)
    }


def ran_under_notes(result: Summary) -> list[str]:
    """What stands above the table."""
    more = len(result.ran_under.groups) - GROUPS
    return [*result.ran_under.sentences, *([f"{more} more groups of packs are in the ledger"] if more > 0 else [])]


def _packs(group: Group) -> str:
    return f"{counted(len(group.packs), 'pack')}: {first_few(group.packs)}"
