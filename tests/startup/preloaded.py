"""Imported by the process that tests fork: it and its forks know this repository."""

from tests import this_repository

this_repository.read_now()
