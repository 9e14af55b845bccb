"""The machine that a sweep is started on."""

import sys

import torch

from orchestrator.code.provenance import read_provenance


def test_without_torch_the_gpus_are_unknown_and_not_none(monkeypatch):
    assert len(read_provenance()["gpus"]) == torch.cuda.device_count()
    monkeypatch.delitem(sys.modules, "torch")
    assert "gpus" not in read_provenance()
