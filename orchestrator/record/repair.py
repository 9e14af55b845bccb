"""A damaged ledger made readable again: what comes after the last good record is cut off, and nothing is thrown away.

Two drivers that did not see each other's lock, a broken disk or an editor leave lines that no replay can take. A record
is also damaged if the curves that it names are: what is cut off is trained again.
"""

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from orchestrator.errors import DamagedLedger, LedgerError, refuse_unwritable
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.record.ledger.records import LEDGER_FILE, Record, decode, ledger_bytes, parsed
from orchestrator.record.state.state import SweepState
from orchestrator.wording import command, counted, spans
from trainers.files.atomic_file import write_atomic


def repair(folder: Path) -> list[str]:
    """Cut the ledger in `folder` after its last good record; return what was found and done, in sentences.

    The damaged file is kept beside it, under a new name. A sound ledger is left as it is, also one with a torn last
    line, which `resume` drops. Raises NotASweep, SweepLocked, NewerLedger, DamagedLedger where not even the first
    record is good, and LedgerError where nothing can be written.
    """
    path = folder / LEDGER_FILE
    ledger_bytes(folder)  # a folder without a ledger is left without a lock
    with SweepLock(folder):
        content = ledger_bytes(folder)
        good, damage = _split_at_damage(path, content)
        records = parsed(path, good)[0]
        if damage is None:
            return [f"{path} is sound, and so are its curves: {counted(len(records), 'record')}; nothing was changed"]
        names = (path.with_name(f"{path.name}.damaged-{number}") for number in itertools.count(1))
        kept = next(name for name in names if not os.path.lexists(name))
        for target, text in ((kept, content), (path, good)):  # the damaged one is on disk before anything is cut
            with refuse_unwritable(target, LedgerError):
                write_atomic(target, [text])
    stay = f"the damaged file is kept as {kept}; {counted(len(records), 'good record')} before it stay"
    return [
        damage,
        stay,
        *_describe_loss(content[len(good) :]),
        f"lost work is repeated by: {command('resume', folder)}",
    ]


def _split_at_damage(path: Path, content: bytes) -> tuple[bytes, str | None]:
    """Return the lines before the first damage, and the damage in words; all lines and None for a sound ledger."""
    good, damage = content, None
    while True:
        try:
            records = parsed(path, good)[0]
            SweepState.replay(path.parent, records)
            _refuse_damaged_curves(path, records)
            return good, damage
        except DamagedLedger as error:
            if error.line == 1:
                raise
            damage = f"{path}:{error.line}: {error.problem}"
            good = b"".join(line + b"\n" for line in content.split(b"\n")[: error.line - 1])


def _refuse_damaged_curves(path: Path, records: Sequence[Record]) -> None:
    """Raise DamagedLedger at the first record whose curves are missing or differ from their checksum."""
    for line, record in enumerate(records, 1):
        if record.kind in ("evaluation", "later_evaluation"):
            part = path.parent / record.fields["file"]
            if not part.is_file() or hashlib.sha256(part.read_bytes()).hexdigest() != record.fields["sha256"]:
                raise DamagedLedger(path, line, f"the curves that it names are missing or damaged: {part}")


def _describe_loss(rest: bytes) -> list[str]:
    """Return what was in the lines that were cut off: records by kind, their packs and configurations."""
    lost: list[Record] = []
    unreadable = 0
    for line in filter(None, rest.split(b"\n")):
        try:
            lost.append(decode(line))
        except ValueError:
            unreadable += 1
    kinds = [
        f"{counted(number, 'record')} of kind {kind}" for kind, number in Counter(one.kind for one in lost).items()
    ]
    kinds += [f"{counted(unreadable, 'line')} that cannot be read"] if unreadable else []
    said = [f"lost: {', '.join(kinds) or 'nothing but part of a line'}"]
    if packs := sorted({str(one.fields["pack_id"]) for one in lost if "pack_id" in one.fields}):
        said.append(f"packs concerned: {', '.join(packs)}")
    numbers = {one.fields.get("number") for one in lost if one.kind in ("configuration", "score")}
    if configurations := [number for number in numbers if isinstance(number, int)]:
        said.append(f"configurations concerned: {spans(configurations)}")
    return said
