"""Find the code that a job imports without importing it, and reject it unless the caller trusts it.

A job file is data, except for Python objects that it names: models (`model.path`), algorithms and
aggregation rules (`path`) and data sets (`data.set`). Importing them runs code with the user's
rights, so nobody should train a job of unknown origin before reading the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedkg._internal.safe_text import list_first
from fedkg.errors import JobError, UsageError
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trial_expansion import plan_trials

FIELD = "model.path"
"""The field of a job that names a model in code; trials may compare several."""

MAX_SHOWN = 5
"""Imports that an error message lists; `fedkg inspect` lists all."""


def list_imports(job: Job) -> tuple[str, ...]:
    """The imports of a job:

    each ``package.file:Name`` or ``net.py:Name`` once, in the order of the job.
    """
    compared = (job.compare, job.corrupt.compare if job.corrupt is not None else {})
    known = (site.knowledge for site in job.sites.values() if site.knowledge is not None)
    own = job.algorithms.values()
    steps = [(one.path, one.aggregate.own.path if one.aggregate.own else None) for one in own]
    named = (
        job.model.path,
        job.data.set if ":" in (job.data.set or "") else None,
        *(path for paths in steps for path in paths),
        *(value for fields in compared for value in fields.get(FIELD, ())),
        *(one.architecture.get("path") for one in known),
    )
    return tuple(dict.fromkeys(str(path) for path in named if path is not None))


def require_trust(jobs: Iterable[Job], trusted: bool) -> None:
    """Reject jobs that import code, unless the caller trusts it.

    Raises:
        UsageError: a job or one of its trials imports code and `trusted` is false. Nothing was
            imported.
    """
    if trusted:
        return
    found: dict[str, None] = {}
    for job in jobs:
        found |= dict.fromkeys(list_imports(job))
        found |= dict.fromkeys(
            path for config in plan_trials(job) for path in list_imports(config.job)
        )
    if found:
        listed = list_first([f"`{path}`" for path in found], MAX_SHOWN)
        raise UsageError(
            f"this job runs Python code: it imports {listed}",
            expected="your consent to run that code with your rights",
            help="read the code (`fedkg inspect JOB` shows where it is); if you trust it, add "
            "--trust-code "
            "(in Python: trust_code=True)",
        )


def list_files(job: Job) -> tuple[Path, ...]:
    """The Python files that a job imports, for other computers.

    Raises:
        JobError: the job names a module of an installed package, which other computers may lack,
            compares several modules, or names two files that have the same name.
    """
    if FIELD in job.compare or (job.corrupt is not None and FIELD in job.corrupt.compare):
        raise JobError(
            f"compare.{FIELD}: training at sites uses one Python module for all trials",
            help=f"set `{FIELD}` and compare `model.options`, or start one run for each module",
        )
    found: dict[str, Path] = {}
    for text in list_imports(job):
        place, _, _ = text.rpartition(":")
        if not place.endswith(".py"):
            raise JobError(
                f"{text} names an installed package, which sites may not have",
                expected="a file, such as net.py:Net",
                help="copy what it needs into one file next to the job",
            )
        file = Path(place)
        if found.setdefault(file.name, file) != file:
            raise JobError(
                f"the job imports two files with the name {file.name}",
                received=f"{found[file.name]}, {file}",
                help="rename one: an invitation contains them in one folder",
            )
    return tuple(found.values())
