"""Sweeps at an address (s3://, gs://, any of fsspec's): copied there while they run, and from there to be continued.

The driver's folder stays local (`orchestrator.addresses`), and a record counts once it is in the local ledger. Below
the address lie the files of the folder, and in place of `events.jsonl`
    ledger/000001-000000012345.jsonl   its first 12,345 bytes, as driver 1 has copied them after the files they name
    drivers/000001.json                driver 1 and its heartbeat; `ended` once it has ended
A driver takes the next number by a conditional write (If-None-Match on S3), so of two drivers one is refused. The
ledger with the highest number counts, so a driver that was taken over overwrites nothing.
"""
