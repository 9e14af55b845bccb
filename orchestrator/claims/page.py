"""The page of a claims file: each claim with its verdict, what was run, its numbers and its figure, as Markdown."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from orchestrator.claims.figures import draw_claim, write_small_png
from orchestrator.claims.members import Members
from orchestrator.claims.questions import Answer
from orchestrator.claims.registration import changes_since, say_when_registered
from orchestrator.claims.values import ArmValues
from orchestrator.claims.verdicts import HELD, NOT_TESTED, Judgement
from orchestrator.wording import duration, spans, three_digits
from search_spaces.grammar.claims import Claim, ClaimsFile

READ = """\
Verdicts are about these sweeps and no others. **held** and **contradicted**: the whole 95 % interval lies on one side,
also after Holm's correction over the claims of this page. **no effect within ±x**: the whole interval is that close.
**not tested** gives the reason. Intervals of medians lie between two of the seeds and need at least six of them. All
choices were made at the selection lengths.
"""


def write_page(file: ClaimsFile, judgements: Sequence[Judgement], page: Path) -> list[Path]:
    """Write the page and, in a folder beside it, the figures; return the paths.

    Raises OSError when it cannot be written.
    """
    written: list[Path] = []
    parts = [
        f"# {file.title}\n",
        file.paper and f"Claims of {file.paper}.\n",
        file.introduction,
        READ,
        overview(judgements),
    ]
    for one in judgements:
        figure = draw_claim(one)
        picture = None
        if figure is not None:
            picture = page.parent / f"{page.stem}_figures" / f"{one.claim.id}.png"
            write_small_png(figure, picture)
            written.append(picture)
        parts.append(section(one, file, picture.relative_to(page.parent) if picture else None))
    parts.append(file.closing)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(part for part in parts if part), encoding="utf-8")
    return [page, *written]


def overview(judgements: Sequence[Judgement]) -> str:
    """Return a table of every claim with its effect and its verdict."""
    rows = [
        (one.claim.id, one.claim.says, effect_words(one.claim, one.answer), f"**{one.words}**") for one in judgements
    ]
    return markdown_table(("claim", "the paper says", "effect and 95 % interval", "verdict"), rows)


def section(one: Judgement, file: ClaimsFile, picture: Path | None) -> str:
    """Return everything about one claim."""
    claim, members = one.claim, one.members
    lines = [f"## {claim.id}: {claim.says}", "", f"**{one.words}**", ""]
    if members is None:
        return "\n".join([*lines, f"Asked of sweep `{claim.sweep}`. {ask_in_words(claim)}", ""])
    minutes = duration(sum(pack.seconds for pack in members.state.packs.values()))
    lost = f", {members.failed} members failed" if members.failed else ""
    lines += [
        f"{ask_in_words(claim)} Asked of sweep `{members.name}` ({len(members.state.configurations)} configurations, "
        f"{len(members.seeds)} seeds{lost}; {minutes} of one core): {say_when_registered(claim, members, file)}.",
        "",
        f"{_effect_name(claim)}: {effect_words(claim, one.answer)}{_p_words(one)}.",
        "",
    ]
    if changes := changes_since(members.state, file):
        words = "; ".join(f"{key} was {before}, now {now}" for key, before, now in changes)
        lines += [f"The sweep was begun with other values than its file has now: {words}.", ""]
    if one.all_seeds is not None:
        lines += [f"Over all seeds, learned or not: {effect_words(claim, one.all_seeds)}.", ""]
    if claim.note:
        lines += [claim.note.strip(), ""]
    if picture is not None:
        lines += [f"![{claim.says}]({picture.as_posix()})", ""]
    if one.arms is not None:
        lines += [arms_table(one, members, list(one.arms.values())), ""]
    if hint := what_would_decide(one):
        lines += [hint, ""]
    return "\n".join(lines)


def ask_in_words(claim: Claim) -> str:
    """Return the question as a sentence."""
    what = " and ".join(claim.metric).replace("_", " ")
    what += f" at {claim.lengths} lengths" if isinstance(claim.lengths, str) else f" at length {spans(claim.lengths)}"
    first, second = claim.compare[0], claim.compare[-1]
    more = {"smaller": "fewer", "larger": "more"}.get(claim.expect or "", "")
    match claim.question:
        case "difference":
            return f"Is {what} {claim.expect} with {first} than with {second}?"
        case "ratio":
            return f"Is {what} with {first}, over that with {second}, {claim.expect} than {claim.bound or 1:g}?"
        case "bound":
            return f"Is the median of {what} with {first} {claim.expect} than {claim.bound or 0:g}?"
        case "equivalence":
            other = f"that with {second}" if len(claim.compare) == 2 else f"{claim.around or 0:g}"
            return f"Is {what} with {first} within ±{claim.within or 0:g} of {other}?"
        case "share":
            bound = 0.5 if claim.bound is None else claim.bound
            return f"Do {more} than {100 * bound:g} % of the seeds of {first} have {what} {_threshold_words(claim)}?"
        case "fisher":
            return f"Do {more} seeds of {first} than of {second} have {what} {_threshold_words(claim)}?"
    held = ", other searched values held fixed" if claim.hold_others else ""
    moves = f"as {claim.key} grows" if claim.category is None else f"with {claim.key} {claim.category}"
    return f"Does {what} get {claim.expect} {moves}{held}?"


def _effect_name(claim: Claim) -> str:
    """Return the name of the number that answers the question."""
    first, second = claim.compare[0], claim.compare[-1]
    match claim.question:
        case "difference" | "equivalence" if first != second:
            return f"{first} minus {second}, median over seeds"
        case "ratio":
            return f"{first} over {second}, median over seeds"
        case "fisher":
            return f"Share of seeds of {first} minus that of {second}"
        case "share":
            return f"Share of seeds of {first}"
        case "trend":
            return "Effect in standard deviations of ranks" if claim.hold_others else "Rank correlation"
    return f"{first}, median over seeds"


def effect_words(claim: Claim, answer: Answer | None) -> str:
    """Return the effect with its interval and the number of its values."""
    if answer is None or math.isnan(answer.effect):
        return "-"
    signed = claim.question in ("difference", "equivalence", "trend", "fisher")
    effect, low, high = (f"{x:+.3g}" if signed else f"{x:.3g}" for x in (answer.effect, answer.low, answer.high))
    interval = "no interval" if math.isnan(answer.low) else f"[{low}, {high}]"
    ran = f" of {answer.ran}" if answer.ran > answer.n else ""
    detail = f" ({answer.detail})" if answer.detail else ""
    return f"{effect} {interval}, n = {answer.n}{ran} {answer.unit}{detail}"


def arms_table(one: Judgement, members: Members, arms: Sequence[ArmValues]) -> str:
    """Return a table with a row for each arm: its configuration, how many seeds learned, median and range."""
    rows = []
    for arm in arms:
        values = arm.values.dropna().to_numpy(dtype=np.float64)
        numbers = ", ".join(f"#{members.state.configurations[name].number}" for name in arm.config_ids)
        where = ", ".join(f"{key}: {value}" for key, value in one.claim.arms[arm.name].where.items()) or "any"
        middle, least, most = (
            (three_digits(float(f(values))) for f in (np.median, np.min, np.max)) if len(values) else ("-", "-", "-")
        )
        learned = f"{arm.seeds_learned} of {arm.seeds}" if one.claim.learned else f"{arm.seeds}"
        rows.append((arm.name, where, numbers, arm.average, learned, middle, f"{least} to {most}"))
    head = (
        "arm",
        "values",
        "configuration",
        "average",
        "seeds that learned" if one.claim.learned else "seeds",
        "median",
        "range",
    )
    return markdown_table(head, rows)


def what_would_decide(one: Judgement) -> str:
    """Return what would decide an open claim; empty for a decided one."""
    if one.verdict != NOT_TESTED or one.answer is None:
        return ""
    if one.claim.control and one.reason.startswith("its control"):
        return f"It can be tested once {one.claim.control} is **{HELD}**."
    if one.reason.startswith("not learned"):
        return (
            "More training steps, or other settings, until the seeds learn the trained lengths, would let it be tested."
        )
    more = next((n for n in (9, 12, 17, 24, 36) if n > one.answer.n), 2 * one.answer.n)
    return f"With {more} {one.answer.unit} it may be decided."


def _threshold_words(claim: Claim) -> str:
    assert claim.success is not None
    most, least = claim.success.most, claim.success.least
    return f"of at least {least:g}" if least is not None else f"of at most {most:g}"


def _p_words(one: Judgement) -> str:
    if one.answer is None or math.isnan(one.answer.p):
        return ""
    after = "" if math.isnan(one.holm) else f", {one.holm:.2g} after Holm's correction"
    return f"; p = {one.answer.p:.2g}{after}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
