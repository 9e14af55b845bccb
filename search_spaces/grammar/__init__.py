"""The grammar of sweep files: strict reading, domains, checks across sections, the schema for editors."""
