"""The base of all sections of a sweep file: unknown keys and values of another type are errors."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen section whose values are taken as they are written."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
