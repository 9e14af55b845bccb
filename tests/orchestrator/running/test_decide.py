"""What a driver does next: every kind of action, and which one comes first where several are due."""

import pytest

from orchestrator.running.driving.budget import Limit
from orchestrator.running.driving.decide import (
    DecideRound,
    DecideRung,
    DrawGeneration,
    HandOut,
    Situation,
    StopSweep,
    Wait,
    decide,
)

HOURS = (Limit(used=2.0, allowed=1.0, text="2 of 1 hours"),)
FITS, TOO_LONG = lambda: ("b", ()), lambda: (None, HOURS)
RACE = {"is_rung_due": True, "is_round_due": True, "is_race_over": False}


@pytest.mark.parametrize(
    ("facts", "action", "is_done"),
    [
        ({}, Wait(), True),
        ({"running": ["a"]}, Wait(), True),
        ({"queue": ["b"], "find_fitting": FITS}, HandOut("b"), False),
        (
            {"queue": ["b"], "find_fitting": FITS, "running": ["a"], "generation": range(4, 8), **RACE},
            HandOut("b"),
            False,
        ),
        ({"queue": ["b"], "find_fitting": TOO_LONG, "running": ["a"]}, Wait(), False),
        ({"queue": ["b"], "find_fitting": TOO_LONG}, StopSweep(HOURS), False),
        ({"queue": ["b"], "find_fitting": FITS, "is_stopped": True, "generation": range(4, 8), **RACE}, Wait(), True),
        ({"generation": range(4, 8), "running": ["a"]}, DrawGeneration(range(4, 8)), False),
        ({"generation": range(4, 8), "is_scored": False}, Wait(), False),
        ({"generation": range(4, 8), **RACE}, DrawGeneration(range(4, 8)), False),
        ({"generation": range(4, 8), "is_scored": False, **RACE}, Wait(), False),
        (RACE, DecideRung(), False),
        ({**RACE, "is_round_due": False, "running": ["a"]}, Wait(), False),
        ({**RACE, "is_rung_due": False, "running": ["a"]}, DecideRound(), False),
        ({"is_race_over": False, "running": ["a"]}, Wait(), False),
    ],
)
def test_the_next_action_follows_from_the_facts(facts, action, is_done):
    situation = Situation(**facts)
    assert decide(situation) == action
    assert situation.is_done == is_done
