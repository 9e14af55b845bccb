"""The Python of sweep files, a pipeline: parse (YAML with lines) -> validate -> build. `load` calls its steps in order.

parse      YAML and --set overrides as plain data, with the place of every key
values     types of single values; domains and space: what is searched; spec: the sections, whose fields are the keys
validate   plain data as a SweepSpec; what is wrong with a key, and what contradicts another section
problems   checks name an address; file, line and the nearest name are added here
"""
