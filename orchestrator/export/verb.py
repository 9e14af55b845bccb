"""What `lengthwise export` does: gathers every file that is asked for, checks all of them, then writes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.export.files import check_targets, write_files
from orchestrator.record.state.state import SweepState
from orchestrator.results.summarise import summary
from orchestrator.wording import command, counted


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The files that are asked for; None for those that are not. Figures go into `to`, `size` is in inches."""

    best: Path | None = None
    weights: Path | None = None
    optuna: Path | None = None
    latex: Path | None = None
    figures: str | None = None
    notebook: Path | None = None
    to: Path = Path()
    size: str | None = None
    labels: Path | None = None
    force: bool = False


def export(folder: Path, asked: Asked) -> list[str]:
    """Write the files and return what to tell the user of them, line by line.

    Raises UserError for options that do not fit together, for files that exist (unless `force`) and for what the sweep
    does not have, SweepFileError for a wrong labels file; then nothing is written.
    """
    if not any((asked.best, asked.weights, asked.optuna, asked.latex, asked.figures, asked.notebook)):
        raise UserError(
            "nothing to export; give one or more of --best, --weights, --optuna, --latex, --figures, --notebook"
        )
    if asked.size and not asked.figures:
        raise UserError("--size is the size of figures; give --figures pdf too")
    if asked.labels and not (asked.figures or asked.latex):
        raise UserError("--labels names things in figures and tables; give --figures pdf or --latex table.tex too")
    state = SweepState.load(folder)
    result = summary(state)
    files: dict[Path, Callable[[], bytes]] = {}
    paths, lines = list[Path](), list[str]()

    def add(path: Path, content: bytes | str, *notes: str) -> None:
        made = content.encode() if isinstance(content, str) else content
        paths.append(path)
        files[path] = partial(bytes, made)
        lines.extend([f"wrote {path}", *notes])

    labels = {}
    if asked.labels:
        from orchestrator.export.labels import read_labels

        labels = read_labels(asked.labels, result)
    if asked.best:
        from orchestrator.export.best import best_file

        modules = state.spec.get("imports")
        beside = (f"it imports {', '.join(modules)}: keep these modules beside it",) if modules else ()
        add(asked.best, best_file(state, result), *beside, f"run it with: {command('run', asked.best)}")
    if asked.optuna:
        from orchestrator.export.optuna_study import study_file

        url = f"sqlite:///{asked.optuna}"
        how = f'read it with: optuna.load_study(study_name="{state.name}", storage="{url}")'
        add(asked.optuna, study_file(state, result), how)
    if asked.latex:
        from orchestrator.export.latex import latex_table

        add(asked.latex, latex_table(result, labels), "put it into a table of a document with \\usepackage{booktabs}")
    if asked.figures:
        from orchestrator.export.paper_figures import SIZE, caption, paper_figures, parse_size

        size = parse_size(asked.size) if asked.size else SIZE
        for path, content in paper_figures(result, asked.figures, asked.to, size, labels).items():
            add(path, content)
        lines.append(f"for the caption: {caption(result)}")
    if asked.notebook:
        from orchestrator.export.notebook import notebook

        add(asked.notebook, notebook(folder, result))
    if asked.weights:
        from orchestrator.export.weights import LOADER, weights_files

        kept = weights_files(state, asked.weights)
        files |= kept
        paths += kept
        lines += [f"wrote {counted(len(kept), 'file')} of weights to {asked.weights}; this loads one in plain torch:"]
        lines += LOADER.format(path=str(next(iter(kept)))).splitlines()
    check_targets(paths, force=asked.force, new_folders=(asked.weights, asked.to))
    write_files(files)
    return lines
