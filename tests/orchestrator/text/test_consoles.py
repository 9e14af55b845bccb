"""Consoles: where a terminal breaks a sentence, and the line of a command before it has anything to say."""

import io
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.errors import UserError
from orchestrator.text.consoles import UncroppedConsole, show_until_stopped, wrap_sentence

SENTENCE = "warning: the seeds of #3 crashed on http://ada:secret@host, and training continues without them"


@pytest.fixture
def make_screen():
    """make_screen(is_terminal) is a console that is 40 characters wide."""
    return lambda is_terminal: UncroppedConsole(
        file=io.StringIO(), force_terminal=is_terminal, color_system=None, width=40, legacy_windows=False
    )


@pytest.mark.parametrize(
    ("is_terminal", "folder", "is_wrapped"), [(True, "/sweeps", True), (True, "#3", False), (False, "/sweeps", False)]
)
def test_a_terminal_breaks_a_sentence_between_words(make_screen, is_terminal, folder, is_wrapped):
    screen = make_screen(is_terminal)
    screen.print(wrap_sentence(SENTENCE, screen, Path(folder)))
    lines = screen.file.getvalue().splitlines()
    assert [word for line in lines for word in line.split()] == SENTENCE.replace("ada:secret", "ada:***").split()
    assert (len(lines) > 1) == is_wrapped and (max(map(len, lines)) <= 40) == is_wrapped


def test_a_line_until_stopped_is_on_terminals_alone(make_screen):
    for is_terminal in (True, False):
        screen = make_screen(is_terminal)
        with show_until_stopped(screen, "reading"):
            assert ("reading" in screen.file.getvalue()) == is_terminal
        assert is_terminal or screen.file.getvalue() == ""


def test_run_names_its_file_before_it_reads_it(make_screen, monkeypatch):
    screen, shown = make_screen(True), []

    def read_sweep(*arguments):
        shown.append(screen.file.getvalue())
        raise UserError("it is read")

    monkeypatch.setattr(main, "console", screen)
    monkeypatch.setattr(main, "read_sweep", read_sweep)
    with pytest.raises(UserError, match="it is read"):
        main.run("quickstart")
    assert "quickstart" in shown[0]
