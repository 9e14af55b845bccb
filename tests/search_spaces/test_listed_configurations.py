"""search.listed: configurations written out one by one instead of a space to draw from."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from search_spaces import SweepFileError, dump_yaml, load_sweep, make_json_schema, parse_sweep

LISTED = """\
name: arms
study: set_complement
task: {name: set_complement, vocabulary: 20}
model: {name: attention_only, norm: none, dropout: 0.0}
training: {steps: 100, learning_rate: 0.003, averages: {raw: {}}}
search:
  sampler: listed
  listed:
    - {model.norm: post, training.averages.ema.decay: 0.99}
    - model.dropout: 0.3
      training.averages.ema.decay: 0.9
    - {}
seeds: [3, 5]
objective: {metric: total_variation, average: raw, lengths: [6, 7], direction: minimize}
"""


def refusal(text: str, *overrides: str) -> str:
    with pytest.raises(SweepFileError) as caught:
        parse_sweep(text, "arms.yaml", overrides)
    return str(caught.value)


def test_they_are_read_and_survive_the_round_trip(tmp_path: Path) -> None:
    spec = parse_sweep(LISTED, "arms.yaml")
    first, second, third = spec.search.listed
    assert first == {"model.norm": "post", "training.averages.ema.decay": 0.99} and third == {}
    assert second == {"model.dropout": 0.3, "training.averages.ema.decay": 0.9}
    path = tmp_path / "again.yaml"
    path.write_text(dump_yaml(spec.resolved()))
    assert load_sweep(path) == spec and load_sweep(path).spec_hash == spec.spec_hash
    Draft202012Validator(make_json_schema()).validate(json.loads(json.dumps(spec.resolved())))


def test_a_key_is_found_at_its_line() -> None:
    spec = parse_sweep(LISTED, "arms.yaml")
    assert spec.format_location("model.norm") == "arms.yaml:9"
    assert spec.format_location("model.dropout") == "arms.yaml:10"
    assert spec.format_location("training.averages.ema.decay") == "arms.yaml:9"
    assert spec.format_location("training.steps") == "arms.yaml:5"


def test_an_average_that_only_a_configuration_names_can_be_the_objective() -> None:
    assert parse_sweep(LISTED.replace("average: raw", "average: ema"), "a").objective.average == "ema"
    assert "objective.average: is not one of" in refusal(LISTED.replace("average: raw", "average: emma"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("- {}", "- {model.dropout: 0.3, training.averages.ema.decay: 0.9}", "item 2 repeats item 1"),
        ("- {}", "- 3", "item 2 is not a mapping"),
        ("- {}", "- {dropout: 0.3}", "search.listed[2].dropout: a search.listed key is a section (task, model"),
        ("- {}", "- {model.name.width: 8}", "model.name is fixed to 'attention_only', which has no keys inside"),
        ("- {}", "- {training.averages: {}, training.averages.ema.decay: 0.9}", "search.listed sets"),
        ("sampler: listed", "sampler: random", "arms.yaml:8: search.listed: is not read by sampler random"),
        (
            "sampler: listed",
            "sampler: listed\n  configurations: 3",
            "arms.yaml:8: search.configurations: must be left out: search.listed has the configurations",
        ),
        ("seeds:", "space: {model.width: {grid: [8]}}\nseeds:", "space.model.width: is not read by sampler listed"),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, message: str) -> None:
    assert LISTED.count(old) == 1
    assert message in refusal(LISTED.replace(old, new))


def test_an_empty_or_missing_list_is_refused() -> None:
    start, end = LISTED.index("  listed:"), LISTED.index("seeds:")
    assert "search.listed: is needed by sampler listed" in refusal(LISTED[:start] + LISTED[end:])
    assert "must be a list of configurations, at least one" in refusal(LISTED[:start] + "  listed: []\n" + LISTED[end:])


def test_an_override_that_no_configuration_would_use_is_refused() -> None:
    text = LISTED.replace("    - {}\n", "")
    assert "every configuration of search.listed sets this key" in refusal(text, "training.averages.ema.decay=0.5")
    assert parse_sweep(text, "a", ["model.dropout=0.1"]).model["dropout"] == 0.1
