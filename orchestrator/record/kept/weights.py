"""The name of `orchestrator.record.files.weights` in version 2.0.0, for scripts of users."""

from orchestrator.record.files.weights import load, load_member_weights

__all__ = ["load", "load_member_weights"]
