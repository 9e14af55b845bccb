"""Finish a sweep whose packs have ended: its end record, its report and its last publication."""

from orchestrator.record.state.entities import STOPPED_BY_BUDGET
from orchestrator.record.state.state import SweepState
from orchestrator.results.sweep_status import describe_end_status
from orchestrator.session.session import Outcome, Session
from orchestrator.tracking.publisher import Publication, Publisher
from search_spaces import SweepSpec


def finish_sweep(session: Session, spec: SweepSpec, state: SweepState, publisher: Publisher | None) -> Outcome:
    """Record how the sweep ended, write its report, publish it, then print the outcome and return it.

    The exit code is 1 if no configuration has a score, or packs failed; seeds that diverged are results.
    `publisher` has begun to publish the sweep; if it is None, a publisher is started here.
    """
    # The report reads the end record, so it is written first.
    session.record_end(state)
    status, message = str(state.end_status), state.end_message
    from orchestrator.report.write_report import present_report  # imports pandas and scipy

    present_report(session.folder, session.console)

    # A server that is down does not fail the sweep: `publish` can be run later.
    if spec.tracking.enabled:
        if publisher is None:
            publisher = Publisher()
            publisher.start(session.folder, spec.tracking)
            publisher.announce("end")
        publisher.announce("files")
        _record_publication(session, spec, publisher.wait())
        publisher.kill()

    # The report says how other sweeps ended, but lacks the command that continues this one.
    if status == STOPPED_BY_BUDGET:
        session.say(f"{describe_end_status(state)}: {message}")
    return Outcome(folder=session.folder, status=status, exit_code=int(status == "failed" or bool(state.failed_packs)))


def _record_publication(session: Session, spec: SweepSpec, publication: Publication) -> None:
    """Record and print the links of the published results, or the problem; a failure does not fail the sweep."""
    uri = publication.uri or spec.tracking.uri
    experiment = spec.tracking.experiment or spec.study
    problem = publication.problem
    session.ledger.append("publish", uri=uri, ok=problem is None, message=problem or "", experiment=experiment)
    if problem is not None:
        session.say(f"not published: {problem}")
    else:
        for name, link in publication.links:
            session.say(f"{name}: {link}")
