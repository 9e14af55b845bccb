"""Write the page of a claims file as Markdown: headlines, up to four figures, claims with verdicts, details."""

import math
import re
import shutil
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from orchestrator.claims.askings import group_askings, list_changed_keys
from orchestrator.claims.figures import draw_claim, is_drawable, write_small_png
from orchestrator.claims.judgement import HELD, NOT_LEARNED, NOT_TESTED, Judgement
from orchestrator.claims.registration import describe_registration, list_changes
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.claims.values import ArmValues, reduce_configurations
from orchestrator.claims.verdicts import count_verdicts
from orchestrator.claims.words import (
    describe_counts,
    describe_effect,
    describe_lengths,
    describe_metrics,
    describe_threshold,
    label_axis,
    name_effect,
    write_question,
)
from orchestrator.errors import UserError
from orchestrator.record.state.lineage import IMPORTED
from orchestrator.record.state.recuts import sum_seconds
from orchestrator.text.redaction import remove_controls
from orchestrator.text.wording import NOT_REACHED, compact_value, counted, duration, spans, three_digits
from search_spaces.grammar.claims import SOURCES, Claim, ClaimsFile

VERDICT_RULES = """\
Verdicts are about these sweeps and no others. **held** and **contradicted**: the whole 95 % interval lies on one side
of the null value, and p is below .05 after Holm's correction over every claim that was ever asked on this page. **no
effect within ±x**: the whole interval is that close to 0. **undecided**: tested, but the interval includes both sides,
or p is too large. **not tested**: the control failed, too few seeds learned the task, or the sweep is missing. Effects
are over all seeds: a seed that failed, or did not learn the task, counts as the worst value of any seed. The effect
over the seeds that learned is shown beside it. A pair of values at the same end of the metric could hardly differ, so
it supports no equivalence. Claims of this study are controls, and questions that the paper does not ask, or not in this
way; a headline may be judged by one of these. A claim that was asked again has one verdict, over the seeds of all
askings; if a later asking changed more than the seeds, its seeds alone are judged and its text is shown. Each asking
counts in the correction. Values at several lengths are averaged. Intervals of medians are between two of the seeds and
need at least six seeds; those of means are Student's. p is that of the sign test (for no effect, of two one-sided sign
tests), of Student's test for means, and of the exact test for shares; for a search it is that of least squares or of
the interval of the rank correlation. All choices were made at the selection lengths.
"""
CLAIMS_HEADER = ("name", "claim", "effect and 95 % interval", "verdict")  # since 1.0.0; identifies a page
HEADLINES_HEADER = ("the paper says", "verdict", "effect and 95 % interval", "fresh", "size beside the paper's")
ARMS_HEADER = ("claim", "arm", "values", "configuration", "average", "seeds", "median", "mean", "range")
MAX_FIGURES = 4
MAX_UNFOLDED_CLAIMS = 12  # of this study; further rows are folded
PICTURE = re.compile(r"(!\[[^\]]*\])\((?!\w+:)([^)\s]+)")  # a Markdown picture with a relative path


def write_page(file: ClaimsFile, judgements: Sequence[Judgement], page: Path) -> list[Path]:
    """Write the page and, in a folder beside it, its figures; return the paths.

    Raises OSError if they cannot be written, UserError for a missing picture in the `closing` text.
    """
    # Draw the figures, and copy the pictures of the closing text.
    closing, written = copy_pictures(file, page)
    links = []
    for judgement in choose_figures(file, judgements):
        picture = page.parent / f"{page.stem}_figures" / f"{judgement.claim.id}.png"
        write_small_png(draw_claim(judgement), picture)
        written.append(picture)
        links.append(f"![{_describe_picture(judgement.claim)}]({picture.relative_to(page.parent).as_posix()})\n")

    # Write the parts of the page.
    verdict_counts = (describe_counts(count_verdicts(judgements, source), source) for source in SOURCES)
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
        write_details(file, judgements),
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts if part)
    page.write_text(remove_controls(text), encoding="utf-8")
    return [page, *written]


def choose_figures(file: ClaimsFile, judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return the claims to draw: those that the file names, else those of headlines, then others.

    Of a claim that was asked again, the judged asking is drawn. Claims that were not tested are not drawn.
    """
    # Choose claims by id.
    judged = _find_judged_by_id(judgements)
    headlines = [headline.claim for headline in file.headlines if headline.claim is not None]
    names = file.figures or [*headlines, *(judgement.claim.id for judgement in judgements)]

    # Draw those that were tested and whose question has a figure.
    chosen = {judged[name].claim.id: judged[name] for name in names}
    tested = [judgement for judgement in chosen.values() if judgement.verdict != NOT_TESTED]
    return [judgement for judgement in tested if is_drawable(judgement)][:MAX_FIGURES]


def _find_judged_by_id(judgements: Sequence[Judgement]) -> dict[str, Judgement]:
    """Return the judged asking of every claim by its id."""
    return {judgement.claim.id: find_judged(askings) for askings in group_askings(judgements) for judgement in askings}


def make_headlines_table(file: ClaimsFile, judgements: Sequence[Judgement]) -> str:
    """Return the table of headlines with a claim and its verdict; empty without any."""
    judged, by_id = _find_judged_by_id(judgements), {judgement.claim.id: judgement for judgement in judgements}
    rows = []
    for headline in file.headlines:
        if headline.claim is None:
            continue

        # Describe the effect, and that with the values of unlearned seeds as measured.
        judgement = judged[headline.claim]
        effect = describe_effect(judgement.claim, judgement.answer)
        metric = "" if effect == "-" else f" ({label_axis(judgement.claim, judgement.claim.compare)})"
        measured = describe_effect(judgement.claim, judgement.measured)
        metric += f"; unlearned seeds as measured: {measured}" if judgement.measured is not None else ""

        # Count the fresh seeds of all pooled askings.
        fresh = _count_fresh(file, [by_id[name] for name in judgement.pooled] or [judgement])
        statement = headline.says + (" (ours)" if judgement.claim.source == "ours" else "")
        rows.append((statement, f"**{judgement.words}**", effect + metric, fresh, headline.size or ""))
    return make_markdown_table(HEADLINES_HEADER, rows) if rows else ""


def _count_fresh(file: ClaimsFile, judgements: Iterable[Judgement]) -> str:
    """Return how many seeds no earlier page has shown: "7 of 12 seeds"; "-" if nothing was run."""
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
    # Separate the claims by source.
    paper, ours = (
        [askings for askings in group_askings(judgements) if askings[0].claim.source == source] for source in SOURCES
    )

    # Fold the last claims of this study, of which a page may have many.
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


def fold(summary: str, text: str) -> str:
    """Return Markdown of a text that is folded below its summary."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text.rstrip()}\n\n</details>"


def find_pictures(file: ClaimsFile) -> list[str]:
    """Return the paths of the pictures in the `closing` text, relative to the claims file.

    Raises UserError for a picture that does not exist or has the name of another figure of the page.
    """
    # Pictures are copied into the folder of the figures, so their names must differ from those of figures.
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
    # Copy each picture, unless the text links the copy itself.
    copies: dict[str, Path] = {}
    for picture in find_pictures(file):
        copies[picture] = copy = page.parent / f"{page.stem}_figures" / Path(picture).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (source := file.path.parent / picture).resolve() != copy.resolve():
            shutil.copyfile(source, copy)

    # Replace the links.
    def link_copy(match: re.Match[str]) -> str:
        return f"{match[1]}({copies[match[2]].relative_to(page.parent).as_posix()}"

    return PICTURE.sub(link_copy, file.closing), list(copies.values())


def describe_bounds(file: ClaimsFile) -> str:
    """Return a sentence on the bounds of no effect with their reasons; empty without any."""
    bounds = [
        f"of {describe_metrics([rule.metric])} ±{rule.within:g}, because {rule.because}" for rule in file.no_effect
    ]
    return f"The bound of no effect is {'; '.join(bounds)}." if bounds else ""


def list_removed(file: ClaimsFile) -> str:
    """Return the claims that were removed from the page, with reasons, as Markdown; empty without any."""
    lines = [f"- {', '.join(group.claims)}: {group.because}" for group in file.removed]
    introduction = f"Asked before and removed since; the correction is over {file.family} claims, these included:"
    return "\n".join([introduction, "", *lines]) if lines else ""


def make_claims_table(rows: Sequence[Sequence[Judgement]]) -> str:
    """Return the table of claims, sorted by sweep, with effects and verdicts; a row has all askings of a claim.

    The text is that of the first asking whose seeds were judged.
    """
    sweeps = list(dict.fromkeys(askings[0].claim.sweep for askings in rows))
    cells = []
    for askings in sorted(rows, key=lambda askings: sweeps.index(askings[0].claim.sweep)):
        # Show the effect and verdict of the judged asking, then those of every asking.
        judged = find_judged(askings)
        effects, verdicts = [describe_effect(judged.claim, judged.answer)], [f"**{judged.words}**"]
        if len(askings) > 1:
            names = [askings[0].claim.id, *(_name_asking(*successive) for successive in pairwise(askings))]
            effects += [
                f"{name}: {describe_effect(asking.claim, asking.own_answer or asking.answer)}"
                for name, asking in zip(names, askings, strict=True)
            ]
            verdicts.append(f"asked {len(askings)} times, judged by {_name_judged(judged)}")

        # Show the text of the first asking whose seeds were judged.
        claims = {asking.claim.id: asking.claim for asking in askings}
        statement = claims[judged.pooled[0] if judged.pooled else judged.claim.id].says
        cells.append((askings[0].claim.id, statement, "<br>".join(effects), "<br>".join(verdicts)))
    return make_markdown_table(CLAIMS_HEADER, cells)


def write_details(file: ClaimsFile, judgements: Sequence[Judgement]) -> str:
    """Return the folded part: the rules of verdicts, every claim by sweep, and every arm."""
    # Begin with the rules, then every sweep with its claims.
    parts = [VERDICT_RULES, describe_bounds(file), list_removed(file)]
    askings_by_id = {judgement.claim.id: askings for askings in group_askings(judgements) for judgement in askings}
    by_sweep: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        by_sweep.setdefault(judgement.claim.sweep, []).append(judgement)
    for name, group in by_sweep.items():
        lines = [f"- {describe_judgement(judgement, file, askings_by_id[judgement.claim.id])}" for judgement in group]
        parts.append("\n".join([describe_sweep(name, group[0].sweep, file), "", *lines]))

    # End with the arms, and fold everything.
    rows = [row for judgement in judgements for row in make_arm_rows(judgement)]
    parts.append(make_markdown_table(ARMS_HEADER, rows) if rows else "")
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts if part)
    return "## Details\n\n" + fold("How a verdict comes about, every question, its registration and its arms", text)


def describe_sweep(name: str, sweep: SweepCurves | None, file: ClaimsFile) -> str:
    """Return a paragraph on size and cost of a sweep, and on its differences from the sweep file."""
    if sweep is None:
        return f"**`{name}`** is not run yet or not finished."

    # Describe cost and size.
    minutes = f"{duration(sum_seconds(sweep.state.packs, sweep.state.recuts))} of one core"
    cost = "imported" if IMPORTED in sweep.state.provenance else minutes
    failures = f", {sweep.failed} members failed" if sweep.failed else ""
    lowest, highest = min(sweep.steps.values()), max(sweep.steps.values())
    steps = f"{lowest:,} steps" if lowest == highest else f"{lowest:,} to {highest:,} steps"
    configurations = counted(len(sweep.state.configurations), "configuration")
    size = f"{configurations}, {len(sweep.seeds)} seeds{failures}, {steps}"
    paragraph = f"**`{name}`** ({size}; {cost}{_describe_stopped(sweep)})"

    # Say which values the sweep file has changed since.
    if changes := list_changes(sweep.state, file):
        changed = "; ".join(f"{key} was {recorded}, now {current}" for key, recorded, current in changes)
        paragraph += f". The sweep was begun with other values than its file has now: {changed}."
    return paragraph


def describe_judgement(judgement: Judgement, file: ClaimsFile, askings: Sequence[Judgement]) -> str:
    """Return a line of Markdown on a claim: question, registration, effect, other estimates."""
    # Write the question, and its askings.
    claim, sweep = judgement.claim, judgement.sweep
    sentences = [f"**{claim.id}**: {write_question(claim)}"]
    if len(askings) > 1:
        sentences.append(_describe_askings(askings))

    # Add the registration, the deciding effect, and other estimates.
    if sweep is not None:
        shown_before = file.seen.get(claim.sweep, 0)
        registration = describe_registration(claim, sweep.state, sweep.registered, shown_before)
        sentences += [
            f"It was {registration}.",
            f"{name_effect(claim)}{_describe_pooling(judgement)}: {describe_effect(claim, judgement.answer)}"
            f"{_describe_p(judgement)}.",
        ]
        if judgement.own_answer is not None:
            sentences.append(f"Over its own seeds alone: {describe_effect(claim, judgement.own_answer)}.")
        if judgement.learned_only is not None:
            sentences.append(f"{_describe_learned(claim)}: {describe_effect(claim, judgement.learned_only)}.")
        if judgement.measured is not None:
            measured = describe_effect(claim, judgement.measured)
            sentences.append(f"With the values of unlearned seeds as measured, which decides nothing: {measured}.")
        if judgement.other_statistic is not None:
            name = "Median" if claim.statistic == "mean" else "Mean"
            sentences.append(f"{name} over all seeds: {describe_effect(claim, judgement.other_statistic)}.")

    # End with the note of the claim, and the seeds that would decide it.
    sentences += [" ".join(claim.note.split()), describe_remedy(judgement)]
    return " ".join(sentence for sentence in sentences if sentence)


def _describe_picture(claim: Claim) -> str:
    """Return the alternative text of a claim's figure."""
    joined = {"ratio": " over "}.get(claim.question, " minus ").join(claim.compare)
    return f"{claim.id}: {label_axis(claim, claim.compare)}, {joined}"


def _describe_stopped(sweep: SweepCurves) -> str:
    """Return the number of members that stopped early, and after how many of their steps; empty if none did."""
    shares = [
        100 * member.stopped_at / sweep.steps[name]
        for name, configuration in sweep.state.configurations.items()
        for member in configuration.members.values()
        if member.stopped_at
    ]
    if not shares:
        return ""

    # Say how many, and after which shares of their steps.
    first, last = (three_digits(statistic(shares)) for statistic in (min, max))
    count = f"{len(shares)} of {len(sweep.state.members)}"
    span = first if first == last else f"{first} to {last}"
    return f"; {count} members stopped early by their rule, after {span} % of their steps"


def find_judged(askings: Sequence[Judgement]) -> Judgement:
    """Return the judged asking, the last that was run."""
    return next((judgement for judgement in reversed(askings) if judgement.sweep is not None), askings[-1])


def _name_judged(judged: Judgement) -> str:
    """Return the id of the judged asking, or of all askings that were pooled."""
    return f"the seeds of {' and '.join(judged.pooled)} together" if judged.pooled else judged.claim.id


def _describe_askings(askings: Sequence[Judgement]) -> str:
    """Return sentences on the askings of a claim: their number, their changes, and the judged ones."""
    names = [askings[0].claim.id, *(_name_asking(*pair) for pair in pairwise(askings))]
    return f"Asked {len(askings)} times: {', then '.join(names)}. Judged by {_name_judged(find_judged(askings))}."


def _name_asking(earlier: Judgement, later: Judgement) -> str:
    """Return the id of the later asking, with the changed keys."""
    changed = list_changed_keys(earlier, later)
    return f"{later.claim.id} (other {', '.join(changed)})" if changed else later.claim.id


def _describe_pooling(judgement: Judgement) -> str:
    """Return a note that a seed's value is a median over configurations; empty for a single one, and for a trend."""
    configurations = max((len(arm.config_ids) for arm in (judgement.arms or {}).values()), default=1)
    if configurations == 1 or judgement.claim.question == "trend" or judgement.claim.unit is not None:
        return ""
    nouns = {"difference": "differences", "equivalence": "differences", "ratio": "ratios"}
    is_paired = len(judgement.claim.compare) == 2 and judgement.claim.question in nouns
    quantity = f"its {nouns[judgement.claim.question]}" if is_paired else "it"
    return f", each the median of {quantity} in {configurations} configurations"


def _describe_learned(claim: Claim) -> str:
    """Return the introduction of the effect over seeds that learned the task, with the threshold."""
    assert claim.learned is not None
    rule, prefixes = claim.learned, {"mean": "", "min": "the smallest ", "max": "the largest "}
    metric, lengths = f"{prefixes[rule.reduce]}{describe_metrics(rule.metric)}", describe_lengths(rule.lengths)
    condition = f"{metric} at {lengths} {describe_threshold(rule)}"
    return f"Over the seeds that learned the task, with {condition} in every arm, which decides nothing"


def make_arm_rows(judgement: Judgement) -> list[tuple[str, ...]]:
    """Return a row for each arm: configurations, seeds, seeds that learned, median, mean and range over seeds.

    The statistics of a trend are over every configuration and seed.
    """
    claim, sweep = judgement.claim, judgement.sweep
    rows: list[tuple[str, ...]] = []
    if sweep is None:
        return []
    for arm in (judgement.arms or {}).values():
        # Describe the values of the seeds, or of every member for a trend.
        member_values = arm.values.dropna().to_numpy(dtype=np.float64)
        values = member_values if claim.question == "trend" else reduce_configurations(arm.values)
        numbers = spans([sweep.state.configurations[name].number for name in arm.config_ids])
        median, mean, lowest, highest = (
            (three_digits(float(f(values)), NOT_REACHED) for f in (np.median, np.mean, np.min, np.max))
            if len(values)
            else ("-", "-", "-", "-")
        )

        # Describe the arm and its seeds.
        seeds = f"{arm.seeds}, {arm.seeds_learned} learned" if claim.learned else f"{arm.seeds}"
        where = _describe_configuration(claim, sweep, arm)
        span = f"{lowest} to {highest}"
        rows.append((claim.id, arm.name, where, f"#{numbers}", arm.average, seeds, median, mean, span))
    return rows


def _describe_configuration(claim: Claim, sweep: SweepCurves, arm: ArmValues) -> str:
    """Return the values that define an arm, and the other searched values if it has only one configuration."""
    # A single configuration is described by all its searched values.
    where = claim.arms[arm.name].where
    settings = [f"{key}: {_format_value(value)}" for key, value in where.items()]
    if len(arm.config_ids) == 1:
        chosen = "chosen " if len(sweep.find_configurations(where)) > 1 else ""
        searched = sweep.state.configurations[arm.config_ids[0]].values
        settings += [f"{chosen}{key}: {_format_value(value)}" for key, value in searched.items() if key not in where]
    return ", ".join(settings) or "any"


def _format_value(value: object) -> str:
    """Return a value, or the values of a list, as text."""
    return " and ".join(map(compact_value, value)) if isinstance(value, list | tuple) else compact_value(value)


def describe_remedy(judgement: Judgement) -> str:
    """Return a sentence on what would decide an undecided claim; empty for a decided one."""
    if judgement.is_decided or judgement.answer is None:
        return ""

    # An untested claim needs its control, or seeds that learn; an undecided one needs more seeds.
    if judgement.claim.control and judgement.reason.startswith("its control"):
        return f"It can be tested once {judgement.claim.control} is **{HELD}**."
    if judgement.reason.startswith("not learned"):
        return "It can be tested with settings with which more seeds learn the trained lengths."
    return (
        f"{judgement.seeds_needed} fresh seeds, with values like these, would decide it."
        if judgement.seeds_needed
        else ""
    )


def _describe_p(judgement: Judgement) -> str:
    """Return the p-value before and after Holm's correction as text; empty if nothing was tested."""
    if judgement.answer is None or math.isnan(judgement.answer.p) or judgement.reason.startswith(NOT_LEARNED):
        return ""
    corrected = "" if math.isnan(judgement.holm_p) else f", {judgement.holm_p:.2g} after Holm's correction"
    return f"; p = {judgement.answer.p:.2g}{corrected}"


def make_markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with a header."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
