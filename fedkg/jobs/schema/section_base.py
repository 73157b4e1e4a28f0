"""Base class and value types of the job file's sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
MAX_WHOLE_NUMBER = 2**53
"""Largest whole number in a job file: float64 represents all smaller ones exactly."""
Count = Annotated[int, Field(ge=1)]
Width = Annotated[int, Field(ge=1, le=16_384)]
Seeds = Annotated[int, Field(ge=1, le=10_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
SiteName = Annotated[str, Field(pattern=r"\S")]
"""Any text that is not blank: a cell of a table can be the name of a site. Folders of a federation,
which name files after sites, restrict it."""
DeviceName = Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")]
Value = str | int | float | bool | None


class Section(BaseModel):
    """A section of the job file: frozen, without unknown fields.

    `true` and `yes` are not numbers here, although Python would read them as 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        annotation: Any = cls.model_fields[info.field_name].annotation if info.field_name else None
        wanted = _leaf_types(annotation)
        if wanted & {int, float} and not any(
            one in (bool, Any) or issubclass(one, BaseModel)
            for one in wanted
            if isinstance(one, type)
        ):
            wrong = next((one for one in _values(value) if isinstance(one, bool)), None)
            if wrong is not None:
                text = "a number" if float in wanted else "a whole number"
                raise ValueError(f"must be {text}, not {str(wrong).lower()}")
            if int in wanted and any(
                isinstance(one, int | float) and abs(one) > MAX_WHOLE_NUMBER
                for one in _values(value)
                if not (isinstance(one, float) and float in wanted)
            ):
                raise ValueError(f"must be a whole number, at most {MAX_WHOLE_NUMBER:,}")
        return value


def _values(value: object) -> Iterator[object]:
    """A value, or the values inside a list or section."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _values(one)
    else:
        yield value


@cache
def _leaf_types(annotation: Any) -> frozenset[Any]:
    """The types inside an annotation, without lists, mappings and unions."""
    parts = get_args(annotation)
    return (
        frozenset([annotation])
        if not parts
        else frozenset().union(*(_leaf_types(part) for part in parts))
    )
