"""Where sweeps are kept."""

import os
from pathlib import Path

STORAGE_VARIABLE = "LENGTHWISE_STORAGE"


def inside_ray_job() -> bool:
    """Whether this process was started by `ray job submit`; its working folder is then a temporary copy."""
    return "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ


def default_storage() -> Path:
    """LENGTHWISE_STORAGE if it is set, ~/lengthwise-sweeps inside a Ray job, otherwise ./sweeps."""
    chosen = os.environ.get(STORAGE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path.home() / "lengthwise-sweeps" if inside_ray_job() else Path("sweeps")
