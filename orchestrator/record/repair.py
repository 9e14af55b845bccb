"""Repair a damaged ledger: cut it after the last good record, and keep the damaged file.

Two drivers that did not see each other's lock, a broken disk or an editor leave lines that cannot be replayed. If only
curves are damaged, the records that depend on them are removed, and `resume` trains their packs again.
"""

import hashlib
import itertools
import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.addresses import find_address
from orchestrator.errors import DamagedLedger, LedgerError, convert_write_errors
from orchestrator.record.files.curves import make_damage_error
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.record.ledger.records import (
    Record,
    decode_record,
    encode_record,
    parse_records,
    read_ledger_bytes,
)
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_command, format_count, format_ranges
from trainers.files.atomic_file import write_atomic

KINDS_WITH_CURVES = ("evaluation", "later_evaluation")
MAX_SHOWN_RECORDS = 3  # of those with damaged curves


def repair_ledger(folder: Path) -> list[str]:
    """Cut the ledger in `folder` after its last good record, and drop records that need damaged curves.

    Returns sentences about the damage and the repair. The damaged file is kept in the same folder, under a new name. A
    sound ledger is not changed, even if its last line is torn; `resume` drops that line. Raises NotASweep, SweepLocked,
    NewerLedger, DamagedLedger if even the first record is damaged, DamagedCurves for a sweep at an address, and
    LedgerError if nothing can be written.
    """
    # Hold the lock, so that no driver writes meanwhile; records count as damaged if their curves are.
    path = folder / LEDGER_FILE
    read_ledger_bytes(folder)  # raises for a folder without a ledger, before a lock file is made in it
    with SweepLock(folder):
        content = read_ledger_bytes(folder)
        intact, damage = _split_at_damage(path, content)
        records = parse_records(path, intact)[0]
        damaged_records = [
            record for record in records if record.kind in KINDS_WITH_CURVES and not _has_sound_curves(folder, record)
        ]
        if damaged_records and find_address(folder):  # the ledger at the address is never rewritten
            raise make_damage_error(folder / damaged_records[0].fields["file"], "is missing or damaged")
        if damage is None and not damaged_records:
            return [
                f"{path} is sound ({format_count(len(records), 'record')}), and so are the curves; nothing was changed"
            ]

        # Drop only the records that need damaged curves, unless the kept records contradict each other without them.
        kept_records, lost_records = _split_by_dependence(SweepState.replay(folder, records), records, damaged_records)
        try:
            SweepState.replay(folder, kept_records)
        except DamagedLedger:  # cut before the first of them
            kept_records = records[: damaged_records[0].seq]
            lost_records = records[damaged_records[0].seq :]

        # The damaged file is saved before anything is cut, so that nothing is lost if the repair is interrupted.
        names = (path.with_name(f"{path.name}.damaged-{number}") for number in itertools.count(1))
        backup = next(name for name in names if not os.path.lexists(name))
        repaired = b"".join(map(encode_record, kept_records)) if lost_records else intact
        for target, written in ((backup, content), (path, repaired)):
            with convert_write_errors(target, LedgerError):
                write_atomic(target, [written])

    # Tell the user what was damaged, what was saved, and the commands that repeat the lost work.
    sentences = [damage] if damage else []
    sentences += [
        f"{path}:{record.seq + 1}: curves missing or damaged: {folder / record.fields['file']}"
        for record in damaged_records[:MAX_SHOWN_RECORDS]
    ]
    if (hidden := len(damaged_records) - MAX_SHOWN_RECORDS) > 0:
        sentences.append(f"... and the curves of {format_count(hidden, 'more record')}")
    sentences.append(f"damaged file saved as {backup}; {format_count(len(kept_records), 'good record')} kept")
    sentences += _describe_loss(lost_records, content[len(intact) :])
    if any(record.kind == "later_evaluation" for record in lost_records):
        sentences.append(f"to repeat later evaluations: {format_command('evaluate', folder)} CONFIGURATION...")
    if damage or any(record.kind == "evaluation" for record in damaged_records):
        sentences.append(f"to repeat lost work: {format_command('resume', folder)}")
    return sentences


def _split_at_damage(path: Path, content: bytes) -> tuple[bytes, str | None]:
    """Return the lines before the first damage and a description of it; all lines and None for a sound ledger."""
    intact, damage = content, None
    while True:
        try:
            SweepState.replay(path.parent, parse_records(path, intact)[0])
            return intact, damage
        except DamagedLedger as error:
            if error.line == 1:
                raise
            damage = f"{path}:{error.line}: {error.problem}"
            intact = b"".join(line + b"\n" for line in content.split(b"\n")[: error.line - 1])


def _has_sound_curves(folder: Path, record: Record) -> bool:
    """Return whether the curves of a record have the recorded checksum."""
    if "file" not in record.fields:  # curves inside the record, which has a checksum
        return True
    path = folder / record.fields["file"]
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == record.fields["sha256"]


def _split_by_dependence(
    state: SweepState, records: Sequence[Record], damaged: Sequence[Record]
) -> tuple[list[Record], list[Record]]:
    """Return the records that do not depend on damaged records, numbered anew, and the records that do.

    The later curves of a pack, its end, the scores of its configurations and the end of the sweep depend on its curves.
    """
    # A pack is trained again from its first damaged step, so everything after that step is dropped, too.
    first_steps: dict[str, int] = {}
    damaged_seqs = {record.seq for record in damaged}
    for record in damaged:
        if record.kind == "evaluation":
            pack_id, step = record.fields["pack_id"], record.fields["step"]
            first_steps[pack_id] = min(step, first_steps.get(pack_id, step))
    scored_ids = {
        config_id for pack_id in first_steps if pack_id in state.packs for config_id, _ in state.packs[pack_id].members
    }

    # An environment that only a lost record describes in full moves to the next kept record.
    kept_records, lost_records = list[Record](), list[Record]()
    lost_environments: dict[str, Any] = {}
    for record in records:
        fields = record.fields
        is_lost = record.seq in damaged_seqs or {
            "evaluation": fields.get("step", 0) >= first_steps.get(fields.get("pack_id", ""), math.inf),
            "pack_end": fields.get("pack_id") in first_steps,
            "score": fields.get("config_id") in scored_ids,
            "end": bool(first_steps),
        }.get(record.kind, False)
        full_environments = lost_environments | fields.get("environment_in_full", {})
        if is_lost:
            lost_records.append(record)
            lost_environments = full_environments
            continue
        if full_environments and record.kind in ("evaluation", "attempt"):
            fields = fields | {"environment_in_full": full_environments}
            lost_environments = {}
        kept_records.append(Record(len(kept_records), record.time, record.kind, fields))
    return kept_records, lost_records


def _describe_loss(dropped: Sequence[Record], cut_lines: bytes) -> list[str]:
    """Return sentences with the number of lost records by kind, and with their packs and configurations."""
    # Lines after the first damage may still be readable: they tell which training has to be repeated.
    lost_records, unreadable = list(dropped), 0
    for line in filter(None, cut_lines.split(b"\n")):
        try:
            lost_records.append(decode_record(line))
        except ValueError:
            unreadable += 1

    kinds = [
        f"{format_count(number, 'record')} of kind {kind}"
        for kind, number in Counter(record.kind for record in lost_records).items()
    ]
    kinds += [f"{format_count(unreadable, 'unreadable line')}"] if unreadable else []
    sentences = [f"lost: {', '.join(kinds) or 'only part of a line'}"]
    if packs := sorted({str(record.fields["pack_id"]) for record in lost_records if "pack_id" in record.fields}):
        sentences.append(f"affected packs: {', '.join(packs)}")
    numbers = {record.fields.get("number") for record in lost_records if record.kind in ("configuration", "score")}
    if configurations := [number for number in numbers if isinstance(number, int)]:
        sentences.append(f"affected configurations: {format_ranges(configurations)}")
    return sentences
