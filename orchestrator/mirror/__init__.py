"""Copy running sweeps to an address (s3://, gs://, any protocol of fsspec), and resume them from there.

The driver's folder is local (`orchestrator.addresses`), and a record counts once it is in the local ledger. The address
has the files of the folder, and in place of `events.jsonl`
    ledger/000001-000000012345.jsonl   its first 12,345 bytes, copied by driver 1 after the files that they name
    drivers/000001.json                driver 1 with its heartbeat; `ended` once it has ended
A driver gets the next number by a conditional write (If-None-Match on S3), so only one of two drivers succeeds. The
ledger with the highest number is valid, so a replaced driver cannot overwrite it.
"""
