"""Sweep files and claims files: their grammar, and their strict loaders.

>>> from search_spaces import load_sweep
>>> spec = load_sweep("search_spaces/quickstart.yaml", overrides=["seeds=2"])
>>> spec.seeds
(0, 1)
"""

from search_spaces.grammar.claims import ClaimsFile, load_claims, make_claims_schema
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
from search_spaces.grammar.problems import FileProblem, SweepFileError, find_nearest_name
from search_spaces.grammar.schema import format_schema, make_json_schema
from search_spaces.grammar.search import Racing, Rung, Rungs, Search
from search_spaces.grammar.sections import ABSENT
from search_spaces.grammar.spec import (
    Budget,
    Resources,
    SweepSpec,
    Tracking,
    list_differences,
    list_grid_points,
    select_active_values,
)

__all__ = [
    "ABSENT",
    "Budget",
    "Choice",
    "ClaimsFile",
    "Domain",
    "FileProblem",
    "Grid",
    "IntUniform",
    "LogUniform",
    "Normal",
    "Objective",
    "OneMinusLogUniform",
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
    "dump_yaml",
    "find_nearest_name",
    "format_schema",
    "list_differences",
    "list_grid_points",
    "load_claims",
    "load_sweep",
    "make_claims_schema",
    "make_json_schema",
    "parse_recorded",
    "parse_sweep",
    "read_sweep",
    "select_active_values",
]
