"""What every part of a pack is: frozen, closed, JSON-serialisable."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Node(BaseModel):
    """A frozen pydantic model that rejects unknown fields, and numbers that are NaN or infinite."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)
