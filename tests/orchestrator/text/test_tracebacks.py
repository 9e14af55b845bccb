"""A log is shortened to the frames of the user's files and the error."""

import pytest

from orchestrator.text.tracebacks import shorten_log

TORCH = "/home/me/.venv/lib/python3.12/site-packages/torch/nn/modules/module.py"
HEAD = "Traceback (most recent call last):"


def frame(file: str, line: int, code: str = "return f(*args)") -> list[str]:
    return [f'  File "{file}", line {line}, in f', f"    {code}", "           ^^^^^^^^"]


@pytest.fixture
def log() -> list[str]:
    """A log whose last 15 lines begin in the middle of a frame of torch."""
    internals = [line for number in range(9) for line in frame(TORCH, number)]
    return ["step 10", HEAD, *frame("/home/me/train.py", 7, "loss = step(x)"), *internals, "RuntimeError: no", "hint"]


def test_frames_of_packages_are_folded_and_those_of_the_user_shown(log: list[str]) -> None:
    shown = shorten_log("\n".join(log), 15)
    assert shown == [*log[:5], "  ... 9 frames of torch", *log[-2:]]


def test_the_first_line_is_no_line_of_code_without_its_file(log: list[str]) -> None:
    users = [line for number in range(20) for line in frame(f"/home/me/part{number}.py", 3)]
    text = "\n".join([HEAD, *users, "ValueError: no"])
    for maximum in range(1, 20):
        shown = shorten_log(text, maximum)
        assert maximum <= len(shown) <= maximum + 2 and shown[-1] == "ValueError: no"
        assert shown[0].startswith("  File ") or maximum == 1


@pytest.mark.parametrize(
    ("files", "folded"),
    [
        ([TORCH, "/usr/lib/python3.12/json/decoder.py", TORCH], "  ... 3 frames of torch, python"),
        (["<frozen importlib._bootstrap>"], "  ... 1 frame of python"),
    ],
)
def test_each_package_of_a_fold_is_named(files: list[str], folded: str) -> None:
    lines = [HEAD, *frame("/home/me/train.py", 7), *(line for file in files for line in frame(file, 1)), "E: no"]
    assert shorten_log("\n".join(lines), 15) == [*lines[:4], folded, "E: no"]


@pytest.mark.parametrize("lines", [[HEAD, *frame(TORCH, 1), "E: no"], ["    no traceback"], [], ["a", "    b", "c"]])
def test_a_log_without_frames_of_the_user_stays(lines: list[str]) -> None:
    assert shorten_log("\n".join(lines), 15) == "\n".join(lines).strip().splitlines()


def test_indented_output_is_no_frame() -> None:
    lines = [f"    {number}" for number in range(40)]
    assert shorten_log("\n".join(["{", *lines, "}"]), 15) == [*lines[-14:], "}"]
