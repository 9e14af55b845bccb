"""The gallery page of the study: for every claim its sweep, the numbers, the answer and a figure, as Markdown."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from claims import Claim, Table, all_claims, hyperparameters, span
from measures import Sweep
from pictures import draw_all

INTRODUCTION = """\
# Set complement and Othello: which claims held here

The claims are those of arXiv:2510.08341, the last one of its second version. The sweeps are small on purpose: they
run on two cores. An answer is about this scale. `held` and `did not hold` mean that the whole 95 % interval lies on one
side of no effect, `not decided` that it does not. Effects are over configurations where there are at least four, else
over seeds: from ten on the median, its interval by resampling; below ten the mean and Student's t interval. Whatever
was chosen was chosen at the selection lengths, just beyond the trained ones; the test lengths, all those beyond, are
only reported. No number here is the paper's.

`make studies` runs every sweep of this page and writes the page; a sweep that is finished is not run again.
"""


def write_gallery(sweeps: dict[str, Sweep], folder: Path) -> Path:
    """Write set_complement.md and its figures into `folder`; returns the page."""
    claims = all_claims(sweeps)
    pictures = draw_all(sweeps, folder)
    text = [INTRODUCTION, overview(claims), sizes(sweeps)]
    for claim in claims:
        text.append(section(claim, pictures[claim.letter].relative_to(folder)))
    search = sweeps["random_search_cpu"]
    text.append(
        f"## Random search\n\n`lengthwise run search_spaces/set_complement/{search.name}.yaml`: {search.size}. Score "
        f"of a configuration: median over seeds of the total variation at test lengths {span(search.test)}; smaller is "
        "better, so a negative number says that more of the hyperparameter helps. Partial effects: least squares on "
        "standardised ranks with the other hyperparameters held; for categories, against the first value.\n"
    )
    text += [markdown(table) for table in hyperparameters(search)]
    page = folder / "set_complement.md"
    page.write_text("\n".join(text), encoding="utf-8")
    return page


def overview(claims: Sequence[Claim]) -> str:
    """Every claim with its first answers."""
    rows = [
        (f"({claim.letter}) {claim.says}", f"{part.asked} {part.effect}", f"**{part.answer}**")
        for claim in claims
        for part in claim.parts[: 4 if claim.letter in "abd" else 1]
    ]
    return markdown(Table(title="", head=("claim", "question, effect and 95 % interval", "at this scale"), rows=rows))


def sizes(sweeps: dict[str, Sweep]) -> str:
    """How large every sweep was."""
    rows = [(name, sweep.size) for name, sweep in sweeps.items()]
    return markdown(Table(title="Sweeps", head=("sweep", "configurations x seeds x steps"), rows=rows))


def section(claim: Claim, picture: Path) -> str:
    """One claim in full."""
    name = claim.sweep.name
    lines = [
        f"## ({claim.letter}) {claim.says}",
        "",
        f"`lengthwise run search_spaces/set_complement/{name}.yaml`: {claim.sweep.size}. Measured: {claim.measured}.",
        "",
        markdown(
            Table(
                title="",
                head=("question", "effect", "answer"),
                rows=[(part.asked, part.effect, f"**{part.answer}**") for part in claim.parts],
            )
        ),
        f"![{claim.says}]({picture})",
        "",
        f"The figure is drawn by `python tests/studies/run.py --gallery-only` from the ledger of `{name}`.",
        "",
        *(markdown(table) for table in claim.tables),
    ]
    return "\n".join(lines)


def markdown(table: Table) -> str:
    """A table in Markdown, its title above."""
    rule = "| " + " | ".join("---" for _ in table.head) + " |"
    rows = [f"| {' | '.join(cell(value) for value in row)} |" for row in (table.head, *table.rows)]
    title = [f"{table.title[0].upper()}{table.title[1:]}:", ""] if table.title else []
    return "\n".join([*title, rows[0], rule, *rows[1:], ""])


def cell(value: Any) -> str:
    """A number with three digits, anything else as it is."""
    if not isinstance(value, float | np.floating):
        return str(value).replace("|", "\\|")
    return "-" if math.isnan(value) else f"{value:.3g}"
