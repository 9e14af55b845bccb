"""Programs as a trainer: packs of a single member, run by the user's command or function."""

from __future__ import annotations

import hashlib
import importlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.code.user_code import CodeSource, read_files
from orchestrator.interface.measurements import Measurements
from orchestrator.interface.trainer import DeclaredObjective, PackCost
from orchestrator.interface.work import PackWork
from orchestrator.program.command import receives_key, replaces_config_seed
from orchestrator.program.member_run import make_search_path, run_member
from orchestrator.program.needed_files import find_files
from orchestrator.program.program_member import ProgramEvaluation, ProgramMember, ProgramSettings
from search_spaces.grammar.sections import PROGRAM_SECTIONS, list_dotted_keys, read_key
from trainers.errors import ConfigError, Problem, find_nearest, suggest_nearest
from trainers.settings.fields import Settings
from trainers.tasks.metric_descriptions import RecordedMetric

if TYPE_CHECKING:
    from trainers.evaluation.results import Reporter

_DESCRIBE_INTERPRETER = """
import importlib.metadata, sys
print(sys.version.split()[0])
print(*sorted(f"{package.name}=={package.version}" for package in importlib.metadata.distributions()), sep="\\n")
"""


class ProgramTrainer:
    """Starts a command, or calls a function, for every member. See `orchestrator.interface.trainer.Trainer`."""

    sections: tuple[str, ...] = PROGRAM_SECTIONS
    is_local = True
    inline_curves = True
    max_equal_failures: int | None = 3
    member_class: type[Settings] = ProgramMember

    def build(self, sections: Mapping[str, Any], *, recorded: bool) -> ProgramMember:
        """Return the member of seed 0. Raises ConfigError."""
        return ProgramMember.from_mapping({**sections, "seed": 0})

    def rebuild(self, resolved: Mapping[str, Any], seed: int) -> ProgramMember:
        """Return a member of a recorded configuration. Raises ConfigError."""
        return ProgramMember.from_mapping({**resolved, "seed": seed})

    def list_corrections(self, resolved: Mapping[str, Any]) -> list[str]:
        """Return nothing: the code of a program is compared by its files."""
        return []

    def list_measurements(self, member: ProgramMember) -> Measurements:
        """Return the declared metrics."""
        return member.measurements

    def read_declared_objective(self, sections: Mapping[str, Any]) -> DeclaredObjective | None:
        """Return the declared metrics, averages and lengths; None if the section `evaluation` cannot be built."""
        try:
            evaluation = ProgramEvaluation.from_mapping(sections["evaluation"])
        except (ConfigError, TypeError, AttributeError):  # perhaps no mapping
            return None
        metrics = {
            name: RecordedMetric(name, "", evaluation.get_direction(name), evaluation.get_lengths(name), ())
            for name in evaluation.metrics
        }
        lengths = tuple(sorted({length for metric in metrics.values() for length in metric.lengths}))
        return DeclaredObjective(metrics=metrics, averages=evaluation.averages, lengths=lengths)

    def find_local_problems(self, members: Iterable[ProgramMember]) -> list[Problem]:
        """Return nothing: files and commands are checked by `find_trial_problems`."""
        return []

    def find_initial_weight_problems(self, member: ProgramMember, seeds: Collection[int]) -> list[Problem]:
        """Return nothing: a program chooses its own initial weights."""
        return []

    def find_trial_problems(self, member: ProgramMember, folder: Path | None) -> list[tuple[str, str]]:
        """Return a problem for each missing file, command or function; `validate --smoke` runs the program itself."""
        if member.program.imported is not None:
            return [("program.imported", "results that were imported cannot be trained again")]
        root = _find_root(folder)
        problems = [(key, _describe_missing(name, root)) for key, name in _find_missing_files(member, root)]

        # The nodes of a cluster may have commands that this machine lacks.
        command = (*member.program.words, "")[0]
        is_searched = command and "/" not in command and "$" not in command and not os.environ.get("RAY_ADDRESS")
        if is_searched and shutil.which(command, path=make_search_path()) is None:
            hint = "not in PATH; no shell reads this line; for shell syntax use bash -c"
            problems.append(("program.command", f"command {command} {hint}"))
        if member.program.function is not None:
            problems += _find_function_problems(member.program.function)
        return problems

    def find_sources(self, members: Iterable[ProgramMember], folder: Path | None) -> list[CodeSource]:
        """Return the files of the commands, which are copied and hashed. Raises UserCodeError."""
        commands = [member.program for member in members if member.program.command is not None]
        names = {name for program in commands for name in _list_files(program, folder)}
        return [read_files(_find_root(folder), sorted(names))] if commands else []

    def find_warnings(self, members: Iterable[ProgramMember], folder: Path | None) -> list[tuple[str, str]]:
        """Return warnings of lost test lengths, of scripts elsewhere, and of commands without seed or searched keys.

        Without seed or searched keys a program would train the same model in every member. `${args}` gives the seed of
        the member as `--seed`, so it cannot give a key `seed` of config. A script outside of the folder of the sweep
        file may change while the sweep runs. No result would show any of these.
        """
        members = list(members)
        lost_lengths = filter(None, (member.describe_lost_lengths() for member in members))
        warnings = [("evaluation.trained_lengths", message) for message in lost_lengths]
        commands = dict.fromkeys(member.program.words for member in members if member.program.command is not None)
        for words in commands:
            if outside := [word for word in _find_scripts(words) if _is_outside(word, _find_root(folder))]:
                message = "not below the folder of the sweep file, so it is not copied, and its changes are not noticed"
                warnings.append(("program.command", f"{', '.join(outside)}: {message}"))
            files = [_find_root(folder) / name for name in find_files(words, _find_root(folder))]
            has_seed = any("seed" in member.config for member in members)
            if has_seed and replaces_config_seed(words) and not receives_key((), "config.seed", files):
                message = "the program receives the seed of the member in place of config.seed"
                warnings.append(
                    ("program.command", f"{message}; rename the key, or add ${{config.seed}} to the command")
                )
            keys = ["seed", *(f"config.{key}" for key in _find_varied_keys([member.config for member in members]))]
            missing_keys = [key for key in keys if not receives_key(words, key, files)]
            if missing_keys:
                problem = f"the program does not receive {', '.join(missing_keys)}, so other values change nothing"
                fields = ", ".join(dict.fromkeys(f"run.{key.partition('.')[0]}" for key in missing_keys))
                advice = f"add ${{args}}, or use {fields} after run = lengthwise.member()"
                warnings.append(("program.command", f"{problem}; {advice}"))
        return warnings

    def find_oversized_parts(self, member: ProgramMember) -> list[Problem]:
        """Return nothing: the memory of a program is not known."""
        return []

    def count_kept_bytes(self, member: ProgramMember) -> int:
        """Return 0: no weights are kept."""
        return 0

    def estimate_pack_cost(self, member: ProgramMember, gpus: float) -> PackCost:
        """Return the cost of a pack of one member, which is proportional to its steps."""
        return PackCost(max_members=1, bytes_per_member=1, per_pack=0.0, per_member=float(member.steps))

    def estimate_seconds(self, member: ProgramMember) -> float:
        """Return the training time that the sweep file gives, in seconds; 0 if it gives none."""
        return 60.0 * (member.program.member_minutes or 0.0)

    def describe_parameters(self, resolved: Mapping[str, Any]) -> str | None:
        """Return None: the parameters of a program are not known."""
        return None

    def read_environment(self, work: PackWork) -> dict[str, str | int | bool]:
        """Return the device, the command, and for Python its version and a digest of its installed packages."""
        table: dict[str, str | int | bool] = {
            "device": "gpu" if work.gpus else "cpu",
            "threads": work.cpus,
            "processor": platform.processor() or platform.machine(),
            **{f"module {fields['module']}": fields["sha256"][:16] for fields in work.modules},
        }
        words = self.rebuild(work.members[0], 0).program.words
        command = shutil.which(words[0], path=make_search_path()) if words else sys.executable
        return table | _describe_command(command or "")

    def train_members(self, work: PackWork, members: list[ProgramMember], reporter: Reporter, checkpoints: Any) -> None:
        """Run the program or the function of the only member of a pack; see `run_member`."""
        run_member(work, members[0], reporter)


def _find_root(folder: Path | None) -> Path:
    """Return the folder of the files that a command names: the folder of the sweep file, else the current folder."""
    return (folder or Path.cwd()).resolve()


def _list_files(program: ProgramSettings, folder: Path | None) -> list[str]:
    """Return the files that a program needs, relative to the folder of the sweep file."""
    if program.files is not None:
        return list(program.files)
    return [name.as_posix() for name in find_files(program.words, _find_root(folder))]


def _find_missing_files(member: ProgramMember, root: Path) -> list[tuple[str, str]]:
    """Return (dotted key, name) of each missing file that the sweep file names."""
    if member.program.files is not None:
        named = list(member.program.files)
        key = "program.files"
    else:
        named = _find_scripts(member.program.words)
        key = "program.command"
    return [(key, name) for name in named if not (root / name).is_file()]


def _find_scripts(words: Iterable[str]) -> list[str]:
    """Return the scripts that words of a command name, such as train.py or --script=train.py."""
    # A word with spaces is a script for bash -c.
    names = [word.rpartition("=")[2] for word in words if "$" not in word]
    return [name for name in names if name.endswith((".py", ".sh")) and not any(map(str.isspace, name))]


def _is_outside(name: str, root: Path) -> bool:
    """Return whether a file is not below `root`; an absolute name, or one that begins with `../`, may be below it."""
    return not Path(os.path.normpath(root / name)).is_relative_to(root)


def _describe_missing(name: str, root: Path) -> str:
    """Return the message for a missing file, with the nearest name of a file with the same ending in its folder."""
    similar = sorted(path.name for path in (root / name).parent.glob("*") if path.suffix == Path(name).suffix)
    nearest = find_nearest(Path(name).name, similar)
    hint = f"; did you mean {Path(name).with_name(nearest).as_posix()}?" if nearest else ""
    return f"there is no file {name} in {root}, the folder of the sweep file{hint}"


def _find_function_problems(function: str) -> list[tuple[str, str]]:
    """Return a problem if the imported module lacks the function."""
    module, _, name = function.rpartition(".")
    names = vars(importlib.import_module(module))
    if callable(names.get(name)):
        return []
    functions = [other for other, value in names.items() if callable(value) and not other.startswith("_")]
    return [("program.function", f"{module} has no function {name}{suggest_nearest(name, functions)}")]


def _find_varied_keys(configs: list[Mapping[str, Any]]) -> list[str]:
    """Return the dotted keys whose values differ between configurations; inner mappings are not values."""
    keys = dict.fromkeys(key for config in configs for key in list_dotted_keys(config))
    values = {key: [read_key(config, key) for config in configs] for key in keys}
    return [
        key
        for key, column in values.items()
        if any(value != column[0] for value in column) and type(column[0]) is not dict
    ]


@lru_cache(maxsize=8)
def _describe_command(command: str) -> dict[str, str | int | bool]:
    """Return the path of a command, and for an interpreter or script of Python also its version and packages."""
    table: dict[str, str | int | bool] = {"command": command}
    interpreter = _find_interpreter(command)
    if interpreter is None:
        return table
    words = [interpreter, "-I", "-c", _DESCRIBE_INTERPRETER]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return table

    # The digest covers all packages; name only packages that usually explain different numbers.
    version, *packages = answer.stdout.splitlines()
    named = [name for name in packages if name.partition("==")[0] in ("torch", "jax", "numpy", "transformers")]
    digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:16]
    return table | {"python": version, "packages": digest, **dict(name.split("==", 1) for name in named)}


def _find_interpreter(command: str) -> str | None:
    """Return the Python interpreter of a command: itself, or the one in the first line of a script; else None."""
    if Path(command).name.startswith("python"):
        return command
    try:
        with Path(command).open("rb") as file:
            first_line = file.readline(512)
    except OSError:
        return None
    words = first_line[2:].decode(errors="replace").split() if first_line.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":  # #!/usr/bin/env -S python3 -u
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return shutil.which(words[0]) if words and Path(words[0]).name.startswith("python") else None
