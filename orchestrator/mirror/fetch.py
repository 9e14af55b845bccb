"""Update the local copy of a sweep from its address: the ledger, the curves, the copies of code, sweep.yaml."""

import shlex
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from orchestrator.addresses import address_of, is_address
from orchestrator.errors import DeletedSweep, DivergedLedger, NotASweep, StorageError
from orchestrator.mirror.lease import read_remote_owner
from orchestrator.record.ledger.folders import (
    LEDGER_FILE,
    LOCK_FILE,
    OWNER_FILE,
    default_storage,
    find_in_storage,
    has_ledger,
    resolve_place,
)
from orchestrator.record.ledger.lock import PATIENCE_SECONDS
from orchestrator.storage import Store
from trainers.files.atomic_file import write_atomic

SEGMENTS = "ledger"
SEEN_FILE = ".mirror-seen"  # in a local copy whose sweep was at its address


def find_sweep(named: str | Path) -> Path:
    """Return the folder of a sweep that is given by its folder, its address, or its name in the storage folder.

    A local copy is first updated from its address. Raises what `fetch_sweep` and `resolve_place` raise, NotASweep
    for an address without a sweep, and DeletedSweep unless the folder itself is given.
    """
    folder = resolve_place(named)
    if len(folder.parts) == 1:
        fetch_sweep(default_storage() / folder)
    fetch_sweep(folder)
    if is_address(named) and not has_ledger(folder):
        address = str(address_of(folder))
        if address.startswith("file://") and has_ledger(Path(here := address.removeprefix("file://"))):
            raise NotASweep(f"{address} was written as a folder; give it as one: {here}")
        raise NotASweep(f"{address} holds no sweep: there is no ledger below it; {_suggest_command(folder, address)}")
    found = find_in_storage(named)
    if found != Path(named):
        refuse_deleted(found)
    return found


def _suggest_command(folder: Path, address: str) -> str:
    """Return what to do where an address has no ledger: its driver may have died before it could copy one."""
    storage, _, name = address.rpartition("/")
    if not Store(address).sizes():
        return f"lengthwise list sweeps --storage {shlex.quote(storage)} shows those that are there"
    return (
        f"a driver began it and copied no record: resume it on its machine, if {folder} is there, or begin it with: "
        f"lengthwise run FILE --storage {shlex.quote(storage)} --name {shlex.quote(name)}"
    )


def fetch_sweep(folder: Path) -> None:
    """Update the local copy of a sweep from its address; does nothing for other folders, and while a driver uses it.

    Checkpoints and weights are left to those who need them (`fetch_missing`). Raises StorageRefused, StorageError, and
    DivergedLedger if the local ledger is not the beginning of the one at the address, or the other way round.
    """
    if address_of(folder) is None:
        return
    store = Store.for_copy(folder)
    sizes = store.sizes()
    if not any(name.startswith(f"{SEGMENTS}/") for name in sizes):
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE, timeout=PATIENCE_SECONDS)
    with suppress(Timeout), lock:  # a driver that runs here has more than its mirror
        owner = read_remote_owner(store)  # before the records: an owner that has ended has written all of them
        path = folder / LEDGER_FILE
        content = path.read_bytes() if path.exists() else b""
        more = missing_records(store, folder, content)
        lacking = [name for name in sizes if not (folder / name).exists()]
        files = [name for name in lacking if name.startswith(("curves/", "code/"))]
        files += [name for name in (sizes if more else lacking) if "/" not in name and name.endswith(".yaml")]
        store.fetch(folder, files)
        (folder / SEEN_FILE).touch()
        if more:
            write_atomic(path, [content[: content.rfind(b"\n") + 1] + more])
        if owner:
            write_atomic(folder / OWNER_FILE, [owner])
        else:
            (folder / OWNER_FILE).unlink(missing_ok=True)


def was_deleted(folder: Path) -> bool:
    """Whether a folder is the local copy of a sweep that was deleted at its address."""
    is_copy = address_of(folder) is not None and (folder / SEEN_FILE).exists()
    return is_copy and not Store.for_copy(folder).sizes(SEGMENTS)


def refuse_deleted(folder: Path) -> None:
    """Raise DeletedSweep where a local copy is left of a sweep that was deleted at its address."""
    if not was_deleted(folder):
        return
    raise DeletedSweep(
        f"{address_of(folder)} no longer holds a sweep: another machine deleted it. Its copy {folder} is "
        f"left as it was: lengthwise report {shlex.quote(str(folder))} reads it, "
        f"lengthwise delete {shlex.quote(str(folder))} deletes it; to continue it, move that "
        "folder to another place and resume it there"
    )


def fetch_storage(storage: Path, *, strict: bool = True) -> list[str]:
    """Update the local copy of every sweep of a storage from its address; does nothing for a folder.

    Unless `strict`, a sweep that cannot be fetched is left as it is, and a line about it is returned.
    """
    problems = []
    for name in Store.for_copy(storage).folders() if address_of(storage) is not None else ():
        try:
            fetch_sweep(storage / name)
        except (DivergedLedger, StorageError) as error:
            if strict:
                raise
            problems.append(f"{name}: cannot be fetched: {str(error).splitlines()[0]}")
    return problems


def missing_records(store: Store, folder: Path, content: bytes) -> bytes:
    """Return the lines of the ledger at an address that a local one, without a torn last line, lacks.

    Only the last segment that both have is compared: records contain their times, so ledgers that were continued apart
    differ there. Raises DivergedLedger, and StorageError where a segment is missing.
    """
    have, ends = content.rfind(b"\n") + 1, {name: _first_byte(name) + size for name, size in _segments(store).items()}
    read = [name for name, end in ends.items() if end >= have] or list(ends)[-1:]
    there = b"".join(store.read(read).values())
    start = _first_byte(read[0]) if read else 0
    common = min(have - start, len(there))
    if content[start : start + common] != there[:common]:
        raise DivergedLedger(
            f"{folder} is a copy of {store.address}, and both have records that the other lacks, because the sweep was "
            "continued elsewhere before this copy was complete there. Nothing was changed. To continue what is at the "
            f"address, move {folder} away and repeat the command"
        )
    return there[common:]


def _segments(store: Store) -> dict[str, int]:
    segments, end = store.sizes(SEGMENTS), 0
    for name, size in segments.items():
        if _first_byte(name) != end:
            raise StorageError(f"{store.address}/{name}: the segment before it is missing")
        end += size
    return segments


def _first_byte(name: str) -> int:
    return int(Path(name).stem)
