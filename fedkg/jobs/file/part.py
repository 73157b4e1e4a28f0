"""What the sections of a job file are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Width = Annotated[int, Field(ge=1, le=16_384)]
Seeds = Annotated[int, Field(ge=1, le=10_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
SiteName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./() -]*$", max_length=64)]
DeviceName = Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")]
Value = str | int | float | bool | None


class Part(BaseModel):
    """A section of the job file: closed, frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
