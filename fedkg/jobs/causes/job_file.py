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
from fedkg.jobs.schema.endpoint_recognition import is_address
from fedkg.jobs.schema.federation_section import RoundContract
from fedkg.jobs.schema.job_reader import format_field_errors, group_by_field, read_job_text
from fedkg.jobs.schema.overrides import apply_overrides
from fedkg.jobs.schema.section_base import Count, Fraction, Name, Positive, Section, Share, SiteName

Period = Annotated[int, Field(ge=2)]


class PlantData(Section):
    """A generated plant with known causes."""

    clients: Count = Field(default=4, description="Number of clients.")
    measurements: Count = Field(default=8, description="Number of measurements of each client.")
    steps: Count = Field(default=3000, description="Number of steps.")
    drive: Positive = Field(
        default=0.25, description="Strength (norm of the block) of every true cause."
    )
    seed: int = Field(default=0, description="Seed of the generator.")


class CausesData(Section):
    """Where the measurements come from."""

    path: str | None = Field(
        default=None,
        description="The table, one row for each step, or the files of `set`; without `path`, "
        "`sites_file` and `set`, fedkg generates a plant.",
    )
    sites_file: str | None = Field(
        default=None,
        description="A sites file instead of a table: each of its sites is a client; excludes "
        "`path`, `set` and `plant`.",
    )
    set: str | None = Field(
        default=None,
        description="A data set of series instead of a table, such as `traffic`, read from `path` "
        "or generated.",
    )
    size: Count | None = Field(
        default=None,
        description="Amount of generated data, in the data set's unit: hours, engines.",
    )
    runs: tuple[str, ...] = Field(
        default=(),
        description="Names of the runs of the data set (engines, ...) to learn from, one after the "
        "other; empty: all that are not for tests. A wrong name gets an error with an example.",
    )
    season: Period | None = Field(
        default=None,
        description="Length in steps of a seasonal pattern, such as a day or a week; "
        "its mean is subtracted.",
    )
    trend: Count | None = Field(
        default=None, description="The mean of this many previous steps is subtracted."
    )
    plant: PlantData = PlantData()
    gaps: int = Field(
        default=3,
        ge=0,
        description="Longest gap that is interpolated, in steps. A longer one is an error; of a "
        "data set (`set`), fedkg uses the longest part without one.",
    )
    train: Fraction | Literal[1] = Field(
        default=0.8,
        description="Share of the steps to learn from; both losses are evaluated on the others "
        "(with `1`, not at all).",
    )

    @model_validator(mode="after")
    def _one_source(self) -> CausesData:
        if self.sites_file is not None:
            for other, stated in (
                ("path", self.path is not None),
                ("set", self.set is not None),
                ("plant", self.plant != PlantData()),
            ):
                if stated:
                    raise ValueError(
                        f"`{other}` and `sites_file` exclude each other; remove one of them"
                    )
        return self


class CausesJob(Section):
    """A causal discovery."""

    kind: Literal["causes"] = Field(description="Distinguishes this job from one that trains.")
    name: Name = Field(default="causes", description="Name of the run.")
    title: str = Field(default="", description="Title of the report.")
    rules: tuple[str, ...] = Field(
        default=(),
        description="Rule files and graphs with `cause` statements: which client may drive which; "
        "empty: any client may drive any.",
    )
    data: CausesData = CausesData()
    clients: dict[SiteName, tuple[str, ...]] = Field(
        default_factory=dict,
        description="For a table: the columns of each client, at least two clients. For a sites "
        "file: the signals of each site, `{graz: [pressure], ohio: [speed]}`, or a list of sites "
        "with all their numeric columns; empty: all sites. For a data set: its columns; empty: the "
        "modules, processes or sensor groups of `cmapss`, `hai`, `swat` and `skab`, or else each "
        "column alone. For a generated plant: leave it out.",
    )
    states: Count = Field(
        default=2, description="Number of states that summarise the measurements of a client."
    )
    correlation: Share = Field(
        default=0.3,
        description="fedkg drops a measurement that correlates less than this with every "
        "measurement of the other clients; 0 keeps all.",
    )
    learning: Learning = Learning()
    shifts: int = Field(
        default=399,
        ge=19,
        description="Number of time shifts of the driver with which the test compares an edge.",
    )
    level: Fraction = Field(
        default=0.05,
        description="Largest p-value, corrected for the number of pairs, of a significant edge.",
    )
    centralised: bool = Field(
        default=False,
        description="Whether to test a vector autoregression (VAR) on all measurements in one "
        "place too, for comparison.",
    )
    precedence: bool = Field(
        default=True,
        description="Whether to find for each significant edge two measurements that show it: when "
        "one rises, the other follows.",
    )
    seed: int = Field(default=0, description="Seed of the test.")
    federation: RoundContract = Field(
        default=RoundContract(),
        description="How long the server of a federation waits for sites, see "
        "[`federation`](job.md#federation); `fedkg run` ignores it.",
    )

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
        wrong = [_format_field(*one, lines or {}) for one in group_by_field(error.errors()).items()]
        count = "1 field is" if len(wrong) == 1 else f"{len(wrong)} fields are"
        raise JobError("\n  ".join([f"{name}: {count} invalid", *wrong])) from error
    _check_clients(job, name)
    return job


def _check_clients(job: CausesJob, path: str) -> None:
    """Raises JobError if the owner of a column is unclear or fields of `data` contradict."""
    data = job.data
    if data.set is None and (data.runs or data.size is not None):
        given = "data.runs" if data.runs else "data.size"
        raise JobError(
            f"{path}: `{given}` requires a data set", help="set one: data: {set: cmapss}"
        )
    if data.set is not None or data.sites_file is not None:
        if len(job.clients) == 1:
            raise JobError(
                f"{path}: `clients` names only one client, {', '.join(job.clients)}",
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
            f"{path}: `clients` names only one client, {', '.join(job.clients)}",
            expected="two or more clients: causes are between clients",
            help="name the columns of a second client",
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
