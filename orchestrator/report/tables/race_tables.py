"""The tables of a race over seeds: its rounds, the rungs of the first round, values and survivors."""

from collections.abc import Collection, Mapping
from functools import partial

from orchestrator.report.tables.columns import Column, Records, Section, make_cells
from orchestrator.results.race_rounds import describe_race, describe_rule
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_label, format_ranges

MAX_LABELS = 12  # listed survivors of a round
ROUND_NOTES = (
    "Decisions depend only on the judged values at the selection lengths, of all seeds up to the round.",
    "Scores of the configurations ranked first are optimistic, because these scores chose them; scores on fresh seeds "
    "(lengthwise confirm) are not.",
)
RUNG_NOTES = (
    "At a rung, configurations are compared by their median judged value at the selection lengths. The guard keeps "
    "configurations that still improve by more than their seeds differ: the median improvement since the step in the "
    "second column exceeds the interquartile range at the rung.",
    "A pruned configuration has curves up to its rung, and no score.",
)


def make_race_sections(summary: Summary) -> list[Section]:
    """Return the sections on the rounds of a race and on its rungs, if there are any; empty without a race."""
    if summary.race is None:
        return []

    # A line of rounds is (number, round), since a round does not know its number.
    list_labels = partial(_list_labels, {row.config_id: row.number for row in summary.rows})
    rounds = [
        Column("round", lambda line: line[0]),
        Column("seeds", lambda line: format_ranges(line[1].new_seeds)),
        Column("configurations", lambda line: len(line[1].contenders)),
        Column("members", lambda line: line[1].member_count),
        Column("decided by", lambda line: describe_rule(line[1]) or None),
        Column("stay", lambda line: len(line[1].decision.survivors) if line[1].decision else None),
        Column("which", lambda line: list_labels(line[1].decision.survivors) if line[1].decision else None),
    ]
    sections = [
        Section(
            heading="Race over seeds",
            cells=make_cells(list(enumerate(summary.race.rounds, start=1)), rounds),
            paragraphs=[f"{describe_race(summary.race)}."],
            notes=ROUND_NOTES,
        )
    ]

    # Rungs stop configurations within the first round, so their table follows.
    if summary.race.rungs:
        rungs = [
            Column("rung at step", lambda rung: f"{rung.step:,}"),
            Column("improvement since", lambda rung: f"{rung.since:,}"),
            Column("configurations", lambda rung: len(rung.values)),
            Column("train on", lambda rung: len(rung.survivors)),
            Column("kept by the guard", lambda rung: list_labels(rung.guarded) or None),
            Column("pruned", lambda rung: list_labels(rung.pruned) or None),
        ]
        cells = make_cells(summary.race.rungs, rungs)
        sections.append(Section(heading="Pruned during training", cells=cells, notes=RUNG_NOTES))
    return sections


def make_race_records(summary: Summary) -> Records:
    """Return a line of race.csv for every configuration of every round: its seeds, the rule, whether it stays.

    `value` is its median score or rank sum over all seeds up to the round; `stays` is empty until it is decided.
    """
    return [
        {
            "round": number,
            "config_id": config_id,
            "new_seeds": format_ranges(race_round.new_seeds),
            "decided_by": race_round.decision.by if race_round.decision else "",
            "value": race_round.decision.values.get(config_id) if race_round.decision else None,
            "p": race_round.decision.p if race_round.decision else None,
            "stays": config_id in race_round.decision.survivors if race_round.decision else "",
        }
        for number, race_round in enumerate(summary.race.rounds if summary.race else (), start=1)
        for config_id in race_round.contenders
    ]


def make_rung_records(summary: Summary) -> Records:
    """Return a line of rungs.csv for every configuration of every rung, with the deciding value.

    `value` is its median score at the step; `improvement` (the median since an earlier step) and `spread` decide the
    guard; `outcome` is ahead, guarded or pruned.
    """
    return [
        {
            "step": rung.step,
            "since": rung.since,
            "config_id": config_id,
            "value": value,
            "improvement": rung.improvements.get(config_id),
            "spread": rung.spreads.get(config_id),
            "outcome": "guarded" if config_id in rung.guarded else "ahead" if config_id in rung.survivors else "pruned",
        }
        for rung in (summary.race.rungs if summary.race else ())
        for config_id, value in rung.values.items()
    ]


def _list_labels(numbers: Mapping[str, int], names: Collection[str]) -> str:
    """Return the labels of configurations as text, at most MAX_LABELS."""
    numbered = sorted(numbers[name] for name in names)
    return ", ".join(map(format_label, numbered[:MAX_LABELS])) + (" ..." if len(numbered) > MAX_LABELS else "")
