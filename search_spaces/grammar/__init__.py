"""The grammar of sweep files: `load` parses YAML to plain data, then validates the data and builds a SweepSpec.

parse           YAML and --set overrides -> plain data, with the line of every key
values          types of single values
passwords       passwords and tokens in addresses, which are masked
domains         domains of searched keys
space           the section of domains
spec            SweepSpec and its sections as classes, whose fields are the keys of a sweep file
search          the section `search`, with the race over seeds
objective       the section `objective`
validate        plain data -> SweepSpec, with pydantic's errors as problems
section_checks  problems between sections
sections        the open sections, and values by dotted keys
problems        collected problems: a check gives the key path of a value, `Findings` adds file and line
"""
