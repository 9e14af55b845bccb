"""The command of a program: its placeholders, and the words that they become for a member.

    [python, train.py, "${args}"]   ->   python train.py --lr=0.003 --optimizer.weight_decay=0.1 --seed=3

No shell reads the words. `${args}`, `${args_no_hyphens}` and `${args_no_boolean_flags}` each become several words: the
seed, and all values of `config` that have no placeholder elsewhere. `$${x}` is the text `${x}`.
"""

from __future__ import annotations

import io
import json
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.grammar.sections import list_dotted_keys, read_key
from trainers.errors import Problem, find_nearest

ARGUMENT_LISTS = ("args", "args_no_hyphens", "args_no_boolean_flags")
SINGLE_VALUES = ("config_file", "seed", "steps", "checkpoints", "folder", "reports")
_PLACEHOLDER = re.compile(r"\$\$\{|\$\{([^}]*)\}")  # without a group: an escaped `${`
_OPTION = re.compile(r"--?[^=$]+")


@dataclass(frozen=True, kw_only=True)
class PlaceholderValues:
    """The values of the placeholders for one member; `config` may be nested."""

    config: Mapping[str, Any]
    config_file: Path
    seed: int
    steps: int
    checkpoints: Path
    folder: Path
    reports: Path


def passes_config(words: Iterable[str]) -> bool:
    """Return whether a command gives the program values of its config."""
    names = _find_placeholders(words)
    return any(name in (*ARGUMENT_LISTS, "config_file") or name.startswith("config.") for name in names)


def find_unknown_placeholders(words: Iterable[str], config_keys: Iterable[str]) -> list[Problem]:
    """Return a problem for each unknown or misused placeholder; `config_keys` are dotted, without `config.`."""
    allowed = [*ARGUMENT_LISTS, *SINGLE_VALUES, *(f"config.{key}" for key in config_keys)]
    problems = []
    for word in words:
        for name in sorted(_find_placeholders([word])):
            if name not in allowed:
                # The section is often forgotten: ${lr} is meant as ${config.lr}.
                nearest = f"config.{name}" if f"config.{name}" in allowed else find_nearest(name, allowed)
                problems.append(_make_problem(f"unknown placeholder ${{{name}}}", word, ", ".join(allowed), nearest))
            elif name in ARGUMENT_LISTS and word != f"${{{name}}}":
                problems.append(
                    _make_problem(f"${{{name}}} gives several words, so it must be a word of its own", word)
                )
    return problems


def fill_words(words: Sequence[str], values: PlaceholderValues) -> list[str]:
    """Return the words with every placeholder replaced; an option whose value is null is left out.

    An option in the word before a placeholder counts as the option of its value, even if the program has it as a flag.
    """
    # Inner mappings are not arguments themselves, because their values are.
    config = {f"config.{key}": read_key(values.config, key) for key in list_dotted_keys(values.config)}
    by_name = {name: getattr(values, name) for name in SINGLE_VALUES} | config
    placed = _find_placeholders(words)
    arguments = {
        key.removeprefix("config."): by_name[key]
        for key in (*config, "seed")
        if key not in placed and by_name[key] is not None and not isinstance(by_name[key], Mapping)
    }

    # If the value in `--lr ${config.lr}` is null, the option before the placeholder must go as well.
    filled: list[str] = []
    for previous, word in zip(["", *words], words, strict=False):
        names = _find_placeholders([word])
        if names & set(ARGUMENT_LISTS):
            filled += _make_arguments(arguments, names.pop())
        elif any(by_name[name] is None for name in names):
            if _PLACEHOLDER.fullmatch(word) and _OPTION.fullmatch(previous):
                filled.pop()
        else:
            filled.append(
                _PLACEHOLDER.sub(lambda match: "${" if match[1] is None else _format_value(by_name[match[1]]), word)
            )
    return filled


def replaces_config_seed(words: Iterable[str]) -> bool:
    """Return whether `${args}` gives a program the seed of the member in place of a key `seed` of its config."""
    names = _find_placeholders(words)
    return bool(names & {*ARGUMENT_LISTS}) and not names & {"seed", "config.seed", "config_file"}


def receives_key(words: Iterable[str], key: str, files: Iterable[Path] = ()) -> bool:
    """Return whether a program receives `key` ("seed" or "config.KEY") in its words, or reads it by the client.

    files: the files of the program.
    """
    names = _find_placeholders(words)
    parts = key.split(".")
    prefixes = {".".join(parts[: count + 1]) for count in range(len(parts))}  # ${config.optimizer} has all its values
    if names & {*ARGUMENT_LISTS, *prefixes} or (parts[0] == "config" and "config_file" in names):
        return True
    return any(_reads_key(_read_code(path), parts[0]) for path in files)


def _read_code(path: Path) -> str:
    """Return the text of a file, a Python file without comments; after a syntax error they are kept."""
    code = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix != ".py":
        return code
    lines = code.split("\n")
    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    return "\n".join(lines)


def _reads_key(code: str, key: str) -> bool:
    """Return whether a file reads `key` by the client; neither `args.seed` of a parser nor `random.seed(0)` counts."""
    for name in re.findall(r"(\w+)\s*=\s*[\w.()]*parse_args\(", code):
        code = re.sub(rf"\b{name}\.{key}\b", "", code)
    return re.search(rf"LENGTHWISE_{key.upper()}\b|\blengthwise\b.*\.{key}\b(?!\s*\()", code, re.DOTALL) is not None


def _find_placeholders(words: Iterable[str]) -> set[str]:
    """Return the names of all placeholders in these words."""
    return {match[1] for word in words for match in _PLACEHOLDER.finditer(word) if match[1] is not None}


def _make_arguments(arguments: Mapping[str, Any], placeholder: str) -> Iterator[str]:
    """Yield a word for each argument, in the form of the placeholder; a boolean flag is left out if it is false."""
    hyphens = "" if placeholder == "args_no_hyphens" else "--"
    for key, value in arguments.items():
        if placeholder == "args_no_boolean_flags" and isinstance(value, bool):
            yield from [f"--{key}"] * value
        else:
            yield f"{hyphens}{key}={_format_value(value)}"


def _format_value(value: Any) -> str:
    """Return a value as a word: booleans as True and False, lists and mappings as JSON without spaces."""
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list | tuple | Mapping) else str(value)


def _make_problem(message: str, word: str, allowed: str | None = None, nearest: str | None = None) -> Problem:
    return Problem(key="program.command", message=message, given=word, allowed=allowed, nearest=nearest)
