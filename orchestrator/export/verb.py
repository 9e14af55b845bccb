"""Collect the requested files of `lengthwise export`, check all of them, then write them."""

from collections.abc import Callable
from pathlib import Path

from orchestrator.errors import UserError, refuse_unwritable
from orchestrator.record.kept.code import read_program
from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.results.summarise import summarise
from orchestrator.targets import check_ending, check_targets
from orchestrator.text.wording import command, counted
from trainers.files.atomic_file import write_atomic


def export(
    folder: Path,
    *,
    best: Path | None = None,
    weights: Path | None = None,
    latex: Path | None = None,
    figures: str | None = None,
    curves: Path | None = None,
    to: Path | None = None,
    size: str | None = None,
    labels: Path | None = None,
    force: bool = False,
) -> list[str]:
    """Write the requested files, and return lines to print.

    Figures go into the folder `to`; `size` is in inches. Raises UserError for options that do not fit together, for
    files that exist (unless `force`) and for missing results, SweepFileError for an invalid labels file, before
    anything is written.
    """
    # Refuse options that do not fit together.
    if not any((best, weights, latex, figures, curves)):
        every = "--best, --weights, --latex, --figures, --curves"
        raise UserError(f"nothing to export; allowed: one or more of {every}")
    if size and not figures:
        raise UserError("--size: only allowed with --figures")
    if to and not figures:
        raise UserError("--to: only allowed with --figures")
    if labels and not (figures or latex):
        raise UserError("--labels: only allowed with --figures or --latex")
    for option, path, ending in (
        ("best", best, ".yaml"),
        ("latex", latex, ".tex"),
        ("curves", curves, ".csv"),
    ):
        check_ending(option, path, ending)

    # Make everything in memory first: `files` has the content of each path.
    state = SweepState.load(folder)
    result = summarise(state)
    files: dict[Path, Callable[[], bytes]] = {}
    paths, lines = list[Path](), list[str]()

    def add(path: Path, content: bytes | str, *notes: str) -> None:
        encoded = content.encode() if isinstance(content, str) else content
        paths.append(path)
        files[path] = lambda: encoded
        lines.extend([f"wrote {path}", *notes])

    # Make each requested kind of file, with lines on its use.
    own_names = {}
    if labels:
        from orchestrator.export.labels import read_labels

        own_names = read_labels(labels, result)
    if best:
        from orchestrator.export.best import best_file

        modules = state.spec.get("imports")
        module_note = (f"it imports {', '.join(modules)}: keep these modules beside it",) if modules else ()
        add(best, best_file(state, result), *module_note, f"run it with: {command('run', best)}")
        for name, content in read_program(state).items():  # an equal file stays
            if not (target := best.parent / name).is_file() or target.read_bytes() != content:
                add(target, content)
    if latex:
        from orchestrator.export.latex import latex_table

        add(latex, latex_table(result, own_names), "put it into a table of a document with \\usepackage{booktabs}")
    if figures:
        from orchestrator.export.paper_figures import SIZE, caption, paper_figures, parse_size

        inches = parse_size(size) if size else SIZE
        for path, content in paper_figures(result, figures, to or Path(), inches, own_names).items():
            add(path, content)
        lines.append(f"for the caption: {caption(result, own_names)}")
    if curves:
        add(curves, read_curves(state).to_csv(index=False))
    if weights:
        from orchestrator.export.weights import LOADER, weights_files

        tensor_files = weights_files(state, weights)
        files |= tensor_files
        paths += tensor_files
        lines += [f"wrote {counted(len(tensor_files), 'file')} of weights to {weights}; this loads one in plain torch:"]
        lines += LOADER.format(path=str(next(iter(tensor_files)))).splitlines()

    # Write them all, unless one of them exists.
    below_best = {parent for path in paths for parent in path.parents if best and best.parent in parent.parents}
    check_targets(paths, force=force, new_folders=(weights, to, *below_best))
    for path, read in files.items():
        with refuse_unwritable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, [read()])
    return lines
