"""The help of `lengthwise`: every verb on one line, grouped by what a person wants, all on one screen; its version."""

from platform import python_version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from orchestrator.code.provenance import PACKAGES, version

BEGIN, LOOK, CONTINUE, TAKE_OUT, KEEP_HOUSE = "begin", "look", "continue", "take out", "keep house"
PANELS = (BEGIN, LOOK, CONTINUE, TAKE_OUT, KEEP_HOUSE)
WIDTH = 80


class VerbGroup(TyperGroup):
    """The verbs of `lengthwise`; each names its panel by `rich_help_panel`, one that names none is in the last."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: a line for every verb, the name of a panel before its first."""
        verbs = [(self._panel(name), name) for name, verb in self.commands.items() if not verb.hidden]
        first, second = (max(map(len, column)) for column in zip(*verbs, strict=True))
        usage = "lengthwise VERB [--help]  "
        formatter.write(f"{usage}{_cut(self.help or '', WIDTH - len(usage))}\n")
        before = None
        for panel, name in sorted(verbs, key=lambda verb: PANELS.index(verb[0])):
            start = f"{'' if panel == before else panel:{first}}  {name:{second}}  "
            formatter.write(start + _cut(self.commands[name].get_short_help_str(200), WIDTH - len(start)) + "\n")
            before = panel

    def _panel(self, name: str) -> str:
        panel = getattr(self.commands[name], "rich_help_panel", None)
        return panel if panel in PANELS else KEEP_HOUSE


def _print_versions(asked: bool) -> None:
    if asked:
        typer.echo(", ".join([*(f"{name} {version(name)}" for name in PACKAGES), f"Python {python_version()}"]))
        raise typer.Exit


def show_version(
    asked: Annotated[
        bool,
        typer.Option("--version", callback=_print_versions, is_eager=True, help="Print versions, for a bug report."),
    ] = False,
) -> None:
    """Do nothing; it has the options of `lengthwise` itself."""


def _cut(text: str, width: int) -> str:
    """Return the first sentence, without what follows a colon or semicolon if it is too long, cut at `width`."""
    sentence = text.partition(". ")[0].rstrip(".")
    for end in (": ", "; ", ", "):
        if len(sentence) > width:
            sentence = sentence.partition(end)[0]
    return sentence if len(sentence) <= width else f"{sentence[: width - 3].rstrip()}..."
