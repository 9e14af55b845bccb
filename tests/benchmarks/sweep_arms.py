"""The arms of the benchmark that are sweeps of lengthwise, by the command that a person types.

D-*, E-*, F-*   seeds stacked; seeds and configurations stacked; as E in vocabulary-table form; each eager and compiled
L-auto, L-ray   as a person has it: form, compile and packs auto; scheduler auto or ray
"""

import sys
from pathlib import Path
from typing import Any

import yaml
from workloads import Workload

from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState

WAYS = {"D": ("plain", "seeds"), "E": ("plain", "auto"), "F": ("table", "auto"), "L": ("auto", "auto")}


def is_sweep(arm: str) -> bool:
    """Whether an arm is one of these."""
    return arm.partition("-")[0] in WAYS


def command(arm: str, work: Workload, storage: Path) -> list[str]:
    """The command of an arm, whose file is written to `storage`, as its sweep will be."""
    way, _, how = arm.partition("-")
    form, pack = WAYS[way]
    compiled: bool | str = "auto" if way == "L" else how == "compiled"
    sections = work.sweep(form, compiled, "ray" if how == "ray" else "auto", work.seeds if pack == "seeds" else pack)
    file = storage / "bench.yaml"
    file.write_text(yaml.safe_dump(sections, sort_keys=False))
    return [sys.executable, "-m", "orchestrator", "run", str(file), "--storage", str(storage)]


def collected(storage: Path) -> list[dict[str, Any]]:
    """Final curves of every member and the times of its pack's evaluations, from the sweep's own records."""
    state = SweepState.load(storage / "bench")
    frame = read_curves(state, final_only=True)
    frame = frame[frame.metric == "total_variation"].sort_values("length")
    records = [record for record in read_records(state.folder) if record.kind == "evaluation"]
    members = []
    for configuration in state.configurations.values():
        for seed, member in configuration.members.items():
            mine = frame[(frame.config_id == configuration.config_id) & (frame.seed == seed)]
            curves = {str(a): group.value.tolist() for a, group in mine.groupby("average", observed=True)}
            times = [record.time for record in records if record.fields["pack_id"] == member.pack_id]
            record = {"configuration": configuration.number, "seed": seed, "curves": curves, "times": times}
            members.append({**record, "pack": member.pack_id})
    return members
