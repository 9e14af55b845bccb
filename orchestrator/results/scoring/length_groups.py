"""The trained, selection and test lengths of a metric.

Lengths are recorded for each metric. Trained lengths occur in training on its distribution. Selection lengths are those
of the objective, for metrics on the judged distribution. Test lengths are all others beyond the longest trained length,
or all others if the distribution is not trained on.
"""

from collections.abc import Collection
from dataclasses import dataclass

from orchestrator.errors import UserError
from orchestrator.interface.measurements import Measurements
from orchestrator.text.wording import describe_wrong_numbers, format_lengths, read_numbers
from search_spaces import Objective


@dataclass(frozen=True, kw_only=True)
class LengthGroups:
    """The evaluated lengths of a metric, all (`evaluated`) and by group."""

    evaluated: tuple[int, ...]
    trained: tuple[int, ...]
    selection: tuple[int, ...]
    test: tuple[int, ...]


def make_length_groups(measured: Measurements, objective: Objective, metric: str | None = None) -> LengthGroups:
    """Return the length groups of a metric of a configuration, by default of the judged metric."""
    # Lengths of another distribution had no influence on the selection, even if they are numerically the same.
    judged_metric = measured.metrics[objective.metric]
    recorded_metric = measured.metrics[metric or objective.metric]
    selection = tuple(sorted(objective.lengths)) if recorded_metric.distribution == judged_metric.distribution else ()
    longest = measured.longest_trained.get(recorded_metric.distribution)
    return LengthGroups(
        evaluated=recorded_metric.lengths,
        trained=recorded_metric.trained_lengths,
        selection=selection,
        test=tuple(
            length
            for length in recorded_metric.lengths
            if (longest is None or length > longest) and length not in selection
        ),
    )


def parse_lengths(text: str, allowed_lengths: Collection[int] | None, allowed: str) -> tuple[int, ...]:
    """Return the ascending lengths of the option --lengths; `allowed_lengths` None allows every length.

    Raises UserError for repeated or other lengths; `allowed` describes the allowed lengths in the message.
    """
    numbers = read_numbers(text)
    if not numbers:
        raise UserError(f"--lengths {text!r}: {describe_wrong_numbers(text)}; allowed: {allowed}")
    if missing := sorted(set(numbers).difference(numbers if allowed_lengths is None else allowed_lengths)):
        raise UserError(f"--lengths {text!r}: not evaluated: {format_lengths(missing)}; allowed: {allowed}")
    return tuple(sorted(numbers))
