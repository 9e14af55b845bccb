"""The table of a race over seeds: its rounds, what decided them and who stayed."""

from orchestrator.report.tables.columns import NONE, Columns, Section, make_cells
from orchestrator.results.summary import Summary
from orchestrator.results.views.race_rounds import decided_by, race_sentence
from orchestrator.wording import label, spans

NAMED = 12  # survivors of a round that are listed
NOTES = (
    "Members: trained in the round. A decision goes by the judged values at the selection lengths of all seeds up to "
    "its round, and by nothing else.",
    "The first configurations were chosen by the scores that they are shown with, which are too good therefore; fresh "
    "seeds (confirm) are not.",
)


def race_section(result: Summary) -> list[Section]:
    """Return the section of the race; none without a race."""
    if result.race is None:
        return []
    numbers = {row.config_id: row.number for row in result.rows}

    def staying(names: tuple[str, ...]) -> str:
        chosen = sorted(numbers[name] for name in names)
        return ", ".join(map(label, chosen[:NAMED])) + (" ..." if len(chosen) > NAMED else "")

    columns: Columns = {
        "round": lambda line: str(line[0]),
        "seeds": lambda line: spans(line[1].new_seeds),
        "configurations": lambda line: str(len(line[1].contenders)),
        "members": lambda line: str(line[1].members),
        "decided by": lambda line: decided_by(line[1]) or NONE,
        "stay": lambda line: str(len(line[1].decision.survivors)) if line[1].decision else NONE,
        "which": lambda line: staying(line[1].decision.survivors) if line[1].decision else NONE,
    }
    cells = make_cells(list(enumerate(result.race.rounds, start=1)), columns)
    sentence = f"{race_sentence(result.race)}."
    return [Section(heading="Race over seeds", cells=cells, paragraphs=[sentence], notes=NOTES, csv="race.csv")]
