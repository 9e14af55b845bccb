"""A damaged ledger made readable again: what comes after the last good record is cut off, and nothing is thrown away.

Two drivers that did not see each other's lock, a broken disk or an editor leave lines that no replay can take.
"""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import DamagedLedger, LedgerError
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.record.ledger.records import LEDGER_FILE, Record, decode, ledger_bytes, parsed
from orchestrator.record.state.state import SweepState
from orchestrator.wording import command, counted, spans
from trainers.files.atomic_file import write_atomic


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """What was found and done: the records that are left, the file with the damage, and every record that is lost.

    `kept` and `damage` are None for a ledger that was sound. `unreadable` lines have no record.
    """

    folder: Path
    records: int
    damage: str | None = None
    kept: Path | None = None
    lost: tuple[Record, ...] = ()
    unreadable: int = 0

    def sentences(self) -> list[str]:
        """Return the repair in sentences for the user."""
        if self.kept is None:
            return [f"{self.folder / LEDGER_FILE} is sound: {counted(self.records, 'record')}; nothing was changed"]
        said = [
            f"{self.damage}",
            f"the damaged file is kept as {self.kept}; {counted(self.records, 'good record')} before it stay",
            f"lost: {self._by_kind()}",
        ]
        if packs := sorted({str(one.fields["pack_id"]) for one in self.lost if "pack_id" in one.fields}):
            said.append(f"packs concerned: {', '.join(packs)}")
        numbers = {one.fields.get("number") for one in self.lost if one.kind in ("configuration", "score")}
        if configurations := [number for number in numbers if isinstance(number, int)]:
            said.append(f"configurations concerned: {spans(configurations)}")
        return [*said, f"lost work is repeated by: {command('resume', self.folder)}"]

    def _by_kind(self) -> str:
        kinds = Counter(one.kind for one in self.lost)
        said = [f"{counted(number, 'record')} of kind {kind}" for kind, number in kinds.items()]
        said += [f"{counted(self.unreadable, 'line')} that cannot be read"] if self.unreadable else []
        return ", ".join(said) or "nothing but part of a line"


def repair(folder: Path) -> Repaired:
    """Cut the ledger in `folder` after its last good record; the damaged file is kept beside it, under a new name.

    A sound ledger is left as it is, also one with a torn last line, which `resume` drops. Raises NotASweep,
    SweepLocked, NewerLedger, and LedgerError where not even the first record is good or nothing can be written.
    """
    folder = Path(folder)
    path = folder / LEDGER_FILE
    ledger_bytes(folder)  # a folder without a ledger is left without a lock
    lock = SweepLock(folder)
    lock.acquire()
    try:
        content = ledger_bytes(folder)
        good, damage = _split_at_damage(path, content)
        records = parsed(path, good)[0]
        if damage is None:
            return Repaired(folder=folder, records=len(records))
        kept = _keep_aside(path, content)
        try:
            write_atomic(path, [good])
        except OSError as error:
            raise LedgerError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        lock.release()
    lost, unreadable = _lost_records(content[len(good) :])
    return Repaired(
        folder=folder, records=len(records), damage=damage, kept=kept, lost=tuple(lost), unreadable=unreadable
    )


def _split_at_damage(path: Path, content: bytes) -> tuple[bytes, str | None]:
    """Return the lines before the first damage, and the damage in words; all lines and None for a sound ledger."""
    good, damage = content, None
    while True:
        try:
            SweepState.replay(path.parent, parsed(path, good)[0])
            return good, damage
        except DamagedLedger as error:
            if error.line == 1:
                raise LedgerError(f"{error}\neven its first record is damaged, so it cannot be repaired") from None
            damage = str(error)
            good = b"".join(line + b"\n" for line in content.split(b"\n")[: error.line - 1])


def _keep_aside(path: Path, content: bytes) -> Path:
    """Write the damaged ledger to a file that was not there, and on disk before anything is cut."""
    number = 1
    while True:
        kept = path.with_name(f"{path.name}.damaged-{number}")
        try:
            descriptor = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            raise LedgerError(f"{kept}: cannot be written: {error.strerror}") from error
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            kept.unlink(missing_ok=True)
            raise LedgerError(f"{kept}: cannot be written: {error.strerror}") from error
        return kept


def _lost_records(rest: bytes) -> tuple[list[Record], int]:
    """Return the records among the lines that were cut off, and the number of lines that are no record."""
    found: list[Record] = []
    unreadable = 0
    for line in rest.split(b"\n"):
        if line:
            try:
                found.append(decode(line))
            except ValueError:
                unreadable += 1
    return found, unreadable
