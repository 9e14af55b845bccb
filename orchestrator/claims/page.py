"""The page of a claims file: each claim with its verdict, what was run, its numbers and its figure, as Markdown."""

import math
import re
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from orchestrator.claims.askings import changed_keys, group_askings
from orchestrator.claims.figures import draw_claim, write_small_png
from orchestrator.claims.judgement import HELD, Judgement
from orchestrator.claims.members import Members
from orchestrator.claims.registration import changes_since, describe_registration
from orchestrator.claims.values import ArmValues, by_seed
from orchestrator.claims.verdicts import count_verdicts
from orchestrator.claims.words import (
    axis_words,
    count_words,
    effect_name,
    effect_words,
    lengths_words,
    metric_words,
    threshold_words,
    word_question,
)
from orchestrator.errors import UserError
from orchestrator.record.state.imported import IMPORTED
from orchestrator.record.state.recuts import total_seconds
from orchestrator.redaction import remove_controls
from orchestrator.wording import NOT_REACHED, compact_value, counted, duration, spans, three_digits
from search_spaces.grammar.claims import SOURCES, Claim, ClaimsFile

READ = """\
Verdicts are about these sweeps and no others. **held** and **contradicted**: the whole 95 % interval lies on one side
of what is asked, and p is below .05 after Holm's correction over all claims of this page, whatever came out. **no
effect within ±x**: the whole interval is that close to 0. **undecided**: tested, but the interval has both sides, or p
is too large. **not tested**: the control failed, too few seeds learned the task, or the sweep is missing. Effects are
over all seeds: one that failed, or did not learn the task, counts as the worst of all, and those that learned stand
beside it. A pair of values that could hardly differ, at the same end of the metric, supports no equivalence. *Ours*
marks controls, and questions that the paper does not ask. A claim that was asked again has one verdict, over the seeds
of all askings; if a later one changed more than the seeds, by it alone; each asking counts in the correction. Values at
several lengths are averaged. Intervals of medians lie between two of the seeds and need at least six of them; those of
means are Student's. p is of the sign test (for no effect, of two one-sided ones), of Student's test for means, of the
exact test for shares, and for a search of least squares or of the interval of the rank correlation. All choices were
made at the selection lengths.
"""
HEAD = ("name", "claim", "effect and 95 % interval", "verdict")  # since 1.0.0; it tells a page from another file
PICTURE = re.compile(r"(!\[[^\]]*\])\((?!\w+:)([^)\s]+)")  # of Markdown, by a path


def write_page(file: ClaimsFile, judgements: Sequence[Judgement], page: Path) -> list[Path]:
    """Write the page and, in a folder beside it, the figures; return the paths.

    Raises OSError when it cannot be written, UserError for a missing picture in the `closing` text.
    """
    closing, written = copy_pictures(file, page)
    parts = [
        f"# {file.title}\n",
        file.paper and f"Claims of {file.paper}.\n",
        file.introduction,
        READ,
        *bound_sentences(file),
        *(f"{words}\n" for one in SOURCES if (words := count_words(count_verdicts(judgements, one), one))),
        overview(judgements),
    ]
    repeats = {one.claim.id: askings for askings in group_askings(judgements) for one in askings if len(askings) > 1}
    for one in judgements:
        figure = draw_claim(one)
        picture = None
        if figure is not None:
            picture = page.parent / f"{page.stem}_figures" / f"{one.claim.id}.png"
            write_small_png(figure, picture)
            written.append(picture)
        askings = repeats.get(one.claim.id, [one])
        parts.append(section(one, file, picture.relative_to(page.parent) if picture else None, askings))
    parts += [withdrawn_section(file), closing]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(remove_controls("\n".join(part for part in parts if part)), encoding="utf-8")
    return [page, *written]


def find_pictures(file: ClaimsFile) -> list[str]:
    """Return the paths of the pictures in the `closing` text as written there, relative to the claims file.

    Raises UserError for one that does not exist or has the name of another figure of the page.
    """
    named = list(dict.fromkeys(match[2] for match in PICTURE.finditer(file.closing)))
    figures = {f"{claim.id}.png" for claim in file.claims}
    for picture in named:
        if not (file.path.parent / picture).is_file():
            raise UserError(f"{file.path}: closing: the picture {picture} does not exist")
        if (name := Path(picture).name) in figures:
            raise UserError(f"{file.path}: closing: the picture {picture} has the name of another figure of the page")
        figures.add(name)
    return named


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


def bound_sentences(file: ClaimsFile) -> list[str]:
    """Return the bounds of no effect of the page with their reasons, as a paragraph."""
    bounds = [f"of {metric_words([one.metric])} ±{one.within:g}, because {one.because}" for one in file.no_effect]
    return [f"The bound of no effect is {'; '.join(bounds)}.\n"] if bounds else []


def overview(judgements: Sequence[Judgement]) -> str:
    """Return a table of every claim with its effect and its verdict; all askings of a claim are in one row."""
    rows = []
    for askings in group_askings(judgements):
        judged = find_judged(askings)
        effects, verdicts = [effect_words(judged.claim, judged.answer)], [f"**{judged.words}**"]
        if len(askings) > 1:
            names = [askings[0].claim.id, *(_name_asking(*pair) for pair in pairwise(askings))]
            effects += [f"{name}: {_alone(one)}" for name, one in zip(names, askings, strict=True)]
            verdicts.append(f"asked {len(askings)} times, judged by {_judged_by(judged)}")
        first = askings[0].claim
        rows.append((first.id, _sentence(first), "<br>".join(effects), "<br>".join(verdicts)))
    return markdown_table(HEAD, rows)


def withdrawn_section(file: ClaimsFile) -> str:
    """Return the claims that are not judged any more with their reasons, as Markdown; empty without any."""
    lines = [f"- {one.id}: {_sentence(one)} {one.withdrawn}" for one in file.claims if one.withdrawn is not None]
    return "\n".join(["## Withdrawn", "", *lines, ""]) if lines else ""


def section(one: Judgement, file: ClaimsFile, picture: Path | None, askings: Sequence[Judgement]) -> str:
    """Return the section of one claim as Markdown: verdict, question, effect, figure and table of arms."""
    claim, members = one.claim, one.members
    lines = [f"## {claim.id}: {_sentence(claim)}", "", f"**{find_judged(askings).words}**", ""]
    if len(askings) > 1:
        lines += [_askings_words(askings), ""]
    note = [claim.note.strip(), ""] if claim.note else []
    if members is None:
        return "\n".join([*lines, f"Asked of sweep `{claim.sweep}`. {word_question(claim)}", "", *note])
    minutes = f"{duration(total_seconds(members.state.packs, members.state.recuts))} of one core"
    cost = "imported" if IMPORTED in members.state.provenance else minutes
    lost = f", {members.failed} members failed" if members.failed else ""
    lines += [
        f"{word_question(claim)} Asked of sweep `{members.name}` ("
        f"{counted(len(members.state.configurations), 'configuration')}, {len(members.seeds)} seeds{lost}; "
        f"{cost}{_stopped_words(members)}): "
        f"{describe_registration(claim, members.state, members.registered, file.seen.get(claim.sweep, 0))}.",
        "",
        f"{effect_name(claim)}{_pooled_words(one)}: {effect_words(claim, one.answer)}{_p_words(one)}.",
        "",
    ]
    if one.alone is not None:
        lines += [f"Over its own seeds alone: {effect_words(claim, one.alone)}.", ""]
    if changes := changes_since(members.state, file):
        words = "; ".join(f"{key} was {before}, now {now}" for key, before, now in changes)
        lines += [f"The sweep was begun with other values than its file has now: {words}.", ""]
    if one.learned_only is not None:
        lines += [f"{_learned_words(claim)}: {effect_words(claim, one.learned_only)}.", ""]
    if one.other is not None:
        name = "Median" if claim.statistic == "mean" else "Mean"
        lines += [f"{name} over all seeds: {effect_words(claim, one.other)}.", ""]
    lines += note
    if picture is not None:
        lines += [f"![{axis_words(claim, claim.compare)} of {' and '.join(claim.compare)}]({picture.as_posix()})", ""]
    if one.arms is not None:
        lines += [arms_table(one, members, list(one.arms.values())), ""]
    if hint := what_would_decide(one):
        lines += [hint, ""]
    return "\n".join(lines)


def _stopped_words(members: Members) -> str:
    """Return how many members stopped before their last step, and when; empty if none did."""
    stopped = [
        100 * one.stopped_at / members.steps[name]
        for name, configuration in members.state.configurations.items()
        for one in configuration.members.values()
        if one.stopped_at
    ]
    if not stopped:
        return ""
    first, last = (three_digits(f(stopped)) for f in (min, max))
    count = f"{len(stopped)} of {len(members.state.members)}"
    share = first if first == last else f"{first} to {last}"
    return f"; {count} members stopped early by their rule, after {share} % of their steps"


def _sentence(claim: Claim) -> str:
    return f"{claim.says} *(ours)*" if claim.source == "ours" else claim.says


def find_judged(askings: Sequence[Judgement]) -> Judgement:
    """Return the asking whose answer the verdict of all is about: the last one that was run."""
    return next((one for one in reversed(askings) if one.members is not None), askings[-1])


def _alone(one: Judgement) -> str:
    """Return the effect over the seeds of one asking."""
    return effect_words(one.claim, one.alone or one.answer)


def _judged_by(judged: Judgement) -> str:
    return f"the seeds of {' and '.join(judged.pooled)} together" if judged.pooled else judged.claim.id


def _askings_words(askings: Sequence[Judgement]) -> str:
    """Return every asking of a claim with what it changed, and which of them are judged, as a sentence."""
    names = [askings[0].claim.id, *(_name_asking(*pair) for pair in pairwise(askings))]
    return f"Asked {len(askings)} times: {', then '.join(names)}. Judged by {_judged_by(find_judged(askings))}."


def _name_asking(before: Judgement, one: Judgement) -> str:
    """Return the id of a claim that asks another one again, with what it changed."""
    changed = changed_keys(before, one)
    return f"{one.claim.id} (other {', '.join(changed)})" if changed else one.claim.id


def _pooled_words(one: Judgement) -> str:
    """Return how the value of a seed comes from its configurations, if there are several; a trend is over them."""
    several = max((len(arm.config_ids) for arm in (one.arms or {}).values()), default=1)
    if several == 1 or one.claim.question == "trend" or one.claim.unit is not None:
        return ""
    paired = {"difference": "differences", "equivalence": "differences", "ratio": "ratios"}
    what = f"its {paired[one.claim.question]}" if len(one.claim.compare) == 2 and one.claim.question in paired else "it"
    return f", each the median of {what} in {several} configurations"


def _learned_words(claim: Claim) -> str:
    """Return the sentence that says which seeds count as having learned the task."""
    assert claim.learned is not None
    rule, how = claim.learned, {"mean": "", "min": "the smallest ", "max": "the largest "}
    what = f"{how[rule.reduce]}{metric_words(rule.metric)} at {lengths_words(rule.lengths)} {threshold_words(rule)}"
    return f"Over the seeds that learned the task, with {what} in every arm, which decides nothing"


def arms_table(one: Judgement, members: Members, arms: Sequence[ArmValues]) -> str:
    """Return a table with a row for each arm: its configurations, how many seeds learned, median, mean and range.

    These are over all seeds, learned or not; of a trend over every configuration and seed.
    """
    rows = []
    for arm in arms:
        every = arm.values.dropna().to_numpy(dtype=np.float64)
        values = every if one.claim.question == "trend" else by_seed(arm.values)
        numbers = spans([members.state.configurations[name].number for name in arm.config_ids])
        middle, mean, least, most = (
            (three_digits(float(f(values)), NOT_REACHED) for f in (np.median, np.mean, np.min, np.max))
            if len(values)
            else ("-", "-", "-", "-")
        )
        learned = f"{arm.seeds_learned} of {arm.seeds}" if one.claim.learned else f"{arm.seeds}"
        where = _configuration_words(one.claim, members, arm)
        rows.append((arm.name, where, f"#{numbers}", arm.average, learned, middle, mean, f"{least} to {most}"))
    head = (
        "arm",
        "values",
        "configuration",
        "average",
        "seeds that learned" if one.claim.learned else "seeds",
        "median of all seeds" if one.claim.learned else "median",
        "mean of all seeds" if one.claim.learned else "mean",
        "range",
    )
    return markdown_table(head, rows)


def _configuration_words(claim: Claim, members: Members, arm: ArmValues) -> str:
    """Return the values by which an arm was found and the other searched values of a single or chosen configuration."""
    where = claim.arms[arm.name].where
    words = [f"{key}: {_value_words(value)}" for key, value in where.items()]
    if len(arm.config_ids) == 1:
        chosen = "chosen " if len(members.find_configurations(where)) > 1 else ""
        drawn = members.state.configurations[arm.config_ids[0]].values
        words += [f"{chosen}{key}: {_value_words(value)}" for key, value in drawn.items() if key not in where]
    return ", ".join(words) or "any"


def _value_words(value: object) -> str:
    return " and ".join(map(compact_value, value)) if isinstance(value, list | tuple) else compact_value(value)


def what_would_decide(one: Judgement) -> str:
    """Return a sentence on how an undecided claim could be decided; empty for a decided one."""
    if one.is_decided or one.answer is None:
        return ""
    if one.claim.control and one.reason.startswith("its control"):
        return f"It can be tested once {one.claim.control} is **{HELD}**."
    if one.reason.startswith("not learned"):
        return "It can be tested with settings with which more seeds learn the trained lengths."
    return f"{one.enough} fresh seeds, with values like these, would decide it." if one.enough else ""


def _p_words(one: Judgement) -> str:
    if one.answer is None or math.isnan(one.answer.p):
        return ""
    after = "" if math.isnan(one.holm) else f", {one.holm:.2g} after Holm's correction"
    return f"; p = {one.answer.p:.2g}{after}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
