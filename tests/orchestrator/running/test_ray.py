"""A sweep on a real Ray leaves what the same sweep leaves that ran in one process, also of a pack that dies."""

import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from orchestrator.code.packages import make_module_command
from orchestrator.plan.checks.sweep_file_checks import build_first_generation
from orchestrator.plan.packing.packs import Packer
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.running.schedulers.inline import describe_process
from search_spaces import load_sweep
from tests.orchestrator.running.ledgers import curves

TWO_PACKS = ("--set", "resources.pack=4", "--set", "space.training.batch_size=null", "--set", "resources.retries=5")
TIMES = ("seconds", "provenance", "environment", "environment_in_full")  # Ray sets a worker's OMP_NUM_THREADS


def story(folder: Path) -> dict[Any, list[str]]:
    """Of every pack its records in order, and the others in order; without times and without where it ran."""
    texts = defaultdict(list)
    for record in read_records(folder):
        fields = {key: value for key, value in record.fields.items() if key not in TIMES}
        if record.kind == "sweep":
            fields["spec"] = {**fields["spec"], "resources": None}
        text = json.dumps([record.kind, fields], sort_keys=True, default=str).replace(str(folder), "FOLDER")
        texts[fields.get("pack_id")].append(text)
    texts["scores"] = sorted(text for text in texts[None] if text.startswith('["score"'))  # in the order packs ended
    texts[None] = [text for text in texts[None] if text not in texts["scores"]]
    return texts


@pytest.mark.slow
def test_ray_and_inline_leave_the_same_ledger_and_the_same_curves(lengthwise, tiny, crowded, tmp_path):
    """Also in a folder with files named like our packages."""
    (crowded / "mine.py").write_text("import trainers\n\nassert trainers.Task\n")
    spec = load_sweep(tiny, TWO_PACKS[1::2])
    dying, living = (
        pack.pack_id
        for pack in Packer(spec, describe_process()).pack_members(
            [(configuration, spec.seeds) for configuration in build_first_generation(spec)]
        )
    )
    folders = {name: tmp_path / name / "tiny" for name in ("ray", "inline")}
    for folder in folders.values():
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "checkpoints" / dying).touch()  # a file where its folder of checkpoints should be
    run = ("run", str(tiny), *TWO_PACKS, "--import", "mine", "--storage")
    here = lengthwise.process(*run, tmp_path / "inline", cwd=crowded)
    command = make_module_command("orchestrator", *run, "ray", "--set", "resources.scheduler=ray")
    there = subprocess.run(command, cwd=crowded, env=lengthwise.environment, capture_output=True, text=True)
    assert (here.returncode, there.returncode) == (1, 1), here.stdout + there.stdout + there.stderr
    assert "this process: up to 1 pack at once" in here.stdout and "a local Ray with " in there.stdout
    assert story(folders["ray"]) == story(folders["inline"])
    assert curves(folders["ray"]).equals(curves(folders["inline"]))
    packs = SweepState.load(folders["ray"]).packs
    assert (packs[living].status, packs[dying].status) == ("complete", "failed")
    first, second = packs[dying].attempts  # an exception comes again: it is tried once more and no more
    assert first == second and first.startswith("CheckpointError: cannot write checkpoint")
    assert "File exists (" in first and "trainers/files/checkpoint.py:" in first
