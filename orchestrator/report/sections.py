"""The sections of a report with results, in order; the page and the full terminal report show them."""

from collections.abc import Iterator

from orchestrator.report.tables.averages import average_section
from orchestrator.report.tables.columns import Section
from orchestrator.report.tables.configurations import configuration_section, confirmation_section
from orchestrator.report.tables.effects import effect_section
from orchestrator.report.tables.evaluations import evaluation_section
from orchestrator.report.tables.later_evaluations import later_section
from orchestrator.report.tables.race import race_section
from orchestrator.report.tables.seed_comparisons import seed_comparison_section
from orchestrator.report.tables.value_comparisons import value_section
from orchestrator.results.analysis import compare_weight_averages, read_confirmations
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.comparing.value_comparisons import compare_values
from orchestrator.results.summary import Summary


def make_sections(result: Summary) -> Iterator[Section]:
    """Yield every section that has a table or a sentence."""
    if compare_values(result):
        yield value_section(result)
    yield configuration_section(result)
    yield from race_section(result)
    if compare_seeds(result):
        yield seed_comparison_section(result)
    for one in read_confirmations(result):
        yield confirmation_section(result, one)
    if effects := effect_section(result):
        yield effects
    if compare_weight_averages(result):
        yield average_section(result)
    if result.last_and_best:
        yield evaluation_section(result)
    if result.later_evaluations:
        yield later_section(result)
