"""Collect the requested files of `lengthwise export`, check all of them, then write them."""

from collections.abc import Callable
from pathlib import Path

from orchestrator.errors import UserError, refuse_unwritable
from orchestrator.record.files.code import read_program
from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarise
from orchestrator.targets import check_ending, check_targets
from orchestrator.text.wording import format_command, format_count
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
    _check_options(best, weights, latex, figures, curves, to, size, labels)

    # Everything is made before anything is written, so an error leaves no files behind. `files` has functions instead
    # of contents, because weights may not fit into memory.
    state = SweepState.load(folder)
    summary = summarise(state)
    files: dict[Path, Callable[[], bytes]] = {}
    paths, lines = list[Path](), list[str]()

    def add(path: Path, content: bytes | str, *notes: str) -> None:
        encoded = content.encode() if isinstance(content, str) else content
        paths.append(path)
        files[path] = lambda: encoded
        lines.extend([f"wrote {path}", *notes])

    # Imports are local, because matplotlib and the others are slow to import.
    label_texts = {}
    if labels:
        from orchestrator.export.labels import read_labels

        label_texts = read_labels(labels, summary)
    if best:
        from orchestrator.export.best import make_best_file

        # The exported file finds its modules and its program only in its own folder.
        modules = state.spec.get("imports")
        module_note = (f"it imports {', '.join(modules)}: keep these modules beside it",) if modules else ()
        add(best, make_best_file(state, summary), *module_note, f"run it with: {format_command('run', best)}")
        for name, content in read_program(state).items():  # an equal file is not replaced
            if not (target := best.parent / name).is_file() or target.read_bytes() != content:
                add(target, content)
    if latex:
        from orchestrator.export.latex import make_latex_table

        add(
            latex,
            make_latex_table(summary, label_texts),
            "include it in a table of a document with \\usepackage{booktabs}",
        )
    if figures:
        from orchestrator.export.paper_figures import DEFAULT_SIZE, draw_paper_figures, make_caption, parse_size

        inches = parse_size(size) if size else DEFAULT_SIZE
        for path, content in draw_paper_figures(summary, figures, to or Path(), inches, label_texts).items():
            add(path, content)

        # A paper must say what bands and points are; the figure itself has no room for it.
        lines.append(f"for the caption: {make_caption(summary, label_texts)}")
        if summary.searched:
            lines.append(
                "for hyperparameters: one point for each configuration, with the quartiles over its seeds; the star is "
                "ranked first; line and band: medians and quartiles of neighbouring configurations, or of a category"
            )
    if curves:
        add(curves, read_curves(state).to_csv(index=False))
    if weights:
        from orchestrator.export.weights import LOADER, collect_weights_files

        tensor_files = collect_weights_files(state, weights)
        files |= tensor_files
        paths += tensor_files
        lines += [
            f"wrote {format_count(len(tensor_files), 'file')} of weights to {weights}; to load one in plain torch:"
        ]
        lines += LOADER.format(path=str(next(iter(tensor_files)))).splitlines()

    # All targets are checked first, so that an existing file leaves the others unwritten.
    new_parents = {parent for path in paths for parent in path.parents if best and best.parent in parent.parents}
    check_targets(paths, force=force, new_folders=(weights, to, *new_parents))
    for path, read_content in files.items():
        with refuse_unwritable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, [read_content()])
    return lines


def _check_options(
    best: Path | None,
    weights: Path | None,
    latex: Path | None,
    figures: str | None,
    curves: Path | None,
    to: Path | None,
    size: str | None,
    labels: Path | None,
) -> None:
    """Raise UserError if nothing is requested, an option has no effect, or a file has another ending than expected."""
    if not any((best, weights, latex, figures, curves)):
        raise UserError("nothing to export; allowed: one or more of --best, --weights, --latex, --figures, --curves")
    if size and not figures:
        raise UserError("--size: only allowed with --figures")
    if to and not figures:
        raise UserError("--to: only allowed with --figures")
    if labels and not (figures or latex):
        raise UserError("--labels: only allowed with --figures or --latex")
    for option, path, ending in (("best", best, ".yaml"), ("latex", latex, ".tex"), ("curves", curves, ".csv")):
        check_ending(option, path, ending)
