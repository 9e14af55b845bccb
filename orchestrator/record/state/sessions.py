"""For how long drivers have run a sweep."""

from dataclasses import dataclass, field

from orchestrator.record.ledger.records import Record


@dataclass
class Sessions:
    """The times of the first and the last record of every driver, in Unix seconds."""

    spans: list[list[float]] = field(default_factory=list)

    def take(self, record: Record) -> None:
        """Count the time of a driver; what others record, or is replayed out of order, does not count."""
        if record.kind in ("sweep", "resume", "extend"):
            self.spans.append([record.time, record.time])
        elif record.kind in ("evaluation", "attempt", "pack_end", "score", "rung", "race", "end") and self.spans:
            self.spans[-1][1] = max(self.spans[-1][1], record.time)

    @property
    def seconds(self) -> float:
        """For how long drivers have run the sweep, as far as they have left records of it."""
        return sum(last - first for first, last in self.spans)
