"""What git says of a working folder: its commit, and what has been changed since; read beside other work.

A job has no `.git`: Ray leaves it out of what it uploads. Whoever submits it may send the same facts along in the
variable LENGTHWISE_CODE (`for_job`), and they are then those of the job's own folder.
"""

import base64
import binascii
import fnmatch
import hashlib
import json
import os
import re
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

VARIABLE = "LENGTHWISE_CODE"
SECONDS = 20.0  # that git may take for one answer
MOST_OF_A_DIFF = 8 * 2**20  # bytes that are held in memory; of a larger one only hash and size are known
MOST_IN_A_JOB = 48 * 2**10  # bytes of base 85 in a variable, of the 128 KiB that Linux allows one
CREDENTIALS = (
    *("*.pem", "*.key", "*.p12", "*.env", ".env*", ".netrc", ".npmrc", ".pypirc", "id_rsa*", "id_ed25519*"),
    *("*credential*", "secrets.*", "*_secrets.*", "*.token", "auth_token*", "password*", "passwd*"),
)


@dataclass(frozen=True, kw_only=True)
class WorkTree:
    """A folder and what is known of it; everything None in one without a repository, and `why` says what git said.

    `dirty` counts untracked files too. `diff` is that of tracked files against the commit, without files whose names
    look like credentials; None when it is too large. `tracked` and `modified` are paths below `root`, None where git
    was not asked. `by` is who told it: git, or the submission of a job.
    """

    root: Path
    commit: str | None = None
    dirty: bool | None = None
    diff: bytes | None = None
    diff_sha256: str | None = None
    diff_bytes: int = 0
    tracked: frozenset[str] | None = None
    modified: frozenset[str] | None = None
    by: str | None = None
    why: str | None = None


def looks_secret(name: str) -> bool:
    """Whether the last part of a path is the name of a file that credentials are kept in."""
    last = name.rpartition("/")[2].lower()
    return any(fnmatch.fnmatchcase(last, pattern) for pattern in CREDENTIALS)


def top_of(folder: Path) -> Path | None:
    """The folder whose work tree `folder` lies in, itself or one above; None outside a repository."""
    folder = folder.resolve()
    return next((path for path in (folder, *folder.parents) if (path / ".git").exists()), None)


class WorkTrees:
    """Work trees, each read once. Reading begins at once, in threads: git takes tens of milliseconds.

    On leaving it as a context no thread is left, and no git.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._reading: dict[Path, Future[WorkTree]] = {}
        self._gits: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="lengthwise-git")
        self.add(folders)

    def add(self, folders: Iterable[Path]) -> None:
        """Have these folders read as well."""
        for folder in folders:
            root = top_of(folder) or folder.resolve()
            if root not in self._reading:
                self._reading[root] = self._threads.submit(read, root, self._gits)

    def read(self) -> list[WorkTree]:
        """All of them in the order they were asked for, without those that lie in another and have no repository."""
        found = [future.result() for future in self._reading.values()]
        self._threads.shutdown()
        roots = [tree.root for tree in found]
        return [tree for tree in found if tree.by or not any(root in tree.root.parents for root in roots)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        while not all(reading.done() for reading in self._reading.values()):
            for process in list(self._gits):
                process.kill()  # without effect on one that has ended
            time.sleep(0.01)
        self._threads.shutdown()


def read(root: Path, gits: list[subprocess.Popen[bytes]] | None = None) -> WorkTree:
    """Ask git of the work tree at `root`, or what a job was sent with of the current folder. Raises nothing.

    The processes that are started are added to `gits`.
    """
    if not (root / ".git").exists():
        sent = os.environ.get(VARIABLE)
        return _from_job(root, sent) if sent and root == Path.cwd().resolve() else WorkTree(root=root)
    excluded = [f":(exclude,icase,glob)**/{pattern}" for pattern in CREDENTIALS]
    diff = ("diff", "HEAD", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--", ":/", *excluded)
    with ThreadPoolExecutor(max_workers=4) as threads:
        asked = [
            threads.submit(_git, root, *words, gits=gits)
            for words in (("rev-parse", "--verify", "HEAD"), ("status", "--porcelain", "-z"), ("ls-files", "-z"), diff)
        ]
        commit, status, tracked, changes = (future.result() for future in asked)
    if commit.problem:
        return WorkTree(root=root, why=commit.problem)
    if changes.problem:
        changes = replace(changes, content=None, sha256=None, size=0)
    return WorkTree(
        root=root,
        commit=(commit.content or b"").decode().strip(),
        dirty=None if status.content is None else bool(status.content),
        diff=changes.content or None,
        diff_sha256=changes.sha256 if changes.size else None,
        diff_bytes=changes.size,
        tracked=None if tracked.content is None else frozenset(_names(tracked.content)),
        modified=None if status.content is None else frozenset(_changed_names(status.content)),
        by="git",
        why=status.problem or changes.problem or tracked.problem,
    )


def for_job(folder: Path, warn: Callable[[str], None] = lambda text: None) -> str:
    """What `ray job submit --runtime-env-json` is given, so that the job knows the commit and changes of `folder`.

    A diff that is too large for a variable is sent as its hash and size. `warn` is told where there is no commit.
    """
    tree = read(top_of(folder) or folder.resolve())
    if tree.commit is None:
        warn(f"warning: the job will record no commit: {tree.why or f'{tree.root} lies in no repository'}")
    diff = base64.b85encode(zlib.compress(tree.diff, 9)).decode() if tree.diff else None
    sent = {
        "commit": tree.commit,
        "dirty": tree.dirty,
        "diff": diff if diff and len(diff) <= MOST_IN_A_JOB else None,
        "diff_sha256": tree.diff_sha256,
        "diff_bytes": tree.diff_bytes,
    }
    return json.dumps({"env_vars": {VARIABLE: json.dumps(sent, separators=(",", ":"))}}, separators=(",", ":"))


def _from_job(root: Path, sent: str) -> WorkTree:
    """Read what `for_job` sent; what it cannot be is left out and said."""
    unknown = WorkTree(root=root, why=f"{VARIABLE} is not what lengthwise job-env prints")
    try:
        fields = json.loads(sent)
        commit, dirty, diff = fields["commit"], fields["dirty"], fields["diff"]
        sha256, size = fields["diff_sha256"], fields["diff_bytes"]
        content = None
        if diff is not None:
            unpacking = zlib.decompressobj()
            content = unpacking.decompress(base64.b85decode(diff), MOST_OF_A_DIFF)
            if not unpacking.eof or hashlib.sha256(content).hexdigest() != sha256 or len(content) != size:
                return unknown
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error, binascii.Error, RecursionError):
        return unknown
    if commit is None:
        return WorkTree(root=root, why="it was submitted from a folder without a commit")
    well = isinstance(commit, str) and re.fullmatch("[0-9a-f]{40,64}", commit) and isinstance(size, int)
    well = well and isinstance(dirty, bool | None) and isinstance(sha256, str | None)
    if not well:
        return unknown
    return WorkTree(root=root, commit=commit, dirty=dirty, diff=content, diff_sha256=sha256, diff_bytes=size, by="job")


@dataclass(frozen=True)
class _Answer:
    """What git wrote: None where it is too long; `problem` where it did not answer."""

    content: bytes | None = None
    sha256: str | None = None
    size: int = 0
    problem: str | None = None


def _git(folder: Path, *arguments: str, gits: list[subprocess.Popen[bytes]] | None = None) -> _Answer:
    """Run git in `folder`, whatever repository this process was started for."""
    environment: dict[str, Any] = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    with ExitStack() as opened:
        try:
            warnings = opened.enter_context(TemporaryFile())  # a pipe that nobody reads fills up, and git waits
            process = subprocess.Popen(
                ["git", "-C", str(folder), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=warnings,
                env=environment,
            )
        except OSError as error:
            return _Answer(problem=f"git cannot be run: {error.strerror}")
        if gits is not None:
            gits.append(process)
        late = threading.Timer(SECONDS, process.kill)
        late.start()
        opened.callback(late.cancel)
        with process:
            assert process.stdout is not None
            sha256, size, parts = hashlib.sha256(), 0, list[bytes]()
            while part := process.stdout.read(2**20):
                sha256.update(part)
                size += len(part)
                parts = [*parts, part] if size <= MOST_OF_A_DIFF else []
        warnings.seek(0)
        said = warnings.read(2**16).decode(errors="replace").strip().splitlines()
    if process.returncode < 0 or (process.returncode and not said):
        return _Answer(problem=f"git {arguments[0]} took longer than {SECONDS:g} s")
    if process.returncode:
        return _Answer(problem=next((line for line in said if line.startswith("fatal: ")), said[0]))
    return _Answer(b"".join(parts) if size <= MOST_OF_A_DIFF else None, sha256.hexdigest(), size)


def _names(content: bytes) -> list[str]:
    """The parts of an answer with -z."""
    return [os.fsdecode(name) for name in content.split(b"\0") if name]


def _changed_names(status: bytes) -> Iterator[str]:
    """The names in an answer of `git status --porcelain -z`, where the old name of a renamed file follows the new."""
    entries = iter(_names(status))
    for entry in entries:
        yield entry[3:]
        if set(entry[:2]) & {"R", "C"}:
            yield next(entries, "")
