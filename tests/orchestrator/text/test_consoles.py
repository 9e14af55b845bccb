"""Consoles: where a terminal breaks a sentence, and the line of a command before it has anything to say."""

import io

import pytest

from orchestrator.cli import main
from orchestrator.errors import UserError
from orchestrator.text.consoles import UncroppedConsole, align_rows, say, show_until_stopped, wrap_sentence

SENTENCE = "warning: the seeds of #3 crashed on http://ada:secret@host, and training continues without them"


@pytest.fixture
def make_screen():
    """make_screen(is_terminal) is a console that is 40 characters wide."""
    return lambda is_terminal: UncroppedConsole(
        file=io.StringIO(), force_terminal=is_terminal, color_system=None, width=40, legacy_windows=False
    )


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("prints", [say, lambda screen, text: screen.print(wrap_sentence(text, screen))])
def test_a_terminal_breaks_a_sentence_between_words(make_screen, prints, is_terminal):
    screen = make_screen(is_terminal)
    prints(screen, SENTENCE)
    lines = screen.file.getvalue().splitlines()
    assert [word for line in lines for word in line.split()] == SENTENCE.replace("ada:secret", "ada:***").split()
    assert (len(lines) > 1) == is_terminal and (max(map(len, lines)) <= 40) == is_terminal


@pytest.mark.parametrize("prints", [say, lambda screen, text: screen.print(wrap_sentence(text, screen))])
def test_commands_and_lines_of_a_traceback_stay_whole(make_screen, prints):
    screen = make_screen(is_terminal=True)
    command, trace = "lengthwise resume '/a b/quickstart' --retry-failed", f"    raise ValueError({'1, ' * 20})"
    rows = align_rows([("state", "interrupted: the first three seeds failed alike"), ("retry", command)])
    prints(screen, f"{rows}\n{trace}\nwhen fixed, retry with: {command}; traces: status")
    shown = screen.file.getvalue().splitlines()
    assert [line.strip() for line in shown if "resume" in line] == [command, f"{command};"]
    assert trace in shown and [line for line in shown if len(line) > 40 and command not in line] == [trace]
    assert shown[1].startswith(" " * 7) and shown[1].strip()  # behind the label


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
