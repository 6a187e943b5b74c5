"""What every table of settings has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the TOML file: immutable, and every key must be known."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
