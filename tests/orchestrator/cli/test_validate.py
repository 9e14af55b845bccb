"""`validate`: every problem in one round, at its line, and a trial of what was built."""

import subprocess

import pytest

from tests.command_line import refused


def lines(done: subprocess.CompletedProcess[str]) -> tuple[int, list[str], list[str]]:
    """The exit code, and the lines of stdout and stderr."""
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def test_validate_builds_what_the_space_can_draw(lengthwise, tiny):
    good = lengthwise("validate", tiny, "search_spaces/quickstart.yaml")
    assert good.returncode == 0 and good.stdout.count(": valid;") == 2
    tiny.write_text(tiny.read_text().replace("{choice: [8, 16]}", "{choice: [8, 0]}"))
    both = lengthwise("validate", tiny, "search_spaces/quickstart.yaml")
    refused(both, "tiny.yaml:13: space.training.batch_size.choice[1]: ")
    assert both.stdout.count(": valid;") == 1  # the other file is still looked at


def test_a_model_that_no_memory_holds_is_refused_at_once(lengthwise, tiny, tmp_path):
    text = tiny.read_text()
    for changed, message in (
        (("width: 8", "width: 10000000000"), "GiB of memory"),
        (("y: 6", "y: 5000000"), "<= 100000"),
        (("[8, 16]", "[8, 1000000000000]"), "training.batch_size: "),
    ):
        assert changed[0] in text
        tiny.write_text(text.replace(*changed))
        refused(lengthwise("run", tiny, "--storage", tmp_path), message)
    assert not (tmp_path / "tiny").exists()


def test_grammar_and_values_are_reported_in_one_round(lengthwise, tiny, tmp_path):
    good = tiny.read_text()
    tiny.write_text(good.replace(" width: 8", " widht: 8").replace("direction: minimize", "direction: down"))
    for verb in ("validate", "plan", "data", "run"):
        where = ("--storage", tmp_path / "storage") if verb in ("plan", "run") else ()
        code, out, (first, second) = lines(lengthwise(verb, tiny, *where))
        assert code == 2 and not out
        assert first.startswith(f"{tiny}:4: model.widht: ") and "; given 8; allowed: width, value_width" in first
        assert second.startswith(f"{tiny}:17: objective.direction: ") and "; given 'down'" in second
    assert not (tmp_path / "storage").exists()
    tiny.write_text(good + "more: [")
    code, _, (first, second) = lines(lengthwise("validate", tiny))
    assert code == 2 and first.startswith(f"{tiny}:") and "YAML" in first and not second.startswith(str(tiny))
    assert len(lines(lengthwise("validate", tiny.with_name("absent.yaml")))[2]) == 1


def test_what_could_be_drawn_is_refused_before_anything_is_written(lengthwise, tiny, tmp_path):
    """The four draws of this sweep would all be below 1 and run to the end."""
    tiny.write_text(
        tiny.read_text()
        .replace("training.batch_size: {choice: [8, 16]}", "model.dropout: {uniform: [0.0, 1.01]}")
        .replace("dropout: 0.1", "dropout: 7")
    )
    code, out, expected = lines(lengthwise("run", tiny, "--storage", tmp_path / "storage"))
    value, end = expected
    assert (code, out) == (2, []) and value.startswith(f"{tiny}:4: model.dropout: 7 ")
    assert end.startswith(f"{tiny}:13: space.model.dropout.uniform[1]: ") and "; given 1.01; " in end
    assert all("allowed: a number >= 0 and < 1" in line for line in expected) and "did you mean 0.99999?" in end
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.yaml"]


def test_targets_that_broadcast_are_refused_at_the_line_of_the_task(lengthwise, tmp_path, own_code_forgotten):
    folder = tmp_path / "my_study"
    assert lengthwise("init", folder).returncode == 0
    code = folder / "my_task.py"
    code.write_text(code.read_text().replace("cummax(dim=-1).values", "cummax(dim=-1).values[..., :1]"))
    line = next(number for number, text in enumerate(code.read_text().splitlines(), 1) if "def draw_rows" in text)
    done = lengthwise("validate", folder / "sweep.yaml")
    refused(done, "targets of shape (2, 4, 1) for tokens of shape (2, 4, 5)")
    assert f"{code}:{line}, draw_rows" in done.stderr


@pytest.mark.slow
def test_validate_tries_a_sweep_and_shows_the_lines_of_a_fault(lengthwise, study, own_code_forgotten):
    good = lengthwise("validate", study / "own.yaml", "--smoke")
    assert (good.returncode, good.stderr) == (0, "")
    assert "4 configurations" in good.stdout and "2 structures" in good.stdout
    shipped = lengthwise("validate", "search_spaces/quickstart.yaml")
    assert shipped.returncode == 0 and "structure" not in shipped.stdout


def test_a_fault_that_validate_finds_by_trying_is_a_failure_and_no_bad_input(lengthwise, study, own_code_forgotten):
    with (study / "my_tasks.py").open("a") as file:
        file.write("\n    def loss(self, logits_MBTV, batch):\n        raise ValueError('no loss')\n")
    done = lengthwise("validate", study / "own.yaml", "--smoke")
    assert done.returncode == 1 and done.stdout == "" and "Traceback" not in done.stderr
    first, location, line = done.stderr.splitlines()
    assert "#0" in first and "ValueError: no loss" in first
    assert (
        location.startswith('  File "') and "my_tasks.py" in location and line.strip() == "raise ValueError('no loss')"
    )
    assert sorted(path.suffix for path in study.iterdir() if path.is_file()) == [".py", ".py", ".yaml"]
