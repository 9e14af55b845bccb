"""A command whose help shows flags without a type, and which gives advice if its DIR, FILE or an option is missing.

The advice is given while the words are parsed, so only typer's frames stand between `command` and a command's function.
"""

from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from orchestrator.addresses import get_address_or_path
from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import find_default_storage, list_sweep_folders
from orchestrator.text.wording import join_first_few

MAX_LISTED_SWEEPS = 8  # in an error


class SweepTyper(typer.Typer):
    """A Typer whose commands are of the class SweepCommand."""

    def command(self, name: str | None = None, *, examples: Sequence[str] = (), **options: Any) -> Any:
        """Return a decorator that makes a command of a function; `examples` are words after its name, for its help."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            lines = [f"lengthwise {name or function.__name__} {words}" for words in examples]
            epilog = "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *lines]) if lines else None
            return super(SweepTyper, self).command(name, cls=SweepCommand, epilog=epilog, **options)(function)

        return register


class SweepCommand(TyperCommand):
    """A command of `lengthwise`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options of the command."""
        return hide_flag_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the words after the name of the command; --storage ends with a command whose words are rejected.

        Raises UserError with advice if DIR or FILE is missing, or for a key of the sweep file given as an option.
        """
        try:
            return self._parse_with_advice(ctx, args)
        except BaseException:
            ctx.close()  # click closes only the context of a command that runs
            raise

    def _parse_with_advice(self, ctx: Any, args: list[str]) -> Any:
        """Parse the words; raise UserError in place of errors that advice helps with."""
        words = list(args)  # parsing empties `args`
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer has the class of click or a copy of its own, depending on its version.
            if type(error).__name__ == "NoSuchOption":
                self._advise_set(str(getattr(error, "option_name", "")), words)
            metavar = getattr(getattr(error, "param", None), "metavar", None)
            if type(error).__name__ != "MissingParameter" or metavar not in ("DIR", "FILE"):
                raise
            advice = _advise_sweep if metavar == "DIR" else _advise_file
            raise UserError(advice(ctx.info_name)) from None

    def _advise_set(self, option: str, words: list[str]) -> None:
        """Raise UserError with an example of --set if an unknown option is like no option of a command that has it."""
        from search_spaces import find_nearest_name  # slow to import

        options = {name for parameter in self.params for name in parameter.opts}
        if "--set" not in options or find_nearest_name(option, options - {"--set"}, cutoff=0.75):
            return

        # The value is in the same word, or it is the next one.
        given = next((word for word in words if word.partition("=")[0] == option), option)
        value = given.partition("=")[2] or next(iter(words[words.index(given) + 1 :]), "VALUE")
        key = option.lstrip("-").replace("-", "_")
        example = f"such as --set {key}={value}"
        raise UserError(f"there is no option {option}; keys of the sweep file are set by --set, {example}")


def hide_flag_types(parameters: list[Any]) -> list[Any]:
    """Remove the type of flags from their help, and return all parameters."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def _advise_sweep(command: str | None) -> str:
    """Return the message for a missing DIR, with the sweeps of the storage folder."""
    storage = find_default_storage()
    location = get_address_or_path(storage)
    names = [folder.name for folder in list_sweep_folders(storage)]
    existing = (
        f"sweeps in {location}/: {join_first_few(names, MAX_LISTED_SWEEPS)}"
        if names
        else f"there are no sweeps in {location}/"
    )
    return f"DIR is missing: lengthwise {command} DIR, where DIR is the name or the folder of a sweep; {existing}"


def _advise_file(command: str | None) -> str:
    """Return the message for a missing FILE."""
    return (
        f"FILE is missing: lengthwise {command} FILE, where FILE is a YAML file or the name of an example, such as "
        "quickstart; `lengthwise list examples` shows all, `lengthwise init DIR` writes one of your own"
    )
