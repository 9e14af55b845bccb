"""Write the page of a claims file as Markdown: headlines, up to four figures, claims with verdicts, details."""

import math
import re
import shutil
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from orchestrator.claims.askings import changed_keys, group_askings
from orchestrator.claims.figures import draw_claim, is_drawable, write_small_png
from orchestrator.claims.judgement import HELD, NOT_LEARNED, NOT_TESTED, Judgement
from orchestrator.claims.registration import changes_since, describe_registration
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.claims.values import ArmValues, by_seed
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

READ = """\
Verdicts are about these sweeps and no others. **held** and **contradicted**: the whole 95 % interval lies on one side
of what is asked, and p is below .05 after Holm's correction over every claim that was ever asked on this page. **no
effect within ±x**: the whole interval is that close to 0. **undecided**: tested, but the interval has both sides, or p
is too large. **not tested**: the control failed, too few seeds learned the task, or the sweep is missing. Effects are
over all seeds: one that failed, or did not learn the task, counts as the worst value seen, and those that learned stand
beside it. A pair of values that could hardly differ, at the same end of the metric, supports no equivalence. *Ours*
marks controls, and questions that the paper does not ask, or not in this way: a headline may be judged by one of these.
A claim that was asked again has one verdict, over the seeds of all askings; if a later one changed more than the seeds,
by it alone, and in its words; each asking counts in the correction. Values at several lengths are averaged. Intervals
of medians lie between two of the seeds and need at least six of them; those of means are Student's. p is of the sign
test (for no effect, of two one-sided ones), of Student's test for means, of the exact test for shares, and for a search
of least squares or of the interval of the rank correlation. All choices were made at the selection lengths.
"""
HEAD = ("name", "claim", "effect and 95 % interval", "verdict")  # since 1.0.0; identifies a page
HEADLINES = ("the paper says", "verdict", "effect and 95 % interval", "fresh", "size beside the paper's")
ARMS = ("claim", "arm", "values", "configuration", "average", "seeds", "median", "mean", "range")
MOST_FIGURES = 4
MOST_OURS = 12  # rows that are not folded
PICTURE = re.compile(r"(!\[[^\]]*\])\((?!\w+:)([^)\s]+)")  # in Markdown, with a path


def write_page(file: ClaimsFile, judgements: Sequence[Judgement], page: Path) -> list[Path]:
    """Write the page and, in a folder beside it, its figures; return the paths.

    Raises OSError if they cannot be written, UserError for a missing picture in the `closing` text.
    """
    # Figures, and the pictures of the closing text.
    closing, written = copy_pictures(file, page)
    links = []
    for judgement in choose_figures(file, judgements):
        picture = page.parent / f"{page.stem}_figures" / f"{judgement.claim.id}.png"
        write_small_png(draw_claim(judgement), picture)
        written.append(picture)
        links.append(f"![{_describe_picture(judgement.claim)}]({picture.relative_to(page.parent).as_posix()})\n")

    # The parts of the page.
    counts = (describe_counts(count_verdicts(judgements, source), source) for source in SOURCES)
    parts = [
        f"# {file.title}\n",
        file.paper and f"Claims of {file.paper}.\n",
        headlines_table(file, judgements),
        *(f"{words}\n" for words in counts if words),
        *links,
        untested_headlines(file),
        file.introduction and f"## Terms\n\n{file.introduction}",
        *claims_tables(judgements),
        closing,
        details(file, judgements),
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts if part)
    page.write_text(remove_controls(text), encoding="utf-8")
    return [page, *written]


def choose_figures(file: ClaimsFile, judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return the claims to draw: those that the file names, else those of headlines, then others.

    Of a claim that was asked again, the judged asking is drawn. Claims that were not tested are not drawn.
    """
    judged = _judged_askings(judgements)
    headlines = [headline.claim for headline in file.headlines if headline.claim is not None]
    names = file.figures or [*headlines, *(judgement.claim.id for judgement in judgements)]
    chosen = {judged[name].claim.id: judged[name] for name in names}
    tested = [judgement for judgement in chosen.values() if judgement.verdict != NOT_TESTED]
    return [judgement for judgement in tested if is_drawable(judgement)][:MOST_FIGURES]


def _judged_askings(judgements: Sequence[Judgement]) -> dict[str, Judgement]:
    """Return the judged asking of every claim by its id."""
    return {judgement.claim.id: find_judged(askings) for askings in group_askings(judgements) for judgement in askings}


def headlines_table(file: ClaimsFile, judgements: Sequence[Judgement]) -> str:
    """Return the table of headlines with a claim and its verdict; empty without any."""
    judged, by_id = _judged_askings(judgements), {judgement.claim.id: judgement for judgement in judgements}
    rows = []
    for headline in file.headlines:
        if headline.claim is None:
            continue
        judgement = judged[headline.claim]
        effect = describe_effect(judgement.claim, judgement.answer)
        metric = "" if effect == "-" else f" ({label_axis(judgement.claim, judgement.claim.compare)})"
        measured = describe_effect(judgement.claim, judgement.measured)
        metric += f"; unlearned seeds as measured: {measured}" if judgement.measured is not None else ""
        fresh = _count_fresh(file, [by_id[name] for name in judgement.pooled] or [judgement])
        says = headline.says + (" (ours)" if judgement.claim.source == "ours" else "")
        rows.append((says, f"**{judgement.words}**", effect + metric, fresh, headline.size or ""))
    return markdown_table(HEADLINES, rows) if rows else ""


def _count_fresh(file: ClaimsFile, judgements: Iterable[Judgement]) -> str:
    """Return how many seeds no earlier page has shown: "7 of 12 seeds"; "-" if nothing was run."""
    fresh, every = set[int](), set[int]()
    for judgement in judgements:
        if judgement.sweep is not None:
            seeds = judgement.sweep.seeds
            every |= set(seeds)
            fresh |= set(seeds[file.seen.get(judgement.claim.sweep, 0) :])
    return f"{len(fresh)} of {len(every)} seeds" if every else "-"


def untested_headlines(file: ClaimsFile) -> str:
    """Return the headlines that were not tested, with reasons, as Markdown; empty without any."""
    lines = [f"- {headline.says} {headline.reason}" for headline in file.headlines if headline.reason is not None]
    return "\n".join(["## Headlines that were not tested", "", *lines]) if lines else ""


def claims_tables(judgements: Sequence[Judgement]) -> list[str]:
    """Return the tables of the paper's claims and of ours; after MOST_OURS ours are folded."""
    paper, ours = (
        [askings for askings in group_askings(judgements) if askings[0].claim.source == source] for source in SOURCES
    )
    parts = [f"## Claims of the paper\n\n{claims_table(paper)}"] if paper else []
    if ours:
        parts.append(f"## Ours\n\n{claims_table(ours[:MOST_OURS])}")
    if ours[MOST_OURS:]:
        parts += [fold(f"{len(ours) - MOST_OURS} more of ours", claims_table(ours[MOST_OURS:]))]
    return parts


def fold(summary: str, text: str) -> str:
    """Return Markdown of a text that is folded below its summary."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text.rstrip()}\n\n</details>"


def find_pictures(file: ClaimsFile) -> list[str]:
    """Return the paths of the pictures in the `closing` text, relative to the claims file.

    Raises UserError for a picture that does not exist or has the name of another figure of the page.
    """
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
    copies: dict[str, Path] = {}
    for picture in find_pictures(file):
        copies[picture] = copy = page.parent / f"{page.stem}_figures" / Path(picture).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (source := file.path.parent / picture).resolve() != copy.resolve():
            shutil.copyfile(source, copy)

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
    words = f"Asked before and removed since; the correction is over {file.family} claims, these included:"
    return "\n".join([words, "", *lines]) if lines else ""


def claims_table(rows: Sequence[Sequence[Judgement]]) -> str:
    """Return the table of claims, sorted by sweep, with effects and verdicts; a row has all askings of a claim.

    The text is that of the first asking whose seeds were judged.
    """
    sweeps = list(dict.fromkeys(askings[0].claim.sweep for askings in rows))
    cells = []
    for askings in sorted(rows, key=lambda askings: sweeps.index(askings[0].claim.sweep)):
        judged = find_judged(askings)
        effects, verdicts = [describe_effect(judged.claim, judged.answer)], [f"**{judged.words}**"]
        if len(askings) > 1:
            names = [askings[0].claim.id, *(_name_asking(*both) for both in pairwise(askings))]
            effects += [
                f"{name}: {describe_effect(asking.claim, asking.own_answer or asking.answer)}"
                for name, asking in zip(names, askings, strict=True)
            ]
            verdicts.append(f"asked {len(askings)} times, judged by {_name_judged(judged)}")
        asked = {asking.claim.id: asking.claim for asking in askings}
        says = asked[judged.pooled[0] if judged.pooled else judged.claim.id].says
        cells.append((askings[0].claim.id, says, "<br>".join(effects), "<br>".join(verdicts)))
    return markdown_table(HEAD, cells)


def details(file: ClaimsFile, judgements: Sequence[Judgement]) -> str:
    """Return the folded part: the rules of verdicts, every claim by sweep, and every arm."""
    parts = [READ, describe_bounds(file), list_removed(file)]
    repeats = {judgement.claim.id: askings for askings in group_askings(judgements) for judgement in askings}
    by_sweep: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        by_sweep.setdefault(judgement.claim.sweep, []).append(judgement)
    for name, asked in by_sweep.items():
        lines = [f"- {describe(judgement, file, repeats[judgement.claim.id])}" for judgement in asked]
        parts.append("\n".join([describe_sweep(name, asked[0].sweep, file), "", *lines]))
    rows = [row for judgement in judgements for row in arm_rows(judgement)]
    parts.append(markdown_table(ARMS, rows) if rows else "")
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts if part)
    return "## Details\n\n" + fold("How a verdict comes about, every question, its registration and its arms", text)


def describe_sweep(name: str, sweep: SweepCurves | None, file: ClaimsFile) -> str:
    """Return a paragraph on size and cost of a sweep, and on its differences from the sweep file."""
    if sweep is None:
        return f"**`{name}`** is not run yet or not finished."
    minutes = f"{duration(sum_seconds(sweep.state.packs, sweep.state.recuts))} of one core"
    cost = "imported" if IMPORTED in sweep.state.provenance else minutes
    lost = f", {sweep.failed} members failed" if sweep.failed else ""
    fewest, most = min(sweep.steps.values()), max(sweep.steps.values())
    steps = f"{fewest:,} steps" if fewest == most else f"{fewest:,} to {most:,} steps"
    configurations = counted(len(sweep.state.configurations), "configuration")
    counts = f"{configurations}, {len(sweep.seeds)} seeds{lost}, {steps}"
    words = f"**`{name}`** ({counts}; {cost}{_describe_stopped(sweep)})"
    if changes := changes_since(sweep.state, file):
        changed = "; ".join(f"{key} was {before}, now {now}" for key, before, now in changes)
        words += f". The sweep was begun with other values than its file has now: {changed}."
    return words


def describe(judgement: Judgement, file: ClaimsFile, askings: Sequence[Judgement]) -> str:
    """Return a line of Markdown on a claim: question, registration, effect, other estimates."""
    # The question, and its askings.
    claim, sweep = judgement.claim, judgement.sweep
    sentences = [f"**{claim.id}**: {write_question(claim)}"]
    if len(askings) > 1:
        sentences.append(_describe_askings(askings))

    # The registration, the deciding effect, and other estimates.
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

    # The note of the claim, and what would decide it.
    sentences += [" ".join(claim.note.split()), what_would_decide(judgement)]
    return " ".join(sentence for sentence in sentences if sentence)


def _describe_picture(claim: Claim) -> str:
    joined = {"ratio": " over "}.get(claim.question, " minus ").join(claim.compare)
    return f"{claim.id}: {label_axis(claim, claim.compare)}, {joined}"


def _describe_stopped(sweep: SweepCurves) -> str:
    """Return how many members stopped early, and when; empty if none did."""
    stopped = [
        100 * member.stopped_at / sweep.steps[name]
        for name, configuration in sweep.state.configurations.items()
        for member in configuration.members.values()
        if member.stopped_at
    ]
    if not stopped:
        return ""
    first, last = (three_digits(f(stopped)) for f in (min, max))
    count = f"{len(stopped)} of {len(sweep.state.members)}"
    share = first if first == last else f"{first} to {last}"
    return f"; {count} members stopped early by their rule, after {share} % of their steps"


def find_judged(askings: Sequence[Judgement]) -> Judgement:
    """Return the judged asking, the last that was run."""
    return next((judgement for judgement in reversed(askings) if judgement.sweep is not None), askings[-1])


def _name_judged(judged: Judgement) -> str:
    return f"the seeds of {' and '.join(judged.pooled)} together" if judged.pooled else judged.claim.id


def _describe_askings(askings: Sequence[Judgement]) -> str:
    """Return sentences on every asking of a claim, its changes, and the judged ones."""
    names = [askings[0].claim.id, *(_name_asking(*pair) for pair in pairwise(askings))]
    return f"Asked {len(askings)} times: {', then '.join(names)}. Judged by {_name_judged(find_judged(askings))}."


def _name_asking(before: Judgement, after: Judgement) -> str:
    """Return the id of the later asking, with the changed keys."""
    changed = changed_keys(before, after)
    return f"{after.claim.id} (other {', '.join(changed)})" if changed else after.claim.id


def _describe_pooling(judgement: Judgement) -> str:
    """Return how the value of a seed follows from several configurations; empty for one, and for a trend."""
    several = max((len(arm.config_ids) for arm in (judgement.arms or {}).values()), default=1)
    if several == 1 or judgement.claim.question == "trend" or judgement.claim.unit is not None:
        return ""
    paired = {"difference": "differences", "equivalence": "differences", "ratio": "ratios"}
    both = len(judgement.claim.compare) == 2 and judgement.claim.question in paired
    measured = f"its {paired[judgement.claim.question]}" if both else "it"
    return f", each the median of {measured} in {several} configurations"


def _describe_learned(claim: Claim) -> str:
    """Return the introduction of the effect over seeds that learned the task, with the threshold."""
    assert claim.learned is not None
    rule, how = claim.learned, {"mean": "", "min": "the smallest ", "max": "the largest "}
    metric, lengths = f"{how[rule.reduce]}{describe_metrics(rule.metric)}", describe_lengths(rule.lengths)
    bar = f"{metric} at {lengths} {describe_threshold(rule)}"
    return f"Over the seeds that learned the task, with {bar} in every arm, which decides nothing"


def arm_rows(judgement: Judgement) -> list[tuple[str, ...]]:
    """Return a row for each arm: configurations, seeds, seeds that learned, median, mean and range over seeds.

    The statistics of a trend are over every configuration and seed.
    """
    claim, sweep = judgement.claim, judgement.sweep
    rows: list[tuple[str, ...]] = []
    if sweep is None:
        return []
    for arm in (judgement.arms or {}).values():
        every = arm.values.dropna().to_numpy(dtype=np.float64)
        values = every if claim.question == "trend" else by_seed(arm.values)
        numbers = spans([sweep.state.configurations[name].number for name in arm.config_ids])
        middle, mean, least, most = (
            (three_digits(float(f(values)), NOT_REACHED) for f in (np.median, np.mean, np.min, np.max))
            if len(values)
            else ("-", "-", "-", "-")
        )
        seeds = f"{arm.seeds}, {arm.seeds_learned} learned" if claim.learned else f"{arm.seeds}"
        where = _describe_configuration(claim, sweep, arm)
        span = f"{least} to {most}"
        rows.append((claim.id, arm.name, where, f"#{numbers}", arm.average, seeds, middle, mean, span))
    return rows


def _describe_configuration(claim: Claim, sweep: SweepCurves, arm: ArmValues) -> str:
    """Return the values that define an arm, and the other searched values if it has only one configuration."""
    where = claim.arms[arm.name].where
    words = [f"{key}: {_format_value(value)}" for key, value in where.items()]
    if len(arm.config_ids) == 1:
        chosen = "chosen " if len(sweep.find_configurations(where)) > 1 else ""
        drawn = sweep.state.configurations[arm.config_ids[0]].values
        words += [f"{chosen}{key}: {_format_value(value)}" for key, value in drawn.items() if key not in where]
    return ", ".join(words) or "any"


def _format_value(value: object) -> str:
    return " and ".join(map(compact_value, value)) if isinstance(value, list | tuple) else compact_value(value)


def what_would_decide(judgement: Judgement) -> str:
    """Return a sentence on how an undecided claim could be decided; empty for a decided one."""
    if judgement.is_decided or judgement.answer is None:
        return ""
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
    if judgement.answer is None or math.isnan(judgement.answer.p) or judgement.reason.startswith(NOT_LEARNED):
        return ""
    after = "" if math.isnan(judgement.holm_p) else f", {judgement.holm_p:.2g} after Holm's correction"
    return f"; p = {judgement.answer.p:.2g}{after}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
