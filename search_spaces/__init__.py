"""Sweep files and claims files: their grammar, and their strict loaders.

>>> from search_spaces import load_sweep
>>> spec = load_sweep("search_spaces/quickstart.yaml", overrides=["seeds=2"])
>>> spec.seeds
(0, 1)
"""

from search_spaces.grammar.claims import ClaimsFile, claims_schema, load_claims
from search_spaces.grammar.domains import (
    Choice,
    Domain,
    Grid,
    IntUniform,
    LogUniform,
    Normal,
    OneMinusLogUniform,
    Uniform,
)
from search_spaces.grammar.dump import dump_yaml
from search_spaces.grammar.load import Reading, load_sweep, parse_recorded, parse_sweep, read_sweep
from search_spaces.grammar.objective import Objective
from search_spaces.grammar.problems import ABSENT, Problem, SweepFileError, nearest_name
from search_spaces.grammar.schema import json_schema, schema_text
from search_spaces.grammar.spec import (
    Budget,
    Racing,
    Resources,
    Rung,
    Rungs,
    Search,
    SweepSpec,
    Tracking,
    active_values,
    differences,
    grid_points,
)

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
