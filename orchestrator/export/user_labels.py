"""Read the user's names for keys, metrics and configurations in figures and tables from a YAML file."""

from collections.abc import Mapping
from pathlib import Path

from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.wording import format_label
from search_spaces import ABSENT, find_nearest_name
from search_spaces.grammar.load import read_text
from search_spaces.grammar.parse import read_yaml
from search_spaces.grammar.problems import Findings

RENAMED_WORDS = ("length", "score", "trained", "selection", "test", "seeds")


def read_labels(path: Path, summary: Summary) -> dict[str, str]:
    """Return the texts of a labels file by the name that they replace: metrics, searched keys, "#3", and RENAMED_WORDS.

    Raises SweepFileError, with line and allowed keys, for unknown keys.
    """
    # Later checks need the results of earlier ones, so findings are raised after each.
    findings = Findings(str(path))
    content = read_text(path, findings, "YAML file of labels")
    findings.raise_any()
    labels = read_yaml(content, findings)
    findings.raise_any()

    # A misspelt key would silently leave a figure unlabelled.
    labelled = [
        *summary.metrics,
        *summary.searched,
        *(format_label(row.number) for row in summary.rows),
        *RENAMED_WORDS,
    ]
    if not isinstance(labels, dict):
        findings.add("", 'is not a mapping of names to texts, such as "#3": pre-norm', given=labels)
    else:
        for key, text in labels.items():
            if key not in labelled:
                words = ", ".join([*summary.searched, *RENAMED_WORDS])
                allowed = f'{words}, a metric, or a configuration such as "#0"'
                findings.add(key, "is not in this sweep", allowed=allowed, nearest=find_nearest_name(key, labelled))
            elif not isinstance(text, str):
                details = {} if text is ABSENT else {"given": text}
                findings.add(key, "is not a text; write it in quotes", **details)
    findings.raise_any()
    return dict(labels)


def select_labelled_rows(summary: Summary, labels: Mapping[str, str]) -> list[ConfigurationResult]:
    """Return the configurations that have a label, in the order of the labels."""
    rows = {format_label(row.number): row for row in summary.rows}
    return [rows[key] for key in labels if key in rows]
