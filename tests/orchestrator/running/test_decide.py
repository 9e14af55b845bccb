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

HOURS = (Limit(used_after=2.0, allowed=1.0, text="2 of 1 hours"),)
FITS = {"find_pack_within_budget": lambda: ("b", ())}
TOO_LONG = {"find_pack_within_budget": lambda: (None, HOURS)}
RACE = {"is_rung_due": True, "is_round_due": True, "has_race_ended": False}


@pytest.mark.parametrize(
    ("facts", "action", "has_ended"),
    [
        ({}, Wait(), True),
        ({"running_pack_ids": ["a"]}, Wait(), True),
        ({"waiting_pack_ids": ["b"], **FITS}, HandOut("b"), False),
        (
            {"waiting_pack_ids": ["b"], **FITS, "running_pack_ids": ["a"], "generation": range(4, 8), **RACE},
            HandOut("b"),
            False,
        ),
        ({"waiting_pack_ids": ["b"], **TOO_LONG, "running_pack_ids": ["a"]}, Wait(), False),
        ({"waiting_pack_ids": ["b"], **TOO_LONG}, StopSweep(HOURS), False),
        (
            {"waiting_pack_ids": ["b"], **FITS, "is_budget_used_up": True, "generation": range(4, 8), **RACE},
            Wait(),
            True,
        ),
        ({"generation": range(4, 8), "running_pack_ids": ["a"]}, DrawGeneration(range(4, 8)), False),
        ({"generation": range(4, 8), "is_scored": False}, Wait(), False),
        ({"generation": range(4, 8), **RACE}, DrawGeneration(range(4, 8)), False),
        ({"generation": range(4, 8), "is_scored": False, **RACE}, Wait(), False),
        (RACE, DecideRung(), False),
        ({**RACE, "is_round_due": False, "running_pack_ids": ["a"]}, Wait(), False),
        ({**RACE, "is_rung_due": False, "running_pack_ids": ["a"]}, DecideRound(), False),
        ({"has_race_ended": False, "running_pack_ids": ["a"]}, Wait(), False),
    ],
)
def test_the_next_action_follows_from_the_facts(facts, action, has_ended):
    situation = Situation(**facts)
    assert decide(situation) == action
    assert situation.has_ended == has_ended
