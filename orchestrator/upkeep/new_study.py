"""Write the files that a new study begins with: copies of search_spaces/examples/start."""

import json
import re
from pathlib import Path

from orchestrator.errors import convert_write_errors
from orchestrator.targets import check_targets
from orchestrator.text.wording import format_command
from search_spaces.grammar.parse import read_yaml
from search_spaces.grammar.problems import Findings
from search_spaces.grammar.shipped import FOLDER
from search_spaces.grammar.values import find_name_problem, normalize_name
from trainers.files.atomic_file import write_atomic

START_FOLDER = FOLDER / "examples" / "start"


def write_start_files(folder: Path, *, program: bool, force: bool = False) -> list[str]:
    """Write a sweep file with a task and a model, or with a training script, into `folder`; return lines to print.

    The sweep gets the name of the folder, unless a sweep must not have it. Raises UserError if one of the files exists,
    unless `force`; then nothing is written.
    """
    sources = sorted(path for path in (START_FOLDER / ("program" if program else "own")).iterdir() if path.is_file())
    check_targets([folder / source.name for source in sources], force=force, new_folders=(folder, *folder.parents))

    # The lines say which files were replaced, because --force may replace a file of the user.
    replaced = {source.name for source in sources if (folder / source.name).exists()}

    # If the name of the folder is not allowed for a sweep, the name in the copied file stays. Names that YAML would
    # read as another value, such as null or 1e3, are quoted.
    name = normalize_name(folder.resolve().name)
    is_plain = re.fullmatch(r"[\w-]+", name) and read_yaml(name, Findings("")) == name
    value = name if is_plain else json.dumps(name, ensure_ascii=False)
    for source in sources:
        text = source.read_text(encoding="utf-8")
        if source.suffix == ".yaml" and find_name_problem(name) is None:
            # The comment behind the name stays in its column if there is room.
            replace_name = lambda match: f"name: {value}".ljust(len(match[0]) - 1) + " "  # noqa: E731
            text = re.sub(r"^name: \w+ +", replace_name, text, count=1, flags=re.M)
        with convert_write_errors(folder / source.name):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / source.name, [text.encode()])
    sweep = folder / "sweep.yaml"
    wrote = (f"{'replaced' if source.name in replaced else 'wrote'} {folder / source.name}" for source in sources)
    return [*wrote, f"run it with: {format_command('run', sweep)}"]
