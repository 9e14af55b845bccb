"""What to try: sweep files and claims files, their grammar, and their strict loaders.

>>> from search_spaces import load_sweep
>>> spec = load_sweep("search_spaces/quickstart.yaml", overrides=["seeds=2"])
>>> spec.seeds
(0, 1)
"""

from search_spaces.grammar.claims import ClaimsFile, claims_schema, load_claims
from search_spaces.grammar.load import Reading, load_sweep, parse_recorded, parse_sweep, read_sweep
from search_spaces.grammar.problems.errors import ABSENT, Problem, SweepFileError, nearest_name
from search_spaces.grammar.space.domains import (
    Choice,
    Domain,
    Grid,
    IntUniform,
    LogUniform,
    Normal,
    OneMinusLogUniform,
    Uniform,
)
from search_spaces.grammar.spec.differences import differences
from search_spaces.grammar.spec.objective import Objective
from search_spaces.grammar.spec.points import active_values, grid_points
from search_spaces.grammar.spec.racing import Racing, Rung, Rungs
from search_spaces.grammar.spec.schema import json_schema, schema_text
from search_spaces.grammar.spec.spec import Budget, Resources, Search, SweepSpec, Tracking
from search_spaces.grammar.text.dump import dump_yaml

__all__ = [
    "ABSENT",
    "Budget",
    "Choice",
    "ClaimsFile",
    "Domain",
    "Grid",
    "IntUniform",
    "LogUniform",
    "Normal",
    "Objective",
    "OneMinusLogUniform",
    "Problem",
    "Racing",
    "Reading",
    "Resources",
    "Rung",
    "Rungs",
    "Search",
    "SweepFileError",
    "SweepSpec",
    "Tracking",
    "Uniform",
    "active_values",
    "claims_schema",
    "differences",
    "dump_yaml",
    "grid_points",
    "json_schema",
    "load_claims",
    "load_sweep",
    "nearest_name",
    "parse_recorded",
    "parse_sweep",
    "read_sweep",
    "schema_text",
]
