"""Read the git commit and the uncommitted changes of folders in the background.

A Ray job has no `.git`, because Ray does not upload it. `make_job_environment` sends the commit and the diff in the
variable LENGTHWISE_CODE, and the job records them for its working folder.
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
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

CODE_VARIABLE = "LENGTHWISE_CODE"
TIMEOUT_SECONDS = 20.0  # for one git command
MAX_DIFF_BYTES = 8 * 2**20  # a larger diff is recorded only by its digest and size
JOB_STOP_SECONDS = "30"  # by default Ray kills a job 3 seconds after SIGTERM
MAX_JOB_DIFF_BYTES = 48 * 2**10  # in base 85; Linux allows 128 KiB for one variable
CREDENTIALS = (
    *("*.pem", "*.key", "*.p12", "*.env", ".env*", ".netrc", ".npmrc", ".pypirc", "id_rsa*", "id_ed25519*"),
    *("*credential*", "secrets.*", "*_secrets.*", "*.token", "auth_token*", "password*", "passwd*"),
)
CREDENTIAL_MODULES = ("secrets.py", "*_secrets.py", "*credentials.py", "passwords.py")  # other modules are code
STATUS = ("status", "--porcelain=v2", "--branch", "--no-ahead-behind")
CHANGED_NAMES = ("diff", "HEAD", "--name-only", "--no-renames", "-z", "--", ":/")
DIFF = ("diff", "HEAD", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--", ":/")


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A work tree; `commit` is None without a repository, `problem` is the message of git if it failed.

    `dirty`: there are changes or untracked files. `diff` compares tracked files with the commit, without files named
    like credentials; None without changes or if it is too large. `source` is "git", or "job" (`make_job_environment`).
    """

    root: Path
    commit: str | None = None
    dirty: bool | None = None
    diff: bytes | None = None
    diff_sha256: str | None = None
    diff_bytes: int = 0
    source: str | None = None
    problem: str | None = None


def is_credential_name(name: str) -> bool:
    """Return whether the last part of a path is a common name of files with credentials."""
    file_name = name.rpartition("/")[2].lower()
    patterns = CREDENTIAL_MODULES if file_name.endswith(".py") else CREDENTIALS
    is_test = fnmatch.fnmatchcase(file_name, "test_*.py")
    return not is_test and any(fnmatch.fnmatchcase(file_name, pattern) for pattern in patterns)


def find_root(folder: Path) -> Path:
    """Return the root of the work tree around `folder`, or the folder itself outside of repositories."""
    folder = folder.resolve()
    return next((path for path in (folder, *folder.parents) if (path / ".git").exists()), folder)


class RepositoryReader:
    """A reader of the repositories of folders, in threads; leaving the context kills git processes that still run."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="lengthwise-git")
        roots = dict.fromkeys(map(find_root, folders))
        self._commands = {
            root: [self._threads.submit(self._run_git, root, STATUS), self._threads.submit(self._read_diff, root)]
            for root in roots
            if (root / ".git").exists()
        }
        self._roots = list(roots)

    def read(self) -> list[Repository]:
        """Return every work tree once, in order, except folders without a repository inside another work tree."""
        trees = [self._read_repository(root) for root in self._roots]
        return [tree for tree in trees if tree.source or not any(root in tree.root.parents for root in self._roots)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        # Once `_closed` is set under the lock, no thread starts another process.
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()  # has no effect if the process has ended
        self._threads.shutdown()

    def _read_repository(self, root: Path) -> Repository:
        """Return the repository of a work tree; in a Ray job, which lacks .git, from the variable sent with the job."""
        if root not in self._commands:
            description = os.environ.get(CODE_VARIABLE)
            return (
                _parse_description(root, description)
                if description and root == Path.cwd().resolve()
                else Repository(root=root)
            )
        status, diff = (command.result() for command in self._commands[root])

        # Header lines begin with #, and one of them has the commit.
        lines = (status.content or b"").decode(errors="replace").splitlines()
        commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "(initial)")
        if status.problem or commit == "(initial)":
            return Repository(root=root, problem=status.problem or "the repository has no commit")
        return Repository(
            root=root,
            commit=commit,
            dirty=any(not line.startswith("#") for line in lines),
            diff=diff.content if 0 < diff.size <= MAX_DIFF_BYTES else None,
            diff_sha256=diff.sha256 if diff.size else None,
            diff_bytes=diff.size,
            source="git",
            problem=diff.problem,
        )

    def _read_diff(self, root: Path) -> "_Output":
        """Return the diff of a work tree without files named like credentials."""
        names = self._run_git(root, CHANGED_NAMES)
        if names.problem:
            return names
        credentials = filter(is_credential_name, os.fsdecode(names.content).split("\0"))
        return self._run_git(root, (*DIFF, *(f":(exclude,top,literal){name}" for name in credentials)))

    def _run_git(self, folder: Path, command: tuple[str, ...]) -> "_Output":
        """Run git in `folder`; GIT_DIR and other variables of a hook that started this process are ignored."""
        # Without optional locks git does not write to the user's repository.
        environment: dict[str, Any] = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

        # The lock keeps `__exit__` from missing a process that starts just now.
        with ExitStack() as exit_stack:
            try:
                messages = exit_stack.enter_context(TemporaryFile())  # a full pipe would block git
                with self._lock:
                    if self._closed:
                        return _Output(problem="git was not started")
                    process = subprocess.Popen(
                        ["git", "-C", str(folder), *command],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=messages,
                        env=environment,
                    )
                    self._processes.append(process)
            except OSError as error:
                return _Output(problem=f"cannot run git: {error.strerror}")

            # Digest the whole output, but keep at most about MAX_DIFF_BYTES in memory.
            timeout = threading.Timer(TIMEOUT_SECONDS, process.kill)
            timeout.start()
            exit_stack.callback(timeout.cancel)
            with process:
                assert process.stdout is not None
                sha256 = hashlib.sha256()
                size = 0
                chunks = list[bytes]()
                while chunk := process.stdout.read(2**20):
                    sha256.update(chunk)
                    chunks += [chunk] if size < MAX_DIFF_BYTES else []
                    size += len(chunk)
            messages.seek(0)
            lines = messages.read(2**16).decode(errors="replace").strip().splitlines()

        # git was killed after TIMEOUT_SECONDS, or failed.
        if process.returncode < 0:
            return _Output(problem=f"git {command[0]} took longer than {TIMEOUT_SECONDS:g} s")
        if process.returncode:
            reason = lines[0] if lines else f"git {command[0]} failed with exit code {process.returncode}"
            return _Output(problem=next((line for line in lines if line.startswith("fatal: ")), reason))
        return _Output(b"".join(chunks), sha256.hexdigest(), size)


@dataclass(frozen=True)
class _Output:
    """Output of git, cut after about MAX_DIFF_BYTES, with digest and size of all of it; `problem` if it failed."""

    content: bytes = b""
    sha256: str | None = None
    size: int = 0
    problem: str | None = None


def make_job_environment(folder: Path, warn: Callable[[str], None] = lambda text: None) -> str:
    """Return JSON for `ray job submit --runtime-env-json` that passes commit and diff of `folder` to the job.

    It also gives a stopped job time to save its sweep. A diff that is too large for a variable is replaced by its
    digest and size. `warn` is called if there is no commit.
    """
    with RepositoryReader([folder]) as reader:
        (tree,) = reader.read()
    if tree.commit is None:
        warn(f"warning: the job will record no commit: {tree.problem or f'{tree.root} is in no repository'}")

    # Environment variables have a size limit, so a large diff is identified only by its digest.
    diff = base64.b85encode(zlib.compress(tree.diff, 9)).decode() if tree.diff else None
    description = {
        "commit": tree.commit,
        "dirty": tree.dirty,
        "diff": diff if diff and len(diff) <= MAX_JOB_DIFF_BYTES else None,
        "diff_sha256": tree.diff_sha256,
        "diff_bytes": tree.diff_bytes,
    }
    variables = {
        CODE_VARIABLE: json.dumps(description, separators=(",", ":")),
        "RAY_JOB_STOP_WAIT_TIME_S": JOB_STOP_SECONDS,
    }
    return json.dumps({"env_vars": variables}, separators=(",", ":"))


def _parse_description(root: Path, description: str) -> Repository:
    """Return the repository that `make_job_environment` described in `description`."""
    # Anybody can set the variable, so check its digest and size, and unpack at most MAX_DIFF_BYTES.
    invalid = Repository(root=root, problem=f"{CODE_VARIABLE} was not written by lengthwise job-env")
    try:
        fields = json.loads(description)
        commit, dirty, diff = fields["commit"], fields["dirty"], fields["diff"]
        sha256, size = fields["diff_sha256"], fields["diff_bytes"]
        content = None
        if diff is not None:
            decompressor = zlib.decompressobj()
            content = decompressor.decompress(base64.b85decode(diff), MAX_DIFF_BYTES)
            if not decompressor.eof or hashlib.sha256(content).hexdigest() != sha256 or len(content) != size:
                return invalid
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error, binascii.Error, RecursionError):
        return invalid

    # The description comes from an environment variable, so every type is checked.
    if commit is None:
        return Repository(root=root, problem="it was submitted from a folder without a commit")
    is_valid = isinstance(commit, str) and re.fullmatch("[0-9a-f]{40,64}", commit) and isinstance(size, int)
    if not (is_valid and isinstance(dirty, bool | None) and isinstance(sha256, str | None)):
        return invalid
    return Repository(
        root=root, commit=commit, dirty=dirty, diff=content, diff_sha256=sha256, diff_bytes=size, source="job"
    )
