"""The name of `orchestrator.record.files` in version 2.0.0, for scripts of users."""
