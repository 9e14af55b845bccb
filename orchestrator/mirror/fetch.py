"""Update the local copy of a sweep from its address: the ledger, curves, copies of code, and sweep.yaml."""

import shlex
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from orchestrator.addresses import find_address, is_address
from orchestrator.errors import DivergedLedger, NotASweep, StorageError
from orchestrator.mirror.driver_lock import read_driver
from orchestrator.record.ledger.folders import (
    LEDGER_FILE,
    LOCK_FILE,
    OWNER_FILE,
    find_default_storage,
    find_in_storage,
    has_ledger,
    resolve_folder,
)
from orchestrator.record.ledger.lock import ACQUIRE_SECONDS
from orchestrator.storage import ObjectStore
from trainers.errors import get_first_line
from trainers.files.atomic_file import write_atomic

LEDGERS = "ledger"


def find_sweep(sweep: str | Path) -> Path:
    """Return the folder of a sweep given by its folder, its address, or its name in the storage folder.

    A local copy is first updated from its address. Raises what `fetch_sweep` and `resolve_folder` raise, and NotASweep
    for an address without a sweep.
    """
    folder = resolve_folder(sweep)
    if len(folder.parts) == 1:
        fetch_sweep(find_default_storage() / folder)
    fetch_sweep(folder)
    if is_address(sweep) and not has_ledger(folder):
        storage = shlex.quote(str(find_address(folder.parent)))
        raise NotASweep(
            f"{find_address(folder)} is not a sweep: no ledger in it; to see its sweeps: lengthwise list "
            f"sweeps --storage {storage}"
        )
    return find_in_storage(sweep)


def fetch_sweep(folder: Path) -> None:
    """Update the local copy of a sweep from its address; does nothing for other folders, and while a driver uses it.

    Checkpoints and weights are not included (see `fetch_missing`). Raises StorageRefused, StorageError, and
    DivergedLedger if neither ledger is the beginning of the other.
    """
    if find_address(folder) is None:
        return
    store = ObjectStore.from_local_copy(folder)
    if not find_last_ledger(store):
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE, timeout=ACQUIRE_SECONDS)
    with suppress(Timeout), lock:  # a driver on this machine has newer files than the address
        driver = read_driver(store)  # read first: without a driver, the ledger that is read next is complete
        newer = read_newer_ledger(store, folder)

        # Files go before the records that name them, so that an interrupted update leaves a readable sweep.
        sizes = store.list_sizes()
        missing_names = [name for name in sizes if not (folder / name).exists()]
        names = [name for name in missing_names if name.startswith(("curves/", "code/"))]
        names += [name for name in (sizes if newer else missing_names) if "/" not in name and name.endswith(".yaml")]
        store.fetch(folder, names)
        if newer:
            write_atomic(folder / LEDGER_FILE, [newer])
        if driver:
            write_atomic(folder / OWNER_FILE, [driver.encode()])
        else:
            (folder / OWNER_FILE).unlink(missing_ok=True)


def make_ledger_name(number: int, content: bytes) -> str:
    """Return the name of a copied ledger: number of the driver, bytes, and checksum of the last line."""
    # The last line ends with the 16 hexadecimal digits of its checksum, a quote, a brace and a newline.
    checksum = content[-19:-3].decode(errors="replace")
    return f"{LEDGERS}/{number:06d}-{len(content):012d}-{checksum}.jsonl"


def parse_ledger_size(name: str) -> int:
    """Return the number of bytes in the name of a ledger; 0 for an empty name."""
    return int(name.split("-")[1]) if name else 0


def find_last_ledger(store: ObjectStore) -> str:
    """Return the name of the newest ledger that is complete, with the size in its name; "" if there is none."""
    sizes = store.list_sizes(LEDGERS)
    return max((name for name, size in sizes.items() if f"-{size:012d}-" in name), default="")


def read_newer_ledger(store: ObjectStore, folder: Path) -> bytes:
    """Return the ledger at an address if it has more records than the local one, else b"".

    Raises DivergedLedger if each has records that the other lacks.
    """
    path = folder / LEDGER_FILE
    name = find_last_ledger(store)
    content = path.read_bytes() if path.exists() else b""
    local = content[: content.rfind(b"\n") + 1]
    if not name or name.endswith(make_ledger_name(0, local).partition("-")[2]):  # unchanged
        return b""
    remote = store.read([name])[name]
    if not local.startswith(remote) and not remote.startswith(local):
        raise DivergedLedger(
            f"{folder} and {store.address} have different records; nothing was changed; to continue the sweep at the "
            f"address, move {folder} away and repeat the command"
        )
    return remote if len(remote) > len(local) else b""


def fetch_storage(storage: Path, *, strict: bool = True) -> list[str]:
    """Update the local copy of every sweep of a storage from its address; does nothing for a folder.

    Unless `strict`, sweeps that cannot be fetched are skipped, and a line about each is returned.
    """
    problems = []
    for name in ObjectStore.from_local_copy(storage).list_folders() if find_address(storage) is not None else ():
        try:
            fetch_sweep(storage / name)
        except (DivergedLedger, StorageError) as error:
            if strict:
                raise
            problems.append(f"{name}: cannot fetch: {get_first_line(error)}")
    return problems
