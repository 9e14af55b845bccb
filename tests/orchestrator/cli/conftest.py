"""The sweep files and the study of the tests of running."""

from tests.orchestrator.running.conftest import study, tiny, tiny_text

__all__ = ["study", "tiny", "tiny_text"]
