"""Write the page of a claims file as Markdown: headlines, up to four figures, claims with verdicts, details."""

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from orchestrator.claims.claim_descriptions import describe_counts, format_effect, label_axis
from orchestrator.claims.details_section import make_details_section
from orchestrator.claims.figures import draw_claim, is_drawable, write_small_png
from orchestrator.claims.judgement import NOT_TESTED, Judgement
from orchestrator.claims.markdown import fold, make_markdown_table
from orchestrator.claims.repeated_tests import find_judged_test, group_tests, name_judged_tests, name_tests
from orchestrator.claims.verdicts import count_verdicts
from orchestrator.errors import UserError
from orchestrator.text.redaction import remove_controls
from search_spaces.grammar.claims import SOURCES, Claim, ClaimsFile

CLAIMS_HEADER = ("name", "claim", "effect and 95 % interval", "verdict")  # since 1.0.0; identifies a page
HEADLINES_HEADER = ("the paper says", "verdict", "effect and 95 % interval", "fresh", "size beside the paper's")
MAX_FIGURES = 4
MAX_UNFOLDED_CLAIMS = 12  # of this study; further rows are folded
PICTURE = re.compile(r"(!\[[^\]]*\])\((?!\w+:)([^)\s]+)")  # a Markdown picture with a relative path


def write_claims_page(file: ClaimsFile, judgements: Sequence[Judgement], page: Path) -> list[Path]:
    """Write the page and, in a folder beside it, its figures; return the paths.

    Raises OSError if they cannot be written, UserError for a missing picture in the `closing` text.
    """
    closing, written_paths = copy_pictures(file, page)
    links = []
    for judgement in choose_figures(file, judgements):
        picture = page.parent / f"{page.stem}_figures" / f"{judgement.claim.id}.png"
        write_small_png(draw_claim(judgement), picture)
        written_paths.append(picture)
        links.append(f"![{_describe_picture(judgement.claim)}]({picture.relative_to(page.parent).as_posix()})\n")

    # Parts without content are left out.
    verdict_counts = (describe_counts(*count_verdicts(judgements, source), source) for source in SOURCES)
    parts = [
        f"# {file.title}\n",
        file.paper and f"Claims of {file.paper}.\n",
        make_headlines_table(file, judgements),
        *(f"{sentence}\n" for sentence in verdict_counts if sentence),
        *links,
        list_untested_headlines(file),
        file.introduction and f"## Terms\n\n{file.introduction}",
        *make_claims_tables(judgements),
        closing,
        make_details_section(file, judgements),
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts if part)
    page.write_text(remove_controls(text), encoding="utf-8")
    return [page, *written_paths]


def choose_figures(file: ClaimsFile, judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return the judgements to draw: of the claims that the file names, else of headlines, then of others.

    A repeated claim is drawn by its judged test, and an untested claim is not drawn.
    """
    judged_by_id = _map_judged_tests(judgements)
    headlines = [headline.claim for headline in file.headlines if headline.claim is not None]
    claim_ids = file.figures or [*headlines, *(judgement.claim.id for judgement in judgements)]

    # Several claims may have the same judged test, which is drawn once.
    judgements_to_draw = {judged_by_id[claim_id].claim.id: judged_by_id[claim_id] for claim_id in claim_ids}
    tested_judgements = [judgement for judgement in judgements_to_draw.values() if judgement.verdict != NOT_TESTED]
    return [judgement for judgement in tested_judgements if is_drawable(judgement)][:MAX_FIGURES]


def _map_judged_tests(judgements: Sequence[Judgement]) -> dict[str, Judgement]:
    """Return the judged test of every claim by its id."""
    return {judgement.claim.id: find_judged_test(tests) for tests in group_tests(judgements) for judgement in tests}


def make_headlines_table(file: ClaimsFile, judgements: Sequence[Judgement]) -> str:
    """Return the table of headlines with a claim and its verdict; empty without any."""
    judged_by_id = _map_judged_tests(judgements)
    by_id = {judgement.claim.id: judgement for judgement in judgements}
    rows = []
    for headline in file.headlines:
        if headline.claim is None:
            continue

        # Unlearned seeds count as the worst, but readers of the paper also want their values as measured.
        judgement = judged_by_id[headline.claim]
        effect = format_effect(judgement.claim, judgement.answer)
        metric = "" if effect == "-" else f" ({label_axis(judgement.claim, judgement.claim.compare)})"
        measured = format_effect(judgement.claim, judgement.measured_answer)
        metric += f"; unlearned seeds as measured: {measured}" if judgement.measured_answer is not None else ""

        fresh = _count_fresh_seeds(file, [by_id[claim_id] for claim_id in judgement.pooled] or [judgement])
        statement = headline.says + (" (ours)" if judgement.claim.source == "ours" else "")
        rows.append((statement, f"**{judgement.verdict_text}**", effect + metric, fresh, headline.size or ""))
    return make_markdown_table(HEADLINES_HEADER, rows) if rows else ""


def _count_fresh_seeds(file: ClaimsFile, judgements: Iterable[Judgement]) -> str:
    """Return the number of seeds that no earlier page has shown: "7 of 12 seeds"; "-" if nothing was run."""
    fresh, all_seeds = set[int](), set[int]()
    for judgement in judgements:
        if judgement.sweep is not None:
            seeds = judgement.sweep.seeds
            all_seeds |= set(seeds)
            fresh |= set(seeds[file.seen.get(judgement.claim.sweep, 0) :])
    return f"{len(fresh)} of {len(all_seeds)} seeds" if all_seeds else "-"


def list_untested_headlines(file: ClaimsFile) -> str:
    """Return the headlines that were not tested, with reasons, as Markdown; empty without any."""
    lines = [f"- {headline.says} {headline.reason}" for headline in file.headlines if headline.reason is not None]
    return "\n".join(["## Headlines that were not tested", "", *lines]) if lines else ""


def make_claims_tables(judgements: Sequence[Judgement]) -> list[str]:
    """Return the tables of the paper's claims and of this study's, the latter folded after MAX_UNFOLDED_CLAIMS."""
    paper, ours = (
        [tests for tests in group_tests(judgements) if tests[0].claim.source == source] for source in SOURCES
    )

    # A page may have many claims of this study; fold all but the first.
    parts = [f"## Claims of the paper\n\n{make_claims_table(paper)}"] if paper else []
    if ours:
        parts.append(f"## Claims of this study\n\n{make_claims_table(ours[:MAX_UNFOLDED_CLAIMS])}")
    if ours[MAX_UNFOLDED_CLAIMS:]:
        parts += [
            fold(
                f"{len(ours) - MAX_UNFOLDED_CLAIMS} more claims of this study",
                make_claims_table(ours[MAX_UNFOLDED_CLAIMS:]),
            )
        ]
    return parts


def find_pictures(file: ClaimsFile) -> list[str]:
    """Return the paths of the pictures in the `closing` text, relative to the claims file.

    Raises UserError for a picture that does not exist or has the name of another figure of the page.
    """
    # Pictures are copied into the folder of the figures, where equal names would overwrite each other.
    pictures = list(dict.fromkeys(match[2] for match in PICTURE.finditer(file.closing)))
    figures = {f"{claim.id}.png" for claim in file.claims}
    for picture in pictures:
        if not (file.path.parent / picture).is_file():
            raise UserError(f"{file.path}: closing: the picture {picture} does not exist")
        if (name := Path(picture).name) in figures:
            raise UserError(f"{file.path}: closing: the picture {picture} has the name of another figure; rename it")
        figures.add(name)
    return pictures


def copy_pictures(file: ClaimsFile, page: Path) -> tuple[str, list[Path]]:
    """Copy the pictures of the `closing` text to the page's figures; return the text with new links, and the copies.

    Raises OSError, and UserError as `find_pictures` does.
    """
    # The text may link a picture that an earlier page has copied; a file cannot be copied to itself.
    copies: dict[str, Path] = {}
    for picture in find_pictures(file):
        copies[picture] = copy = page.parent / f"{page.stem}_figures" / Path(picture).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (source := file.path.parent / picture).resolve() != copy.resolve():
            shutil.copyfile(source, copy)

    def link_copy(match: re.Match[str]) -> str:
        return f"{match[1]}({copies[match[2]].relative_to(page.parent).as_posix()}"

    return PICTURE.sub(link_copy, file.closing), list(copies.values())


def make_claims_table(groups: Sequence[Sequence[Judgement]]) -> str:
    """Return the table of claims, sorted by sweep, with effects and verdicts; a row has a test and its repeats."""
    sweeps = list(dict.fromkeys(tests[0].claim.sweep for tests in groups))
    rows = []
    for tests in sorted(groups, key=lambda tests: sweeps.index(tests[0].claim.sweep)):
        judged = find_judged_test(tests)
        effects = [format_effect(judged.claim, judged.answer)]
        verdicts = [f"**{judged.verdict_text}**"]
        if len(tests) > 1:
            effects += [
                f"{name}: {format_effect(test.claim, test.unpooled_answer or test.answer)}"
                for name, test in zip(name_tests(tests), tests, strict=True)
            ]
            verdicts.append(f"asked {len(tests)} times, judged by {name_judged_tests(judged)}")

        # A repeat may change the claim; show the text of the first test whose seeds were judged.
        claims = {test.claim.id: test.claim for test in tests}
        statement = claims[judged.pooled[0] if judged.pooled else judged.claim.id].says
        if same_as := tests[0].claim.same_as:
            statement += f"<br>the same claim as {same_as}"
        rows.append((tests[0].claim.id, statement, "<br>".join(effects), "<br>".join(verdicts)))
    return make_markdown_table(CLAIMS_HEADER, rows)


def _describe_picture(claim: Claim) -> str:
    """Return the alternative text of a claim's figure."""
    joined = {"ratio": " over "}.get(claim.question, " minus ").join(claim.compare)
    return f"{claim.id}: {label_axis(claim, claim.compare)}, {joined}"
