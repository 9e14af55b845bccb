"""`list` and `schema`: every key, name and domain with its default, and the sweeps that are shipped."""

import json
import re

import pytest

from orchestrator.preview.names import SECTIONS, describe_names
from search_spaces import Budget, Objective, Resources, Search, SweepSpec, load_sweep
from search_spaces.grammar.domains import DOMAINS
from tests.command_line import refused
from trainers.settings.descriptions import format_yaml
from trainers.settings.registry import KINDS


@pytest.mark.parametrize(
    ("kind", "model"),
    [("file", SweepSpec), ("search", Search), ("objective", Objective), ("resources", Resources), ("budget", Budget)],
)
def test_every_key_of_a_section_is_listed_with_its_default(kind, model):
    described = {line.split(":")[0].strip(): line for line in describe_names(kind, ())[1:]}
    assert described.keys() >= model.model_fields.keys()
    for key, field in model.model_fields.items():
        assert field.is_required() == described[key].endswith("required)")
        assert not isinstance(field.default, int | None) or f"default {format_yaml(field.default)}" in described[key]


def test_every_domain_is_listed():
    assert [line.strip().split(",")[0] for line in describe_names("space", ())[1:]] == list(DOMAINS)


def test_list_and_schema(lengthwise, tmp_path):
    overview = lengthwise("list").stdout
    shown_help = lengthwise("list", "--help").stdout
    for text in (overview, shown_help):
        assert {*KINDS, *SECTIONS, "space", "sweeps", "examples", "all"} <= {*re.findall(r"\w+", text)}
    assert max(map(len, overview.splitlines())) <= 80
    assert " luck of a seed" in " ".join(lengthwise("--help").stdout.split())
    listed = lengthwise("list", "all").stdout
    for text in ("task set_complement", "model attention_only", "average bema", "schedule constant", "vocabulary"):
        assert text in listed
    assert re.search(r"^    target: .* \(sampled, soft; default sampled\)$", listed, re.MULTILINE)
    assert "default null)" in listed and "default [100, 150, 200, 250, 300])" in listed and "default false)" in listed
    assert not [line for line in listed.splitlines() if re.search(r"; default .*['(]|\b(None|True|False)\b", line)]
    assert "an integer >= 1; default" in listed and "total_variation (minimize)" in listed
    assert "model attention_only" not in lengthwise("list", "task").stdout
    keys = lengthwise("list", "training").stdout
    assert keys in listed
    assert re.search(r"^    betas: .* \(a list of numbers >= 0 and < 1; default \[0.9, 0.99\]", keys, re.MULTILINE)
    assert keys.count("\n    samples: ") == 1, "of training.stop"
    assert json.loads(lengthwise("schema").stdout)["properties"]["seeds"]
    assert json.loads(lengthwise("schema", "claims").stdout)["title"] == "lengthwise claims"
    refused(lengthwise("schema", "claim"), "claims")


def test_shipped_sweeps_are_found_by_their_names(lengthwise, tmp_path):
    lines = lengthwise.succeeds("list", "examples").stdout.splitlines()
    listed = dict(line.split(maxsplit=1) for line in lines[::2])
    assert all(line.startswith("    ") and line.strip() for line in lines[1::2]), "each has a description"
    assert load_sweep(listed["quickstart"]).name == "quickstart" and {"race", "averaging", "fig2_addition"} <= set(
        listed
    )
    lengthwise.succeeds("validate", listed["quickstart"], cwd=tmp_path)
    few = ("training.steps=4", "evaluation.every=4", "search.configurations=1", "seeds=1", "resources.scheduler=inline")
    options = [word for setting in (*few, "tracking.enabled=false") for word in ("--set", setting)]
    lengthwise.succeeds("run", "quickstart", *options, cwd=tmp_path)
    assert (tmp_path / "sweeps" / "quickstart" / "sweep.yaml").is_file()
    (tmp_path / "quickstart").write_text("name: 3\n")
    lengthwise.refuses("validate", "quickstart", message="quickstart:1: name", cwd=tmp_path)
