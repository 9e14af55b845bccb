"""The job server of a Ray cluster; raises every error of Ray as a UserError. The only module here that imports Ray."""

import asyncio
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import LengthwiseError, UserError

VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")  # in the order in which Ray reads them
SWEEP, SPEC_HASH = "lengthwise_sweep", "lengthwise_spec_hash"  # in the metadata of a job
POLL_SECONDS = 0.3
TOKEN = "set RAY_AUTH_MODE=token, and put the cluster's token into ~/.ray/auth_token or RAY_AUTH_TOKEN"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of a sweep; `status` is PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED, `started` seconds since 1970."""

    id: str
    status: str
    spec_hash: str
    message: str
    started: float
    exit_code: int | None

    @property
    def is_active(self) -> bool:
        """Whether it is running or will be."""
        return self.status in ("PENDING", "RUNNING")


class JobServer:
    """The job server at an address. Raises UserError if nothing answers there or the token is rejected."""

    def __init__(self, address: str | None) -> None:
        self.address = address or next(filter(None, map(os.environ.get, VARIABLES)), "")
        if not self.address:
            raise UserError(
                "no Ray cluster is named; give its job server by --address http://HEAD:8265 or in the variable "
                f"{VARIABLES[0]}; cluster/local_head.sh starts one here"
            )
        if not self.address.startswith(("http://", "https://")):
            _refuse_closed_port(self.address)
        with self._translated():
            from ray.job_submission import JobSubmissionClient

            for name in ("job.sdk", "dashboard_sdk"):
                logging.getLogger(f"ray.dashboard.modules.{name}").setLevel(logging.ERROR)
            with _without_variables():  # they would replace --address
                self._client = JobSubmissionClient(self.address)
            self._client.list_jobs()  # a wrong token is found before anything is made

    def jobs(self, sweep: str) -> list[Job]:
        """Return the jobs of the sweep with this name, the latest first."""
        with self._translated():
            found = [_read(one) for one in self._client.list_jobs() if (one.metadata or {}).get(SWEEP) == sweep]
        return sorted((job for job in found if job is not None), key=lambda job: -job.started)

    def ids(self) -> set[str]:
        """Return the ids of all jobs, of whatever they are."""
        with self._translated():
            return {str(one.submission_id) for one in self._client.list_jobs()}

    def job(self, id: str) -> Job:
        """Return a job as it is now."""
        with self._translated():
            found = _read(self._client.get_job_info(id))
        assert found is not None
        return found

    def submit(
        self, id: str, entrypoint: str, archive: Path, variables: Mapping[str, str], sweep: str, hash: str
    ) -> None:
        """Upload the archive and start the job. Raises UserError if a job has this id."""
        environment = {"working_dir": str(archive), "env_vars": dict(variables)}
        with self._translated():
            self._client.submit_job(
                entrypoint=entrypoint,
                submission_id=id,
                runtime_env=environment,
                metadata={SWEEP: sweep, SPEC_HASH: hash},
            )

    def log(self, id: str) -> str:
        """Return everything that a job has printed."""
        with self._translated():
            return str(self._client.get_job_logs(id))

    def follow(self, id: str, write: Callable[[str], object]) -> Job:
        """Pass the output of a job to `write` until the job ends; return the ended job."""

        async def read() -> None:
            async for text in self._client.tail_job_logs(id):
                write(text)

        with self._translated():
            asyncio.run(read())
        return self.wait(id)

    def stop(self, id: str) -> Job:
        """Stop a job; return it when it has ended."""
        with self._translated():
            self._client.stop_job(id)
        return self.wait(id)

    def wait(self, id: str) -> Job:
        """Return a job when it has ended."""
        while (job := self.job(id)).is_active:
            time.sleep(POLL_SECONDS)
        return job

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except LengthwiseError:
            raise
        except (Exception, SystemExit) as error:
            name, text = type(error).__name__, " ".join(str(error).split())
            if name == "AuthenticationError":
                rejected = "rejected the token" if "orbidden" in text or "nvalid" in text else "asks for a token"
                raise UserError(f"{self.address}: the cluster {rejected}; {TOKEN}") from error
            if isinstance(error, OSError):
                raise UserError(
                    f"{self.address}: no Ray cluster answers there; start it, or correct --address"
                ) from error
            raise UserError(f"{self.address}: the job server failed: {text[:500] or name}") from error


def _read(details: Any) -> Job | None:
    """Return a job from Ray's details; None for one that `ray job submit` did not start."""
    if details.submission_id is None:
        return None
    return Job(
        id=details.submission_id,
        status=str(details.status.value),
        spec_hash=(details.metadata or {}).get(SPEC_HASH, ""),
        message=details.message or "",
        started=(details.start_time or 0) / 1000,
        exit_code=details.driver_exit_code,
    )


def _refuse_closed_port(address: str) -> None:
    """Raise UserError if nobody listens at HOST:PORT or ray://HOST:PORT; Ray would try for minutes."""
    found = re.fullmatch(r"(?:ray://)?\[?([^/]+?)\]?:(\d{1,5})/?", address)
    if not found:
        raise UserError(
            f"{address!r} is not the address of a cluster; allowed: http://HEAD:8265, or HEAD:PORT and ray://HEAD:PORT"
        )
    try:
        socket.create_connection((found[1], int(found[2])), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"{address}: no Ray cluster answers there; start it, or correct --address") from error


@contextmanager
def _without_variables() -> Iterator[None]:
    before = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)
