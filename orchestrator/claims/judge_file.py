"""Judge a claims file: print the verdict of every claim and write the page (`lengthwise claims`)."""

import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from orchestrator.claims.archive import locate_archive, write_archive
from orchestrator.claims.claim_descriptions import describe_counts, describe_question, format_effect
from orchestrator.claims.claims_page import CLAIMS_HEADER, find_pictures, write_claims_page
from orchestrator.claims.markdown import make_markdown_table
from orchestrator.claims.registration import list_changes
from orchestrator.claims.repeated_tests import group_tests
from orchestrator.claims.verdicts import count_verdicts, judge, read_tested_sweeps
from orchestrator.code.packages import make_module_command
from orchestrator.errors import SpecChanged, UserError, convert_write_errors
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.targets import check_ending
from orchestrator.text.wording import format_count
from search_spaces.grammar.claims import SOURCES, ClaimsFile, load_claims


def judge_claims(path: Path, storage: Path, page: Path | None = None, *, keep: bool = False) -> Iterator[str]:
    """Judge the claims of a file, and write the page if given; yield the lines to print.

    With `keep` every finished sweep of the storage folder is archived beside the claims file. Raises SweepFileError for
    an invalid claims file, UserError for a claim that does not fit its sweep, or a page that cannot be written.
    """
    # Refuse an unusable page early, because reading the sweeps takes long.
    file = load_claims(path)
    if page is not None:
        check_page(file, page)
    sweeps = read_tested_sweeps(file, storage)
    judgements = judge(file, sweeps)

    # Print each verdict, then the repeats, removals and counts of all claims together.
    yield f"{file.title}: claims of {file.paper}" if file.paper else file.title
    for judgement in judgements:
        yield f"{judgement.claim.id}: {judgement.verdict_text}"
        yield f"  {judgement.claim.says}"
        yield f"  {describe_question(judgement.claim)} {format_effect(judgement.claim, judgement.answer)}"
    for tests in group_tests(judgements):
        if len(tests) > 1:
            names = ", ".join(judgement.claim.id for judgement in tests)
            yield f"asked {len(tests)} times: {names}: {tests[-1].verdict}"
    for group in file.removed:
        yield f"removed: {', '.join(group.claims)}: {group.because}"
    for source in SOURCES:
        if sentence := describe_counts(*count_verdicts(judgements, source), source):
            yield sentence
    yield f"{sum(judgement.is_decided for judgement in judgements)} of {len(judgements)} tests are decided"

    # Archive only sweeps of the storage folder; the others were read from archives.
    for sweep in sweeps.values() if keep else ():
        if not isinstance(sweep, str) and sweep.folder == storage / sweep.name:
            archive = locate_archive(file, sweep.name)
            size = write_archive(sweep, [claim for claim in file.claims if claim.sweep == sweep.name], archive)
            yield f"wrote {archive} ({size / 1000:.0f} kB)"
    if page is not None:
        with convert_write_errors(page):
            written = write_claims_page(file, judgements, page)
        yield f"wrote {page} and {format_count(len(written) - 1, 'figure')}"


def check_page(file: ClaimsFile, page: Path) -> None:
    """Raise UserError if the page would replace another file, or a picture of `closing` is missing."""
    check_ending("page", page, ".md")
    if page.exists() and make_markdown_table(CLAIMS_HEADER, []).strip() not in page.read_text(
        encoding="utf-8", errors="replace"
    ):
        raise UserError(f"--page {page}: exists, and lengthwise did not write it; choose another name")
    find_pictures(file)


def run_missing(path: Path, storage: Path, say: Callable[[str], None], page: Path | None = None) -> int:
    """Run or resume every unfinished sweep of a claims file, each in its own process; return an exit code.

    Returns the exit code of the first sweep that does not complete, at least 1; 0 if all complete, even with failed
    packs.
    The sweep file is beside the claims file and named as the sweep. Raises SweepFileError for an invalid claims file,
    UserError if a new sweep has no file or the page could not be written later, SpecChanged if a sweep was begun with
    another specification.
    """
    # Check everything first, because an error after the first sweep would come hours later.
    file = load_claims(path)
    if page is not None:
        check_page(file, page)
    unfinished_sweeps = [name for name in file.sweeps if not _is_complete(storage / name)]
    for name in unfinished_sweeps:
        if not (storage / name / LEDGER_FILE).exists() and not path.with_name(f"{name}.yaml").exists():
            raise UserError(f"{path}: sweep {name} was not run, and {path.with_name(f'{name}.yaml')} does not exist")
    for name in file.sweeps:
        if (storage / name / LEDGER_FILE).exists():
            state = SweepState.load(storage / name)
            if changes := list_changes(state, file):
                raise SpecChanged(state.folder, changes)

    # The claims cannot be judged without all sweeps, so stop at the first that does not complete.
    for name in unfinished_sweeps:
        if (storage / name / LEDGER_FILE).exists():
            arguments = ["resume", str(storage / name)]
        else:
            arguments = ["run", str(path.with_name(f"{name}.yaml")), "--storage", str(storage)]
        say(shlex.join(["lengthwise", *arguments]))
        code = subprocess.run(make_module_command("orchestrator", *arguments), check=False).returncode
        if not _is_complete(storage / name):
            return code or 1  # a sweep that its budget stopped ends with 0
    return 0


def _is_complete(folder: Path) -> bool:
    """Return whether the folder holds a complete sweep."""
    return (folder / LEDGER_FILE).exists() and SweepState.load(folder).end_status == "complete"
