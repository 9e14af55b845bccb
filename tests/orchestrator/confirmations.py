"""A search to confirm, and confirmations of it that were not run."""

import shutil

from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from tests.orchestrator.running.ledgers import begin_ledger

DRAWS = [
    {"training.learning_rate": 10.0 ** -(4 - n / 3), "training.averages.ema.decay": 0.9 + n / 100} for n in (2, 1, 0, 3)
]


def curve(number, seed, average, metric, lengths, step):
    """Number 2 is first at the selection lengths 6 and 7, number 0 at every other one."""
    selection_value = abs(number - 2) * 0.1
    beyond = 0.01 * number
    return [selection_value + 0.001 * seed if length in (6, 7) else beyond for length in lengths]


def begin(confirmation, storage):
    """Write the first record of a planned confirmation, as running it would."""
    folder = storage / confirmation.spec.name
    begin_ledger(folder, confirmation.spec, provenance=confirmation.origin).close()
    return SweepState.load(folder)


def as_confirmation(draft, planned, target):
    """The records of a synthetic sweep under the first record that the confirmation would have."""
    with begin_ledger(target, planned.spec, provenance=planned.origin) as ledger:
        for record in read_records(draft.folder)[1:]:
            ledger.append(record.kind, **record.fields)
    shutil.copytree(draft.folder / "curves", target / "curves")
    shutil.rmtree(draft.folder)
