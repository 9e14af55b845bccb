"""The command of a program: its placeholders, and the words that they become for a member.

    [python, train.py, "${args}"]   ->   python train.py --lr=0.003 --optimizer.weight_decay=0.1 --seed=3

No shell reads the words. `${args}`, `${args_no_hyphens}` and `${args_no_boolean_flags}` are words of their own: they
give the seed and all values of `config` that have no placeholder elsewhere. `$${x}` is the text `${x}`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainers.errors import Problem, find_nearest

ARGUMENTS = ("args", "args_no_hyphens", "args_no_boolean_flags")
SINGLE = ("config_file", "seed", "steps", "checkpoints", "folder", "reports")
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


def split_command(command: str) -> list[str]:
    """Return the words of a command as a shell would split it; raises ValueError for an open quotation mark."""
    return shlex.split(command)


def find_unknown_placeholders(words: Iterable[str], config_keys: Iterable[str]) -> list[Problem]:
    """Return a problem for each placeholder without a value; `config_keys` are dotted, without `config.`."""
    allowed = [*ARGUMENTS, *SINGLE, *(f"config.{key}" for key in config_keys)]
    problems = []
    for word in words:
        for name in sorted(_find_placeholders([word])):
            if name not in allowed:
                meant = f"config.{name}" if f"config.{name}" in allowed else find_nearest(name, allowed)
                problems.append(_make_problem(f"unknown placeholder ${{{name}}}", word, ", ".join(allowed), meant))
            elif name in ARGUMENTS and word != f"${{{name}}}":
                problems.append(
                    _make_problem(f"${{{name}}} gives several words, so it must be a word of its own", word)
                )
    return problems


def fill_words(words: Sequence[str], values: PlaceholderValues) -> list[str]:
    """Return the words with every placeholder replaced; an option whose value is null is left out."""
    known = {name: getattr(values, name) for name in SINGLE} | dict(list_dotted(values.config, "config."))
    elsewhere = _find_placeholders(words)
    arguments = {
        key.removeprefix("config."): known[key]
        for key in (*dict(list_dotted(values.config, "config.")), "seed")
        if key not in elsewhere and known[key] is not None and not isinstance(known[key], Mapping)
    }
    filled: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        names = _find_placeholders([word])
        if names & set(ARGUMENTS):
            filled += _make_arguments(arguments, names.pop())
        elif any(known[name] is None for name in names):
            # Of `--lr ${config.lr}` both words are left out.
            if _PLACEHOLDER.fullmatch(word) and _OPTION.fullmatch(before):
                filled.pop()
        else:
            filled.append(
                _PLACEHOLDER.sub(lambda match: "${" if match[1] is None else _format_value(known[match[1]]), word)
            )
    return filled


def receives_key(words: Iterable[str], key: str, files: Iterable[Path] = ()) -> bool:
    """Return whether a program receives `key`, "seed" or "config.KEY", by its words or in its files by the client."""
    names = _find_placeholders(words)
    parts = key.split(".")
    prefixes = {".".join(parts[: count + 1]) for count in range(len(parts))}
    if names & {*ARGUMENTS, *prefixes} or (parts[0] == "config" and "config_file" in names):
        return True
    return any(_reads_key(path.read_text(encoding="utf-8", errors="replace"), parts[0]) for path in files)


def _reads_key(code: str, key: str) -> bool:
    """Return whether a file reads `key` of the client, not of the arguments that it has parsed itself."""
    for name in re.findall(r"(\w+)\s*=\s*[\w.()]*parse_args\(", code):
        code = re.sub(rf"\b{name}\.{key}\b", "", code)
    return re.search(rf"LENGTHWISE_{key.upper()}\b|\blengthwise\b.*\.{key}\b", code, re.DOTALL) is not None


def _find_placeholders(words: Iterable[str]) -> set[str]:
    return {match[1] for word in words for match in _PLACEHOLDER.finditer(word) if match[1] is not None}


def list_dotted(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield every value of a nested mapping with its dotted key, the inner mappings too."""
    for key, value in values.items():
        yield f"{prefix}{key}", value
        if isinstance(value, Mapping):
            yield from list_dotted(value, f"{prefix}{key}.")


def _make_arguments(arguments: Mapping[str, Any], placeholder: str) -> Iterator[str]:
    hyphens = "" if placeholder == "args_no_hyphens" else "--"
    for key, value in arguments.items():
        if placeholder == "args_no_boolean_flags" and isinstance(value, bool):
            yield from [f"--{key}"] * value
        else:
            yield f"{hyphens}{key}={_format_value(value)}"


def _format_value(value: Any) -> str:
    """Return a value as a word: booleans as True and False, lists and mappings as JSON without spaces."""
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list | tuple | Mapping) else str(value)


def _make_problem(message: str, word: str, allowed: str | None = None, meant: str | None = None) -> Problem:
    return Problem(key="program.command", message=message, given=word, allowed=allowed, nearest=meant)
