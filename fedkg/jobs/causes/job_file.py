"""The job file of a learning of causes: its fields, and its reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import JobError
from fedkg.jobs.schema.addresses import is_address
from fedkg.jobs.schema.causal_learning import Learning
from fedkg.jobs.schema.job_reader import (
    field_lines,
    format_field_errors,
    group_by_field,
    parse_yaml,
    read_job_text,
)
from fedkg.jobs.schema.overrides import apply_overrides
from fedkg.jobs.schema.section import Count, Fraction, Name, Positive, Section, Share, SiteName

Period = Annotated[int, Field(ge=2)]


class PlantData(Section):
    """A generated plant whose true causes are known.

    Attributes:
        clients, measurements, steps, seed: of it. drive: the strength of every true cause.
    """

    clients: Count = 4
    measurements: Count = 8
    steps: Count = 3000
    drive: Positive = 0.25
    seed: int = 0


class CausesData(Section):
    """Where the measurements come from.

    Attributes:
        path: one table, a row for each step, in order; or where the files of `set` are. plant: without a path, a plant is generated.
        set: a data set by name, generated in its form without a path (seed: `plant.seed`). size: how much of it; see `fedkg.data.sets`.
        runs: the runs of the set that are learnt from, one after the other; none: those that it does not set aside for the test.
        season: a course of so many steps that all repeat, whose mean is taken away. trend: the mean of so many steps before each is taken
            away, and with it a drift that all have in common.
        gaps: how many unknown values in a row are interpolated; more of them are an error.
        train: the share of the steps that is learnt from; the rest is judged by the losses.
    """

    path: str | None = None
    set: str | None = None
    size: Count | None = None
    runs: tuple[str, ...] = ()
    season: Period | None = None
    trend: Count | None = None
    plant: PlantData = PlantData()
    gaps: int = Field(default=3, ge=0)
    train: Fraction | Literal[1] = 0.8


class CausesJob(Section):
    """A learning of causes.

    Attributes:
        rules: rule files and graphs whose `cause` statements say who may drive whom; without them anybody may.
        clients: the columns of each client; of a generated plant they are given by it.
        states: P of each client. correlation: measurements that go less with every other client's are left out; 0: none are.
        shifts: of the test of significance. level: an edge is told as found where its p-value, corrected for the number of pairs, is at
            most this. centralised: whether a VAR on the measurements of all at one place is tested beside it.
    """

    kind: Literal["causes"]
    name: Name = "causes"
    title: str = ""
    rules: tuple[str, ...] = ()
    data: CausesData = CausesData()
    clients: dict[SiteName, tuple[str, ...]] = Field(default_factory=dict)
    states: Count = 2
    correlation: Share = 0.3
    learning: Learning = Learning()
    shifts: int = Field(default=399, ge=19)
    level: Fraction = 0.05
    centralised: bool = False
    seed: int = 0


def is_causes_job(path: Path) -> bool:
    """Whether a job file is one of these.

    Raises:
        UsageError: no file can be read. JobError: it is no job file, or of a kind that there is not.
    """
    document = parse_yaml(read_job_text(path), str(path))
    if "kind" in document and document["kind"] != "causes":
        raise JobError(
            f"{path}: there is no `kind` of job {document['kind']!r}",
            help="`kind: causes` learns who drives whom; other jobs say no kind",
        )
    return "kind" in document


def read_causes_job(path: str | Path, overrides: Sequence[str] = ()) -> CausesJob:
    """The job in a YAML file, with `--set` overrides applied and paths made absolute.

    Raises:
        UsageError: the file cannot be read, or an override has another form. JobError: it is not YAML, or fields are wrong: each by name.
    """
    path = Path(path)
    text = read_job_text(path)
    base = path.resolve().parent
    document = apply_overrides(parse_yaml(text, str(path)), overrides, base)
    try:
        job = CausesJob.model_validate(document)
    except ValidationError as error:
        lines = field_lines(text)
        raise JobError(
            "\n  ".join(
                [
                    f"{path}: the job cannot be run",
                    *(_format_field(*one, lines) for one in group_by_field(error.errors()).items()),
                ]
            )
        ) from error
    _check_clients(job, path)

    def fixed(text: str) -> str:
        return text if is_address(text) else str((base / Path(text).expanduser()).resolve())

    data = (
        job.data
        if job.data.path is None
        else job.data.model_copy(update={"path": fixed(job.data.path)})
    )
    return job.model_copy(update={"rules": tuple(fixed(rule) for rule in job.rules), "data": data})


def _check_clients(job: CausesJob, path: Path) -> None:
    """Raises JobError where it cannot be said whose columns are whose, or fields of `data` do not go together."""
    data = job.data
    if data.set is None and (data.runs or data.size is not None):
        raise JobError(
            f"{path}: `data.runs` and `data.size` are of a data set",
            help="name one: data: {set: cmapss}",
        )
    if data.set is not None:
        if len(job.clients) == 1:
            raise JobError(
                f"{path}: `clients` names {', '.join(job.clients)} alone",
                expected="two or more: causes are between clients",
                help="name the columns of a second client, or leave out `clients`",
            )
        return
    if data.path is not None and not job.clients:
        raise JobError(
            f"{path}: `clients` is missing",
            expected="the columns of each client",
            help="clients: {boiler: [P1, T1], turbine: [P7]}",
        )
    if data.path is not None and len(job.clients) < 2:
        raise JobError(
            f"{path}: `clients` names {', '.join(job.clients)} alone",
            expected="two or more: causes are between clients",
            help="name the columns of a second client, or leave out `clients`",
        )
    if data.path is None and job.clients:
        raise JobError(
            f"{path}: the clients of a generated plant are its own",
            help="leave out `clients`, or name a table: data: {path: ...}",
        )


def _format_field(
    field: str, errors: Sequence[ErrorDetails], lines: Mapping[tuple[str, ...], int]
) -> str:
    """One wrong field."""
    place = tuple(field.split("."))
    line = next(
        (
            f" (line {lines[place[:length]]})"
            for length in range(len(place), 0, -1)
            if place[:length] in lines
        ),
        "",
    )
    if errors[0]["type"] == "extra_forbidden":
        known = list(_section_at(place[:-1]).model_fields)
        near = nearest_name(place[-1], known)
        homes = [
            name
            for name in CausesJob.model_fields
            if place[-1] in _section_at((name,)).model_fields
            and _section_at((name,)) is not CausesJob
        ]
        home = f"{homes[0]}.{place[-1]}" if len(homes) == 1 else ""
        hint = (
            f"it belongs to `{home}`"
            if home
            else f"did you mean `{near}`?"
            if near
            else f"known: {', '.join(known)}"
        )
        return f"`{field}`{line}: there is no such field; {hint}"
    return f"`{field}`{line}: {format_field_errors(errors)}"


def _section_at(place: Sequence[str]) -> type[BaseModel]:
    found: type[BaseModel] = CausesJob
    for part in place:
        own = found.model_fields[part].annotation if part in found.model_fields else None
        if isinstance(own, type) and issubclass(own, BaseModel):
            found = own
    return found
