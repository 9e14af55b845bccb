"""What tests of several packages need."""

import sys
from collections.abc import Iterator

import pytest

from orchestrator.plan import own_code
from trainers.config import registry


@pytest.fixture
def own_code_forgotten() -> Iterator[None]:
    """What a test imports and registers is gone after it."""
    before = {kind: dict(registry.classes(kind)) for kind in registry.KINDS}
    modules, path, loaded = set(sys.modules), list(sys.path), dict(own_code._loaded)
    yield
    for kind, known in before.items():
        registry._classes[kind].clear()
        registry._classes[kind].update(known)
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = path
    own_code._loaded.clear()
    own_code._loaded.update(loaded)
