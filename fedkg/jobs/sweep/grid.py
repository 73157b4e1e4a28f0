"""Expand `--grid a.b=1,2,3` and `--seeds 5` to jobs.

fedkg validates all of them before any run starts.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedkg._internal.yaml_documents import parse_yaml
from fedkg.errors import FedkgError, JobError, UsageError
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_reader import parse_job, read_job_text
from fedkg.jobs.schema.overrides import apply_overrides, canonical_field
from fedkg.jobs.trial_expansion import INJECT, plan_trials

MAX_CELLS = 1000
MAX_SEED_DIGITS = 18
"""Largest number of jobs in a grid; more are usually a typing error."""

BRACKET_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One field with its values as written."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One job of a grid.

    Attributes:
        id: unique in the grid and usable as a folder name.
        setting: fields and their values as text.
        seed: the seed of the job; None if the job defines its own.
        job: the job.
    """

    id: str
    setting: tuple[tuple[str, str], ...]
    seed: int | None
    job: Job


def parse_axis(text: str) -> Axis:
    """Parse ``field=value,value``; commas inside brackets belong to a value. Raises UsageError."""
    field, equals, raw = text.partition("=")
    field = canonical_field(field.strip())
    values = _values(raw)
    if not equals or not all(field.split(".")) or not all(values):
        raise UsageError(
            f"--grid {text}: not of the form field=value,value", help="--grid data.alpha=0.1,1,10"
        )
    if field == "seeds":
        raise UsageError(f"--grid {text}: seeds are not a grid field", help="use --seeds 5")
    twice = next((value for i, value in enumerate(values) if value in values[:i]), None)
    if twice is not None:
        raise UsageError(f"--grid {text}: value {twice} occurs twice", help="list each value once")
    return Axis(field=field, values=values)


def _values(raw: str) -> tuple[str, ...]:
    depth, parts = 0, [""]
    for sign in raw:
        depth += BRACKET_DEPTH.get(sign, 0)
        if sign == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += sign
    return tuple(part.strip() for part in parts)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parse a number of seeds or a list of two or more: ``5`` is 0 to 4, ``3,7`` are these two.

    Raises:
        UsageError: the text is neither.
    """
    parts = [part.strip() for part in text.split(",")]
    if (
        not all(part.isdecimal() for part in parts)
        or len(set(parts)) < len(parts)
        or parts == ["0"]
        or any(len(part) > MAX_SEED_DIGITS for part in parts)
    ):
        raise UsageError(
            f"--seeds {text[:60]}: not a number of seeds or a list of seeds",
            expected=f"a number from 1, or different whole numbers of at most {MAX_SEED_DIGITS} "
            "digits",
            help="--seeds 5, or --seeds 3,7,11",
        )
    if len(parts) == 1 and int(parts[0]) > MAX_CELLS:
        raise UsageError(
            f"--seeds {text}: too many seeds",
            expected=f"at most {MAX_CELLS:,}",
            help="use fewer seeds, or divide them into several sweeps",
        )
    return tuple(range(int(parts[0]))) if len(parts) == 1 else tuple(int(part) for part in parts)


def expand_grid(
    path: Path, changes: Sequence[str], axes: Sequence[Axis], seeds: Sequence[int] | None
) -> tuple[Cell, ...]:
    """Every combination of the axes' values with every seed.

    The last axis and the seed vary fastest.

    Raises:
        UsageError: a field occurs twice, or there are more than `MAX_CELLS` combinations.
        JobError: a combination is not a valid job; the message names it.
    """
    fields = [axis.field for axis in axes]
    twice = next((field for i, field in enumerate(fields) if field in fields[:i]), None)
    if twice is not None:
        raise UsageError(
            f"--grid: the field `{twice}` occurs twice",
            help=f"list all its values at once: --grid {twice}=1,2,3",
        )
    count = math.prod(len(axis.values) for axis in axes) * (1 if seeds is None else len(seeds))
    if count > MAX_CELLS:
        raise UsageError(
            f"the grid has {count:,} combinations",
            expected=f"at most {MAX_CELLS:,}",
            help="use fewer values, or divide the grid into several sweeps",
        )
    document = apply_overrides(
        parse_yaml(read_job_text(path), str(path)), changes, path.resolve().parent
    )
    found: list[Cell] = []
    for chosen in itertools.product(*(axis.values for axis in axes)):
        setting = tuple(zip(fields, chosen, strict=True))
        for seed in (None,) if seeds is None else seeds:
            words = [
                value if field == "algorithm" else f"{field.rpartition('.')[2]}{value}"
                for field, value in setting
            ]
            words += [] if seed is None else [f"s{seed}"]
            job = _job(document, path, setting, seed)
            if not _owns_baseline(axes, setting):
                job = job.model_copy(
                    update={
                        "evaluation": job.evaluation.model_copy(update={"local_baseline": False})
                    }
                )
            if job.model.inject is not None and any(field == INJECT for field in fields):
                inject = job.model.inject.model_copy(update={"control": False})
                model = job.model.model_copy(update={"inject": inject})
                job = job.model_copy(update={"model": model})
            found.append(Cell(id=_name(words), setting=setting, seed=seed, job=job))
    return _with_unique_ids(found)


def _job(
    document: Mapping[str, Any], path: Path, setting: Sequence[tuple[str, str]], seed: int | None
) -> Job:
    """The job of one combination. Raises JobError, UsageError."""
    overrides = [f"{field}={value}" for field, value in setting]
    overrides += [
        f"corrupt.compare.{field}=[{value}]"
        for field, value in setting
        if field in _compared_when_corrupt(document)
    ]
    overrides += [] if seed is None else [f"seeds=[{seed}]"]
    try:
        job = parse_job(
            dict(document), name=str(path), base=path.resolve().parent, overrides=overrides
        )
        plan_trials(job)
        return job
    except FedkgError as error:
        if not setting or str(error) == _job_error(document, path):
            raise
        where = ", ".join(f"{field}={value}" for field, value in setting)
        raise JobError(f"--grid {where}: {str(error).replace('--set ', '')}") from error


def _job_error(document: Mapping[str, Any], path: Path) -> str:
    """The error of the job without a grid; ``""`` if it is valid."""
    try:
        _job(document, path, (), None)
    except FedkgError as error:
        return str(error)
    return ""


def _compared_when_corrupt(document: Mapping[str, Any]) -> Mapping[str, Any]:
    corrupt = document.get("corrupt")
    compare = corrupt.get("compare") if isinstance(corrupt, dict) else None
    return compare if isinstance(compare, dict) else {}


def _owns_baseline(axes: Sequence[Axis], setting: Sequence[tuple[str, str]]) -> bool:
    """Whether this combination trains the local baseline.

    Combinations that differ only in the algorithm share one.
    """
    first = {axis.field: axis.values[0] for axis in axes}
    return all(
        first[field] == value
        for field, value in setting
        if field.split(".")[0] in ("algorithm", "algorithms", "scoring")
    )


def _name(words: Sequence[str]) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", "-".join(words)).strip("._")[:80] or "cell"


def _with_unique_ids(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells with unique ids."""
    seen: set[str] = set()
    apart = []
    for number, cell in enumerate(cells, start=1):
        name = cell.id if cell.id not in seen else f"{cell.id}-{number}"
        seen.add(name)
        apart.append(replace(cell, id=name))
    return tuple(apart)
