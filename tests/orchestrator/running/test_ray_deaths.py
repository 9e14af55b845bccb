"""Deaths on a real Ray: the driver's, a worker's, and a signal; a resumed sweep ends like one that was left alone."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil

from orchestrator.record.state import SweepState

ON_RAY = "resources.scheduler=ray"
INLINE = ("--set", "resources.scheduler=inline")


def worker_with(pack_id: str, driver: int) -> psutil.Process | None:
    """The Ray actor that has the pack in hand: its watchdog keeps a file of that name open."""
    for below in psutil.Process(driver).children(recursive=True):
        try:
            if "ray::ImplicitFunc" not in " ".join(below.cmdline()):
                continue
            if any(Path(file.path).name == f"{pack_id}.stuck.txt" for file in below.open_files()):
                return below
        except psutil.Error:  # it ended as it was looked at
            continue
    return None


def test_the_driver_is_killed_and_the_sweep_resumed(lengthwise, long_sweep, wait_for, records, tmp_path):
    folder = long_sweep.storage / "killed"
    temp = {"TMPDIR": str(tmp_path), "RAY_TMPDIR": "/tmp"}
    driver = lengthwise.start(*long_sweep.words("killed", ON_RAY), **temp)
    wait_for(lambda: records(folder, "evaluation"), driver)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    assert not records(folder, "end")
    finished = {record.fields["pack_id"] for record in records(folder, "pack_end")}
    known = len(records(folder, "evaluation"))
    assert list(tmp_path.glob("lengthwise-tune-*"))
    done = lengthwise.process("resume", folder, **temp)
    assert done.returncode == 0 and "a local Ray with " in done.stdout, done.stdout + done.stderr
    assert not {record.fields["pack_id"] for record in records(folder, "evaluation")[known:]} & finished
    assert not list(tmp_path.glob("lengthwise-tune-*"))  # its own, and that of the killed driver
    long_sweep.ended_as_if_left_alone(folder)


def test_sigterm_is_recorded_without_waiting_for_ray(lengthwise, long_sweep, wait_for, records):
    """`ray job stop` sends SIGKILL three seconds after SIGTERM: here Ray stands still until the record is there."""
    folder = long_sweep.storage / "terminated"
    driver = lengthwise.start(*long_sweep.words("terminated", ON_RAY))
    wait_for(lambda: records(folder, "evaluation"), driver)
    frozen = [one for one in psutil.Process(driver.pid).children(recursive=True) if is_of_ray(one)]
    assert any(one.name() == "raylet" for one in frozen) and any(one.name() == "gcs_server" for one in frozen)
    try:
        for one in frozen:
            one.suspend()
        os.kill(driver.pid, signal.SIGTERM)
        (end,) = wait_for(lambda: records(folder, "end"), driver)
    finally:
        for one in frozen:
            one.resume()
    out, err = driver.communicate()
    assert end.fields["status"] == "interrupted" and driver.returncode == 130, err
    assert f"lengthwise resume {folder}" in out and "Traceback" not in out + err
    done = lengthwise("resume", folder, *INLINE)
    assert done.returncode == 0, done.stderr
    long_sweep.ended_as_if_left_alone(folder)


def is_of_ray(process: psutil.Process) -> bool:
    try:
        return process.name() in ("raylet", "gcs_server") or "ray::" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def test_a_worker_is_killed_as_often_as_it_may_and_once_more(lengthwise, long_sweep, wait_for, records):
    """One pack loses its worker once and is brought to its end; another loses it twice and is given up."""
    folder = long_sweep.storage / "worker"
    driver = lengthwise.start(*long_sweep.words("worker", ON_RAY, "resources.retries=1"))
    unlucky = wait_for(lambda: records(folder, "evaluation"), driver)[0].fields["pack_id"]
    kill_the_worker(unlucky, driver, wait_for, records, folder)
    doomed = wait_for(
        lambda: next((p for p in unfinished(folder, unlucky) if worker_with(p, driver.pid)), None), driver
    )
    for _ in range(2):
        kill_the_worker(doomed, driver, wait_for, records, folder)
    out, err = driver.communicate()
    assert driver.returncode == 0, err
    state = SweepState.load(folder)
    assert {pack.pack_id for pack in state.packs.values() if pack.status == "failed"} == {doomed}
    assert [len(state.packs[one].attempts) for one in (unlucky, doomed)] == [1, 2]
    assert f"pack {unlucky}: the worker process died: " in out and "given up after 2 attempts" in out
    again = lengthwise("resume", folder, "--retry-failed", *INLINE)
    assert again.returncode == 0, again.stderr
    long_sweep.ended_as_if_left_alone(folder, ends=5)


def unfinished(folder: Path, but: str) -> list[str]:
    packs = SweepState.load(folder).packs.values()
    return [pack.pack_id for pack in packs if pack.status in ("planned", "running") and pack.pack_id != but]


def in_hand(packs: list[str], driver: int) -> str | None:
    return next((pack_id for pack_id in packs if worker_with(pack_id, driver)), None)


def kill_the_worker(pack_id: str, driver, wait_for: Callable, records: Callable, folder: Path) -> None:
    """Kill whichever worker has the pack, and wait until the driver has recorded it."""

    def attempts() -> int:
        return sum(record.fields["pack_id"] == pack_id for record in records(folder, "attempt"))

    before = attempts()
    wait_for(lambda: worker_with(pack_id, driver.pid), driver).kill()
    wait_for(lambda: attempts() > before, driver)
