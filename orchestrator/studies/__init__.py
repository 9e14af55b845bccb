"""The claims of the papers, put to the ledgers of this repository's sweeps, and the pages that say what came out.

A study has a package here and a folder of the same name in search_spaces. Its `claims` are functions from sweeps to
questions with an effect, an interval and an answer; its `page` writes them and their figures into the gallery.
`python -m orchestrator.studies.run`, which `make studies` calls, runs the sweeps and then writes the pages.
"""
