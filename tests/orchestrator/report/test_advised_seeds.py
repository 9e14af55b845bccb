"""The number of seeds that commands, pages and templates advise, and the number below which there is no interval."""

import inspect
import re
from pathlib import Path

import numpy as np

from orchestrator.cli.continuing import confirm
from orchestrator.report.lead_sentences import ENOUGH_SEEDS
from orchestrator.statistics.exact_tests import ALPHA, compute_sign_test
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN
from search_spaces import load_sweep

REPOSITORY = Path(__file__).resolve().parents[3]
START = REPOSITORY / "search_spaces" / "examples" / "start"


def test_reasons() -> None:
    agreeing, one_differs = np.ones(MIN_FOR_MEDIAN), np.r_[np.ones(ENOUGH_SEEDS - 1), -1.0]
    assert compute_sign_test(agreeing).p < ALPHA < compute_sign_test(agreeing[1:]).p
    assert compute_sign_test(one_differs).p < ALPHA


def test_texts_advise_the_same_number() -> None:
    texts = {path: (REPOSITORY / path).read_text() for path in ("README.md", "orchestrator/program/README.md")}
    advised = [number for text in texts.values() for number in re.findall(r"(?:--seeds |^seeds: )(\d+)", text, re.M)]
    assert len(advised) >= 4 and set(advised) == {str(ENOUGH_SEEDS)}
    assert inspect.signature(confirm).parameters["seeds"].default == str(ENOUGH_SEEDS)
    for kind in ("own", "program"):
        assert len(load_sweep(START / kind / "sweep.yaml").seeds) == ENOUGH_SEEDS
