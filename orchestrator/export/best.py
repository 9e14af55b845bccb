"""Export the best configuration as a sweep file that is ready to run."""

from orchestrator.errors import UserError
from orchestrator.plan.recorded_configurations import rebuild_member, refuse_changed_results
from orchestrator.record.files.recorded_modules import import_recorded
from orchestrator.record.state.lineage import refuse_imported
from orchestrator.record.state.state import SweepState
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_label, format_number
from search_spaces import dump_yaml, parse_sweep
from search_spaces.grammar.sections import list_sections
from search_spaces.grammar.values import MAX_NAME_BYTES, MAX_NAME_CHARACTERS

COPIED_SECTIONS = ("objective", "resources", "tracking")


def make_best_file(state: SweepState, summary: Summary) -> str:
    """Return the sweep file of the configuration ranked first, with every value and its seeds.

    It trains the same members as the sweep, even if defaults have changed since. Raises UserError if no configuration
    has a score yet, and for a configuration that this version would train to other results.
    """
    if (row := summary.first) is None:
        raise UserError(f"--best: {state.folder}: no configuration has a score yet")

    # Defaults may have changed since, so the file gets every value that this version needs for the same results.
    refuse_imported(state)
    import_recorded(state)
    configuration = state.configurations[row.config_id]
    refuse_changed_results([configuration], f"{format_label(row.number)} of {state.folder} cannot be exported")
    member = rebuild_member(configuration).to_dict()

    # Parsing the text at the end proves that the exported file can be run.
    score = f"{format_number(row.score)}, {row.seeds_run} seeds ran, {row.seeds_failed} failed"
    ranked = f"ranked 1 of {summary.complete_configurations} by {summary.score_label}"
    spec = {
        "name": _shorten_name(state.name, "-best"),
        "study": state.study,
        "description": (
            f"Configuration {format_label(row.number)} ({row.config_id}) of {state.name}, {ranked}: {score}."
        ),
        # Without the imports, classes of the user would be unknown in the exported file.
        **{key: state.spec[key] for key in ("imports",) if key in state.spec},
        # Keys of a program's `config` are the user's, also a key `revision`.
        **{
            section: member[section] if section == "config" else _remove_revisions(member[section])
            for section in list_sections(state.spec)
        },
        "seeds": list(row.seeds),
        **{key: state.spec[key] for key in COPIED_SECTIONS},
    }
    text = dump_yaml(spec)
    parse_sweep(text, "the exported sweep file")
    return text


def _shorten_name(name: str, ending: str) -> str:
    """Return a name with an ending, cut so that both fit the maximal length of a name."""
    # File systems limit the bytes of a name, the grammar limits its characters; the cut may split a character.
    shortened = name.encode()[: MAX_NAME_BYTES - len(ending)].decode(errors="ignore")
    return shortened[: MAX_NAME_CHARACTERS - len(ending)] + ending


def _remove_revisions(section: object) -> object:
    """Return a section without the revisions of its classes, which sweep files do not have."""
    if isinstance(section, dict):
        return {key: _remove_revisions(value) for key, value in section.items() if key != "revision"}
    return [_remove_revisions(item) for item in section] if isinstance(section, list | tuple) else section
