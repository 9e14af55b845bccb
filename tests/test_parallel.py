"""Tests in forked processes: every outcome is reported, also of a process that dies."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

REPOSITORY = Path(__file__).parents[1]
DYING = """
import os, signal
def test_passes(tmp_path): (tmp_path / "file").touch()
def test_fails(): print("what it printed"); assert 1 == 2
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
def test_behind(): pass
"""
LIVING = """
import os, pytest
@pytest.fixture(scope="module")
def once(): print("made", file=open({log!r}, "a"))
@pytest.mark.parametrize("number", range(3))
def test_passes(once, number): print(os.getpid(), file=open({log!r}, "a"))
def test_skips(): pytest.skip("why")
@pytest.fixture
def broken(): raise ValueError("broken")
def test_has_no_fixture(broken): pass
"""


def run(tmp_path: Path, *options: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the exit code of pytest, and of every test its outcome and what is said about it."""
    (tmp_path / "test_dying.py").write_text(DYING)
    (tmp_path / "test_living.py").write_text(LIVING.format(log=str(tmp_path / "log")))
    command = [sys.executable, "-m", "pytest", "-p", "tests.parallel", "-p", "no:cacheprovider", "--processes", "2"]
    command += [
        "-c",
        "/dev/null",
        f"--rootdir={tmp_path}",
        f"--junitxml={tmp_path / 'out.xml'}",
        str(tmp_path),
        *options,
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    found = {}
    for case in ElementTree.parse(tmp_path / "out.xml").iter("testcase"):
        outcome = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        said = "" if outcome is None else "".join(part.text or "" for part in case)
        found[case.get("name", "")] = ("passed" if outcome is None else outcome.tag, said)
    return done.returncode, found


def test_every_outcome_is_reported(tmp_path: Path) -> None:
    code, found = run(tmp_path)
    assert code == 1
    assert {name: outcome for name, (outcome, _) in found.items()} == {
        **{"test_passes": "passed", "test_fails": "failure", "test_dies": "failure"},
        **{f"test_passes[{number}]": "passed" for number in range(3)},
        **{"test_skips": "skipped", "test_has_no_fixture": "error"},
    }
    assert "1 == 2" in found["test_fails"][1] and "what it printed" in found["test_fails"][1]
    assert "has died" in found["test_dies"][1] and "broken" in found["test_has_no_fixture"][1]
    made, *processes = (tmp_path / "log").read_text().split()
    assert made == "made" and len(processes) == 3 and len(set(processes)) == 1


def test_no_other_file_is_begun_after_the_last_allowed_failure(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"test_late{number}.py").write_text(f"import time\ndef test_late{number}(): time.sleep(0.1)\n")
    code, found = run(tmp_path, "-x", "-k", "test_fails or late")
    assert code == 1 and found["test_fails"][0] == "failure" and len(found) < 40
