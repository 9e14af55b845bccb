"""`lengthwise submit`: a sweep becomes a job of a Ray cluster, whose log is followed."""

import hashlib
import json
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from orchestrator.addresses import IN_TEMPORARY_COPY, LASTING_STORAGES, is_absolute
from orchestrator.claims.registration import register
from orchestrator.code.own_code import Source, import_for
from orchestrator.code.repository import job_environment
from orchestrator.consoles import align_rows
from orchestrator.errors import UserError
from orchestrator.plan.checks.soundness import check
from orchestrator.record.ledger.folders import STORAGE_VARIABLE
from orchestrator.redaction import PASSWORD_VARIABLE, SECRET_VARIABLES, mask_credentials, redact, remove_controls
from orchestrator.submission.job_server import Job, JobServer
from orchestrator.submission.package import write_archive
from orchestrator.wording import duration
from search_spaces import SweepSpec
from search_spaces.grammar.problems.findings import SECRET
from search_spaces.grammar.text.overrides import secret_value

STOP_SECONDS = "30"  # Ray gives a stopped job 3 seconds before it kills it
LAST_LINES = 8
INTERRUPTED = 130
_PASSWORDS = (
    f"write MLflow's password to ~/.mlflow/credentials on the head, or start the head with {PASSWORD_VARIABLE} in its "
    "environment (cluster/README.md, MLflow for a team)"
)
_NOTICES = (
    "write it into a sweep file that git does not track (the changes of tracked files are in a variable of the job)"
)


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A sweep file and what its job runs with: `arguments` of `lengthwise run`, `variables` of the job.

    `python` is an interpreter of the cluster that has lengthwise.
    """

    spec: SweepSpec
    file: Path
    folder: Path
    arguments: Sequence[str]
    variables: Sequence[str]
    python: str
    resume: bool

    @property
    def own_modules(self) -> list[Source]:
        """The modules of the sweep that are not installed."""
        return [source for source in import_for(self.spec) if not source.installed]

    def needed_files(self) -> list[Path]:
        """Return the files that the job reads: the sweep file, its claims file and its own modules."""
        claims = [self.file.parent / self.spec.claims] if self.spec.claims else []
        modules = [source.root / name for source in self.own_modules for name in source.files]
        return [self.file.resolve(), *(one.parent.resolve() / one.name for one in claims), *modules]

    def entrypoint(self) -> str:
        """Return the command of the job.

        Raises UserError if a file that the job needs is not in the uploaded folder, if an argument or the sweep file
        has an address of MLflow with a password, if an argument has the address for notices, and for a SQLite file in
        the job's folder, which is a temporary copy.
        """
        for word in self.arguments:
            if secret_value(word) is not None:
                raise UserError(f"--set {SECRET}=***: the dashboard and `ps` show this address; {_NOTICES}")
        uri = self.spec.tracking.uri or ""
        for word in (*self.arguments, uri):
            if (masked := mask_credentials(word)) != word:
                raise UserError(f"{masked}: the dashboard and `ps` show the password of this address; {_PASSWORDS}")
        if uri.startswith("sqlite:///") and not uri.startswith("sqlite:////"):
            allowed = "sqlite:///FILE with the whole path of a file on the cluster, or the address of a server"
            raise UserError(f"tracking.uri {uri} {IN_TEMPORARY_COPY}; allowed: {allowed}")
        file, folder = self.file.resolve(), self.folder.resolve()
        for path in (*self.needed_files(), *(source.root for source in self.own_modules)):
            if not path.is_relative_to(folder):
                raise UserError(f"{path} is not in {folder}, which is uploaded; --working-dir names a folder with both")
        words = [self.python, "-m", "orchestrator", "run", str(file.relative_to(folder)), *self.arguments]
        return shlex.join([*words, *(["--resume"] if self.resume else [])])

    def environment(self, warn: Callable[[str], None]) -> dict[str, str]:
        """Return the variables of the job, with the commit of its folder.

        Raises UserError for no KEY=VALUE, for MLflow's password or token, for an address with a password, and for a
        storage in the job's folder.
        """
        given = dict[str, str]()
        for setting in self.variables:
            key, equals, value = setting.partition("=")
            if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
                raise UserError(f"--job-env {setting!r}: allowed: KEY=VALUE, such as MLFLOW_TRACKING_USERNAME=ada")
            if key in SECRET_VARIABLES:
                raise UserError(f"--job-env {key}=...: the dashboard and `ps` show this variable; {_PASSWORDS}")
            if (masked := mask_credentials(value)) != value:
                raise UserError(f"--job-env {key}={masked}: the dashboard and `ps` show this password; {_PASSWORDS}")
            if key == STORAGE_VARIABLE and value and not is_absolute(value):
                raise UserError(f"--job-env {setting} {IN_TEMPORARY_COPY}; allowed: {LASTING_STORAGES}")
            given[key] = value
        sent: dict[str, str] = json.loads(job_environment(self.folder, warn=warn))["env_vars"]
        return {"RAY_JOB_STOP_WAIT_TIME_S": STOP_SECONDS, **sent, **given}


def run_verb(submission: Submission, address: str | None, options: Sequence[str], say: Callable[[str], None]) -> int:
    """Submit a sweep, or look after its latest job, as the options say; return the exit code.

    `options` is empty (submit and follow) or one of --detach, --follow, --status and --stop. Raises UserError for
    more than one, and for what is wrong with sweep, cluster or job.
    """
    if len(options) > 1:
        raise UserError(f"{' and '.join(options)} exclude each other")
    server = JobServer(address)
    if options and options != ["--detach"]:
        jobs, sweep = server.jobs(submission.spec.name), submission.spec.name
        if not jobs:
            raise UserError(f"{server.address} has no job of sweep {sweep}; without this option it is submitted")
        job = jobs[0]
    else:
        job = _submit(submission, server, say)
    match options:
        case ["--detach"]:
            say("the same command with --follow shows its log, with --status its state, and with --stop stops it")
        case ["--status"]:
            _show_status(server, job, say)
        case ["--stop"]:
            _stop(server, job, say)
        case _:
            return _follow(server, job, say)
    return 0


def _submit(submission: Submission, server: JobServer, say: Callable[[str], None]) -> Job:
    """Upload the folder of a sweep and start its job.

    Before anything is uploaded, raises SweepFileError for a sweep with a wrong configuration or claims file, and
    UserError if the sweep is running there or, without `resume`, has run there, and for a file that it needs and that
    would not be uploaded.
    """
    name, spec_hash = submission.spec.name, submission.spec.spec_hash
    register(submission.spec)
    check(submission.spec)
    jobs = server.jobs(name)
    if active := next((job for job in jobs if job.is_active), None):
        raise UserError(
            f"sweep {name} is {active.status.lower()} at {server.address} (job {active.id}); "
            "the same command with --follow shows its log, with --stop stops it; another sweep needs another --name"
        )
    ended = [job for job in jobs if job.spec_hash == spec_hash]
    if ended and not submission.resume:
        raise UserError(
            f"sweep {name} has been submitted to {server.address} (job {ended[0].id}, {ended[0].status.lower()}); "
            "the same command with --resume resumes it, with another --name it begins another sweep"
        )
    entrypoint, variables = submission.entrypoint(), submission.environment(say)
    id = _new_id(name, spec_hash, server.ids())
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "study.zip"
        if secrets := write_archive(submission.folder, archive, submission.needed_files()):
            say(f"not uploaded, because they look like secrets: {', '.join(secrets)}")
        server.submit(id, entrypoint, archive, variables, name, spec_hash)
    say(f"sweep {name} is job {id} at {server.address}: {entrypoint}")
    return server.job(id)


def _new_id(name: str, spec_hash: str, taken: Set[str]) -> str:
    """Return an id that no job has, from the name of a sweep, its hash if it has characters that Ray refuses, a number.

    _new_id("a", "0f", {"lengthwise-a-0f"}) -> "lengthwise-a-0f-2"
    """
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
    if slug != name:
        slug += f"-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    first = f"lengthwise-{slug}-{spec_hash}"
    return next(id for id in chain([first], (f"{first}-{n}" for n in count(2))) if id not in taken)


def _follow(server: JobServer, job: Job, say: Callable[[str], None]) -> int:
    """Show the log of a job until it ends; return the exit code of its sweep. After Ctrl-C the job continues."""
    try:
        ended = server.follow(job.id, lambda text: print(remove_controls(redact(text)), end="", flush=True))
    except KeyboardInterrupt:
        say("no longer followed; the job continues: the same command with --follow shows its log, with --stop stops it")
        return INTERRUPTED
    say(f"job {ended.id}: {ended.status.lower()}")
    if ended.status == "SUCCEEDED":
        return 0
    if ended.exit_code is None and ended.message:
        say(ended.message)
    return INTERRUPTED if ended.status == "STOPPED" else ended.exit_code or 1


def _stop(server: JobServer, job: Job, say: Callable[[str], None]) -> None:
    """Stop a job as Ctrl-C stops a sweep: everything recorded is kept. Raises UserError if it has ended."""
    if not job.is_active:
        raise UserError(f"job {job.id} at {server.address} has ended ({job.status.lower()}); nothing was stopped")
    ended = server.stop(job.id)
    end = f"job {ended.id}: {ended.status.lower()}; the same command with --resume resumes it"
    say("\n".join([*_last_lines(server, ended), end]))


def _show_status(server: JobServer, job: Job, say: Callable[[str], None]) -> None:
    """Say whether a job runs and what it printed last."""
    since = duration(max(0.0, time.time() - job.started))
    rows = [("job", f"{job.id} at {server.address}"), ("status", job.status.lower()), ("submitted", f"{since} ago")]
    say("\n".join([align_rows(rows), *_last_lines(server, job)]))


def _last_lines(server: JobServer, job: Job) -> list[str]:
    return [f"  {line}" for line in server.log(job.id).splitlines()[-LAST_LINES:]]
