"""What the gallery's pages share: claims, sizes and tables as Markdown."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.studies.claims import Claim, Part, Table
from orchestrator.studies.measures import Sweep


def overview(claims: Sequence[Claim]) -> str:
    """Every claim with its first answers."""
    rows = [
        (
            f"({claim.letter}) {claim.says}",
            f"{part.asked} {'; '.join(f'{source(one)}{one.effect}' for one in outcomes(part))}",
            "; ".join(f"{source(one)}**{one.answer}**" for one in outcomes(part)),
        )
        for claim in claims
        for part in claim.parts[: claim.shown]
    ]
    return markdown(Table(title="", head=("claim", "question, effect and 95 % interval", "at this scale"), rows=rows))


def sizes(sweeps: Mapping[str, Sweep]) -> str:
    """How large every sweep was."""
    rows = [(name, sweep.size) for name, sweep in sweeps.items()]
    return markdown(Table(title="Sweeps", head=("sweep", "configurations x seeds x steps"), rows=rows))


def section(claim: Claim, picture: Path) -> str:
    """One claim in full."""
    name = claim.sweep.name
    lines = [
        f"## ({claim.letter}) {claim.says}",
        "",
        f"{command(claim.sweep)}: {claim.sweep.size}. Measured: {claim.measured}.",
        "",
        markdown(
            Table(
                title="",
                head=("question", "effect", "answer"),
                rows=[
                    (f"{source(one)}{one.asked}", one.effect, f"**{one.answer}**")
                    for part in claim.parts
                    for one in outcomes(part)
                ],
            )
        ),
        f"![{claim.says}]({picture})",
        "",
        f"The figure is drawn by `python -m orchestrator.studies.run --gallery-only` from the ledger of `{name}`.",
        "",
        *(markdown(table) for table in claim.tables),
    ]
    return "\n".join(lines)


def outcomes(part: Part) -> list[Part]:
    """What came out of a question, each time it was asked."""
    return [part, part.again] if part.again else [part]


def source(part: Part) -> str:
    """Where this came from, if there is another one."""
    return f"{part.of}: " if part.of else ""


def command(sweep: Sweep) -> str:
    """How a sweep is run."""
    return f"`lengthwise run search_spaces/{sweep.state.study}/{sweep.name}.yaml`"


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


def write(folder: Path, name: str, text: Sequence[str]) -> Path:
    """Write a page of these paragraphs; returns its path."""
    page = folder / f"{name}.md"
    page.write_text("\n".join(text), encoding="utf-8")
    return page
