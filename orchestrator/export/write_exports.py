"""Collect the requested files of `lengthwise export`, check all of them, then write them.

Most imports are local, because matplotlib and the others are slow to import.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import UserError, convert_write_errors
from orchestrator.record.files.curves import read_curves
from orchestrator.record.files.recorded_modules import read_program
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.results.scoring.configuration_scores import read_objective
from orchestrator.results.summary import Summary
from orchestrator.targets import check_ending, check_targets
from orchestrator.text.wording import format_command, format_count
from trainers.files.atomic_file import write_atomic


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """The options of `lengthwise export`: the files to write, and how figures and tables look."""

    best: Path | None = None  # the best configuration as a sweep file
    weights: Path | None = None  # a folder for weights
    latex: Path | None = None  # the table of configurations
    figures: str | None = None  # the format of figures
    curves: Path | None = None  # every curve of every seed
    to: Path | None = None  # the folder of figures
    size: str | None = None  # of figures, in inches
    labels: Path | None = None  # a file with names of metrics, keys and configurations

    def check(self) -> None:
        """Raise UserError for a request of nothing, for an option without effect, and for a wrong ending of a file."""
        if not any((self.best, self.weights, self.latex, self.figures, self.curves)):
            raise UserError(
                "nothing to export; allowed: one or more of --best, --weights, --latex, --figures, --curves"
            )
        if self.size and not self.figures:
            raise UserError("--size: only allowed with --figures")
        if self.to and not self.figures:
            raise UserError("--to: only allowed with --figures")
        if self.labels and not (self.figures or self.latex):
            raise UserError("--labels: only allowed with --figures or --latex")
        endings = (("best", self.best, ".yaml"), ("latex", self.latex, ".tex"), ("curves", self.curves, ".csv"))
        for option, path, ending in endings:
            check_ending(option, path, ending)


@dataclass
class _PlannedFiles:
    """Files to write, with functions instead of contents, because weights may not fit into memory; lines to print."""

    files: dict[Path, Callable[[], bytes]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def add(self, path: Path, content: bytes | str, *notes: str) -> None:
        """Add a file with notes for the user. Raises UserError if another of the files has its path."""
        if path in self.files:
            raise UserError(f"{path}: two of the files to export have this name; allowed: another one")
        encoded = content.encode() if isinstance(content, str) else content
        self.files[path] = lambda: encoded
        self.lines += [f"wrote {path}", *notes]


def export(folder: Path, request: ExportRequest, *, force: bool = False) -> list[str]:
    """Write the requested files, and return lines to print.

    Raises these errors before anything is written: UserError for options that do not fit together, for files that exist
    (unless `force`) and for missing results; SweepFileError for an invalid labels file.
    """
    # All files show the same summary, with the texts of the user's labels.
    request.check()
    state = SweepState.load(folder)
    summary = summarize(state)
    label_texts = {}
    if request.labels:
        from orchestrator.export.user_labels import read_labels

        label_texts = read_labels(request.labels, summary)

    # Everything is made before anything is written, so an error leaves no files behind.
    planned = _PlannedFiles()
    if request.best:
        _plan_best(planned, request.best, state, summary)
    if request.latex:
        from orchestrator.export.latex import make_latex_table

        note = "include it in a table of a document with \\usepackage{booktabs}"
        planned.add(request.latex, make_latex_table(summary, label_texts), note)
    if request.figures:
        _plan_figures(planned, request, request.figures, summary, label_texts)
    if request.curves:
        planned.add(request.curves, read_curves(state).to_csv(index=False))
    if request.weights:
        _plan_weights(planned, request.weights, state)

    # All targets are checked first, so that an existing file leaves the others unwritten.
    # New folders beside the file of --best may hold files of its program.
    new_parents = {
        parent
        for path in planned.files
        for parent in path.parents
        if request.best and request.best.parent in parent.parents
    }
    check_targets(list(planned.files), force=force, new_folders=(request.weights, request.to, *new_parents))
    for path, read_content in planned.files.items():
        with convert_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, [read_content()])
    return planned.lines


def _plan_best(planned: _PlannedFiles, path: Path, state: SweepState, summary: Summary) -> None:
    """Plan a sweep file of the first configuration, with the program beside it."""
    from orchestrator.export.best import make_best_file

    # The exported file finds its modules and its program only in its own folder.
    modules = state.spec.get("imports")
    module_note = (f"it imports {', '.join(modules)}: keep these modules beside it",) if modules else ()
    planned.add(path, make_best_file(state, summary), *module_note, f"run it with: {format_command('run', path)}")
    for name, content in read_program(state).items():  # an equal file is not replaced
        if not (target := path.parent / name).is_file() or target.read_bytes() != content:
            planned.add(target, content)


def _plan_figures(
    planned: _PlannedFiles, request: ExportRequest, form: str, summary: Summary, label_texts: Mapping[str, str]
) -> None:
    """Plan the figures of a paper in a format such as pdf, and print the sentences that their captions need."""
    from orchestrator.export.paper_figures import DEFAULT_SIZE, draw_paper_figures, make_caption, parse_size

    inches = parse_size(request.size) if request.size else DEFAULT_SIZE
    drawn = draw_paper_figures(summary, form, request.to or Path(), inches, label_texts)
    for path, content in drawn.items():
        planned.add(path, content)

    # A paper must say what bands and points are; the figure itself has no room for it.
    planned.lines.append(f"for the caption: {make_caption(summary, label_texts)}")
    if summary.searched:
        planned.lines.append(
            "for hyperparameters: one point for each configuration, with the quartiles over its seeds; the star is "
            "ranked first; line and band: medians and quartiles of neighbouring configurations, or of a category"
        )


def _plan_weights(planned: _PlannedFiles, folder: Path, state: SweepState) -> None:
    """Plan a file of weights for every member, and say how to load one."""
    from orchestrator.export.exported_weights import LOADER, collect_weights_files

    tensor_files = collect_weights_files(state, folder)
    planned.files |= tensor_files
    planned.lines += [
        f"wrote {format_count(len(tensor_files), 'file')} of weights to {folder}; to load one in plain torch:"
    ]
    prefix = f"{read_objective(state.spec).average}/"
    planned.lines += LOADER.format(path=str(next(iter(tensor_files))), prefix=prefix).splitlines()
