"""What `lengthwise export` does: gathers every file that is asked for, checks all of them, then writes."""

from collections.abc import Callable, Collection
from pathlib import Path

from orchestrator.errors import UserError, refuse_unwritable
from orchestrator.record.state.state import SweepState
from orchestrator.results.summarise import summary
from orchestrator.wording import command, counted, first_few
from trainers.files.atomic_file import write_atomic


def export(
    folder: Path,
    *,
    best: Path | None = None,
    weights: Path | None = None,
    optuna: Path | None = None,
    latex: Path | None = None,
    figures: str | None = None,
    notebook: Path | None = None,
    to: Path = Path(),
    size: str | None = None,
    labels: Path | None = None,
    force: bool = False,
) -> list[str]:
    """Write the files that are asked for and return what to tell the user of them, line by line.

    Figures go into `to`, `size` is in inches. Raises UserError for options that do not fit together, for files that
    exist (unless `force`) and for what the sweep does not have, SweepFileError for a wrong labels file; then nothing is
    written.
    """
    if not any((best, weights, optuna, latex, figures, notebook)):
        raise UserError(
            "nothing to export; give one or more of --best, --weights, --optuna, --latex, --figures, --notebook"
        )
    if size and not figures:
        raise UserError("--size is the size of figures; give --figures pdf too")
    if labels and not (figures or latex):
        raise UserError("--labels names things in figures and tables; give --figures pdf or --latex table.tex too")
    state = SweepState.load(folder)
    result = summary(state)
    files: dict[Path, Callable[[], bytes]] = {}
    paths, lines = list[Path](), list[str]()

    def add(path: Path, content: bytes | str, *notes: str) -> None:
        made = content.encode() if isinstance(content, str) else content
        paths.append(path)
        files[path] = lambda: made
        lines.extend([f"wrote {path}", *notes])

    own_names = {}
    if labels:
        from orchestrator.export.labels import read_labels

        own_names = read_labels(labels, result)
    if best:
        from orchestrator.export.best import best_file

        modules = state.spec.get("imports")
        beside = (f"it imports {', '.join(modules)}: keep these modules beside it",) if modules else ()
        add(best, best_file(state, result), *beside, f"run it with: {command('run', best)}")
    if optuna:
        from orchestrator.export.optuna_study import study_file

        url = f"sqlite:///{optuna}"
        how = f'read it with: optuna.load_study(study_name="{state.name}", storage="{url}")'
        add(optuna, study_file(state, result), how)
    if latex:
        from orchestrator.export.latex import latex_table

        add(latex, latex_table(result, own_names), "put it into a table of a document with \\usepackage{booktabs}")
    if figures:
        from orchestrator.export.paper_figures import SIZE, caption, paper_figures, parse_size

        inches = parse_size(size) if size else SIZE
        for path, content in paper_figures(result, figures, to, inches, own_names).items():
            add(path, content)
        lines.append(f"for the caption: {caption(result)}")
    if notebook:
        from orchestrator.export.notebook import notebook_text

        add(notebook, notebook_text(folder, result))
    if weights:
        from orchestrator.export.weights import LOADER, weights_files

        kept = weights_files(state, weights)
        files |= kept
        paths += kept
        lines += [f"wrote {counted(len(kept), 'file')} of weights to {weights}; this loads one in plain torch:"]
        lines += LOADER.format(path=str(next(iter(kept)))).splitlines()
    _check_targets(paths, force=force, new_folders=(weights, to))
    for path, read in files.items():
        with refuse_unwritable(path):
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, [read()])
    return lines


def _check_targets(paths: list[Path], *, force: bool, new_folders: Collection[Path | None]) -> None:
    """Raise UserError for a file that exists, unless `force`, and for a path where no file can be written.

    `new_folders` will be made if they are missing.
    """
    if twice := sorted({str(path) for path in paths if paths.count(path) > 1}):
        raise UserError(f"{first_few(twice)}: asked for twice; give each file a name of its own")
    for path in paths:
        if path.is_dir():
            raise UserError(f"{path}: is a folder; give the name of a file")
        folder = path.parent.parent if path.parent in new_folders and not path.parent.exists() else path.parent
        if not folder.is_dir():
            raise UserError(f"{path}: there is no folder {folder}")
    if existing := [str(path) for path in paths if path.exists() and not force]:
        raise UserError(f"{first_few(existing)}: exists already; choose another name, or --force to replace it")
