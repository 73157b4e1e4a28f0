"""The job file of a causal discovery: its fields and its reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from fedkg._internal.name_matching import nearest_name
from fedkg._internal.yaml_documents import field_lines, parse_yaml
from fedkg.errors import JobError
from fedkg.jobs.schema.causal_learning import Learning
from fedkg.jobs.schema.endpoint_addresses import is_address
from fedkg.jobs.schema.federation_section import RoundContract
from fedkg.jobs.schema.job_reader import format_field_errors, group_by_field, read_job_text
from fedkg.jobs.schema.overrides import apply_overrides
from fedkg.jobs.schema.section_base import Count, Fraction, Name, Positive, Section, Share, SiteName

Period = Annotated[int, Field(ge=2)]


class PlantData(Section):
    """A generated plant with known causes.

    Attributes:
        clients: number of clients.
        measurements: measurements per client.
        steps: number of steps.
        drive: strength of every true cause.
        seed: of the generator.
    """

    clients: Count = 4
    measurements: Count = 8
    steps: Count = 3000
    drive: Positive = 0.25
    seed: int = 0


class CausesData(Section):
    """Where the measurements come from.

    Attributes:
        path: a table with one row per step, or the location of the files of `set`.
        sites_file: a sites file; each of its sites is a client.
        set: name of a data set; without `path` fedkg generates it with the seed of `plant`.
        size: amount of data; see `fedkg.data.sets`.
        runs: runs of the set for training, one after the other; empty: all runs outside its test
            split.
        season: length of a common periodic pattern, which fedkg removes.
        trend: fedkg subtracts the mean of this number of preceding steps, to remove common drift.
        plant: without `path` and `set`, the generated plant.
        gaps: longest gap that fedkg interpolates; a longer one is an error.
        train: share of the steps for training; losses are evaluated on the rest.
    """

    path: str | None = None
    sites_file: str | None = None
    set: str | None = None
    size: Count | None = None
    runs: tuple[str, ...] = ()
    season: Period | None = None
    trend: Count | None = None
    plant: PlantData = PlantData()
    gaps: int = Field(default=3, ge=0)
    train: Fraction | Literal[1] = 0.8

    @model_validator(mode="after")
    def _one_source(self) -> CausesData:
        if self.sites_file is not None:
            for other, stated in (
                ("path", self.path is not None),
                ("set", self.set is not None),
                ("plant", self.plant != PlantData()),
            ):
                if stated:
                    raise ValueError(f"`{other}` and `sites_file` exclude each other")
        return self


class CausesJob(Section):
    """A causal discovery.

    Attributes:
        rules: rule files and graphs with `cause` statements that restrict edges; empty: all edges
            are
            possible.
        clients: the columns of each client; a generated plant defines them itself. With a sites
            file the signals of each site, or a list of sites with all their signals; empty: all
            sites.
        states: P, states per client.
        correlation: fedkg drops measurements with a lower correlation to all other clients; 0:
            none.
        shifts: number of shifts of the significance test.
        level: significance level of an edge, after correction for the number of pairs.
        centralised: whether to also test a VAR on the pooled measurements of all clients.
        precedence: whether to look for a pair of measurements of two clients that shows a
            significant edge.
        federation: how long the server of a federation waits for its sites; `fedkg run` ignores it.
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
    precedence: bool = True
    seed: int = 0
    federation: RoundContract = RoundContract()

    @field_validator("clients", mode="before")
    @classmethod
    def _list_of_sites(cls, value: Any) -> Any:
        """`[graz, linz]` is short for these sites with all their signals. `Any`: YAML."""
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return dict.fromkeys(value, ())
        return value


def is_causes_job(path: Path) -> bool:
    """Whether a job file describes a causal discovery.

    Raises:
        UsageError: the file cannot be read.
        JobError: the file is not a job file, or its `kind` is unknown.
    """
    document = parse_yaml(read_job_text(path), str(path))
    if "kind" in document and document["kind"] != "causes":
        raise JobError(
            f"{path}: unknown `kind` {document['kind']!r}",
            help="use `kind: causes` for causal discovery, and no `kind` for other jobs",
        )
    return "kind" in document


def read_causes_job(
    path: str | Path, overrides: Sequence[str] = (), *, sites_file: str = ""
) -> CausesJob:
    """Read a causal discovery job from a YAML file, with `--set` overrides and absolute paths.

    Args:
        path: the job file.
        overrides: ``field=value`` texts.
        sites_file: used in place of `data.sites_file`; empty: that of the job.

    Raises:
        UsageError: the file cannot be read, or an override has an invalid form.
        JobError: the file is not YAML, or fields are invalid; the message lists all of them.
    """
    path = Path(path)
    text = read_job_text(path)
    base = path.resolve().parent
    document = apply_overrides(parse_yaml(text, str(path)), overrides, base)
    if sites_file and isinstance(document.get("data", {}), Mapping):
        document = {**document, "data": {**document.get("data", {}), "sites_file": sites_file}}
    job = parse_causes_job(document, str(path), field_lines(text))

    def absolute(text: str) -> str:
        return text if is_address(text) else str((base / Path(text).expanduser()).resolve())

    paths = {"path": job.data.path, "sites_file": job.data.sites_file}
    data = job.data.model_copy(
        update={field: absolute(path) for field, path in paths.items() if path is not None}
    )
    return job.model_copy(
        update={"rules": tuple(absolute(rule) for rule in job.rules), "data": data}
    )


def parse_causes_job(
    document: Mapping[str, Any], name: str, lines: Mapping[tuple[str, ...], int] | None = None
) -> CausesJob:
    """The causal discovery that these fields describe. `Any`: YAML.

    Args:
        document: the fields of a job file.
        name: of the job file, for messages.
        lines: the line of each field in it.

    Raises:
        JobError: fields are invalid; the message lists all of them.
    """
    try:
        job = CausesJob.model_validate(document)
    except ValidationError as error:
        raise JobError(
            "\n  ".join(
                [
                    f"{name}: fields are invalid",
                    *(
                        _format_field(*one, lines or {})
                        for one in group_by_field(error.errors()).items()
                    ),
                ]
            )
        ) from error
    _check_clients(job, name)
    return job


def _check_clients(job: CausesJob, path: str) -> None:
    """Raises JobError if the owner of a column is unclear or fields of `data` contradict."""
    data = job.data
    if data.set is None and (data.runs or data.size is not None):
        raise JobError(
            f"{path}: `data.runs` and `data.size` require a data set",
            help="set one: data: {set: cmapss}",
        )
    if data.set is not None or data.sites_file is not None:
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
            f"{path}: a generated plant defines its own clients",
            help="remove `clients`, or set the data: data: {path: ...} or {sites_file: ...}",
        )


def _format_field(
    field: str, errors: Sequence[ErrorDetails], lines: Mapping[tuple[str, ...], int]
) -> str:
    """The message about one invalid field."""
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
        return f"`{field}`{line}: unknown field; {hint}"
    return f"`{field}`{line}: {format_field_errors(errors)}"


def _section_at(place: Sequence[str]) -> type[BaseModel]:
    found: type[BaseModel] = CausesJob
    for part in place:
        own = found.model_fields[part].annotation if part in found.model_fields else None
        if isinstance(own, type) and issubclass(own, BaseModel):
            found = own
    return found
