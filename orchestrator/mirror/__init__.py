"""Sweeps at an address (s3://, gs://, any of fsspec's): copied there while they run, and from there to be continued.

The driver's folder stays local (`orchestrator.addresses`), and a record counts once it is in the local ledger. Below
the address lie
    ledger/000000000000.jsonl   segments of events.jsonl, named by their first byte, created once and never changed
    curves/ code/ *.yaml        the files of the folder; those that a record names are there before its segment
    weights/ checkpoints/       written by the workers, which may have no folder in common with the driver
    owners/000001.json          the driver and its heartbeat, numbered anew by each driver; empty: it has ended
Segments and owners are created only where nothing is (If-None-Match on S3), so of two drivers one is refused.
"""
