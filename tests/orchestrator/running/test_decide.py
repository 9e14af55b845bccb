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
TOO_LONG = {"exceeded_limits": HOURS}
RACE = {"is_rung_due": True, "is_round_due": True}


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({}, Wait()),
        ({"running_pack_ids": ["a"]}, Wait()),
        ({"next_pack_id": "b"}, HandOut("b")),
        ({"next_pack_id": "b", "running_pack_ids": ["a"], "generation": range(4, 8), **RACE}, HandOut("b")),
        ({**TOO_LONG, "running_pack_ids": ["a"]}, Wait()),
        (TOO_LONG, StopSweep(HOURS)),
        ({"next_pack_id": "b", "is_budget_used_up": True, "generation": range(4, 8), **RACE}, Wait()),
        ({"generation": range(4, 8), "running_pack_ids": ["a"]}, DrawGeneration(range(4, 8))),
        ({"generation": range(4, 8), "is_scored": False}, Wait()),
        ({"generation": range(4, 8), **RACE}, DrawGeneration(range(4, 8))),
        ({"generation": range(4, 8), "is_scored": False, **RACE}, Wait()),
        (RACE, DecideRung()),
        ({**RACE, "is_round_due": False, "running_pack_ids": ["a"]}, Wait()),
        ({**RACE, "is_rung_due": False, "running_pack_ids": ["a"]}, DecideRound()),
    ],
)
def test_the_next_action_follows_from_the_facts(facts, action):
    assert decide(Situation(**facts)) == action
