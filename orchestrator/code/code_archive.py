"""Code that no commit holds: one file of the sweep folder, `code/sources-<start of its hash>.tar.gz`, up to 1 MiB."""

import gzip
import hashlib
import io
import tarfile
import zlib
from pathlib import Path
from typing import Any

from orchestrator.code.work_tree import looks_secret
from orchestrator.errors import LedgerError
from trainers.files.atomic_file import write_whole

CODE_FOLDER = "code"
LIMIT = 2**20  # compressed bytes


class CodeArchive:
    """Files by name, as long as there is room; what has none, or looks like credentials, is named in `left_out`."""

    def __init__(self) -> None:
        self.left_out: list[dict[str, Any]] = []
        self._files: dict[str, bytes] = {}
        self._room = LIMIT
        self._packed: bytes | None = None

    def put(self, name: str, content: bytes) -> None:
        """Keep a file, if it can be."""
        size = len(zlib.compress(content, 6)) + 64  # a little more than it will take
        if looks_secret(name):
            self.leave_out(name, len(content), "its name is that of a file with credentials")
        elif size > self._room:
            self.leave_out(name, len(content), f"there is room for {LIMIT / 2**20:g} MiB")
        else:
            self._room -= size
            self._files[name] = content

    def leave_out(self, name: str, size: int, why: str) -> None:
        """Say that a file of `size` bytes is not kept."""
        self.left_out.append({"file": name, "bytes": size, "why": why})

    def recorded(self) -> dict[str, Any] | None:
        """What the ledger is told: path below the sweep folder, SHA-256, bytes and number of files; None when empty."""
        if not self._files:
            return None
        self._packed = packed = self._packed or self._pack()
        sha256 = hashlib.sha256(packed).hexdigest()
        file = f"{CODE_FOLDER}/sources-{sha256[:12]}.tar.gz"
        return {"file": file, "sha256": sha256, "bytes": len(packed), "files": len(self._files)}

    def keep(self, folder: Path) -> None:
        """Write it into the sweep folder, unless it is there. Raises LedgerError when it cannot be written."""
        where = self.recorded()
        if where is None or self._packed is None:
            return
        target = folder / where["file"]
        try:
            if not target.exists():
                target.parent.mkdir(exist_ok=True)
                write_whole(target, [self._packed])
        except OSError as error:
            raise LedgerError(f"{target}: cannot be written: {error.strerror}") from error

    def _pack(self) -> bytes:
        """The same bytes for the same files."""
        packed = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name, content in sorted(self._files.items()):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        return packed.getvalue()
