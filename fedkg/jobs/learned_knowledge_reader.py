"""The findings of a run, read from the tables of its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fedkg.errors import JobError, UsageError
from fedkg.jobs.file_damage import require_intact
from fedkg.jobs.folder import ENVIRONMENT, LEARNED, PACK, RESULTS, Row, RunFolder
from fedkg.jobs.schema.endpoint_recognition import is_address
from fedkg.learned_knowledge_records import (
    LearnedKnowledge,
    MinedNumber,
    MinedProperty,
    RuleEvidence,
    TimeRange,
    UsedFile,
    combine_ranges,
)
from fedkg.pack import Pack, read_pack

if TYPE_CHECKING:
    from fedkg.federated.temporal.properties import Properties


def property_rows(
    trial: str,
    clients: Sequence[str],
    traces: Sequence[int],
    found: Properties | None,
    time_ranges: Sequence[TimeRange | None],
) -> list[Row]:
    """Rows of `properties.csv`: every number that mining found for a site.

    Numbers that the series leave open have no row.

    Args:
        clients: names of the sites.
        traces: number of series per site.
        time_ranges: first and last time of each site's series.
    """
    if found is None:
        return []
    rows: list[Row] = []
    for inference, values in zip(found.inferences, found.values, strict=True):
        whole = inference.per == "run"
        for place, name in enumerate(("",) if whole else clients):
            seen = sum(traces) if whole else traces[place]
            reach = combine_ranges(time_ranges) if whole else time_ranges[place]
            own = values[place].tolist()
            if any(value != value for value in own):
                continue
            for parameter, value in zip(inference.parameters, own, strict=True):
                rows.append(
                    {
                        "trial": trial,
                        "client": name,
                        "inference": inference.name,
                        "number": parameter.name,
                        "value": value,
                        "unit": parameter.unit,
                        "traces": seen,
                        "epsilon": found.epsilon,
                        "from": reach[0] if reach else "",
                        "to": reach[1] if reach else "",
                    }
                )
    return rows


def read_learned(folder: str | Path) -> LearnedKnowledge:
    """The findings of a finished run.

    Properties come from the first trial that mined any: all trials mine alike, each in its own
    split. Evidence is about the data and about the models of every trial. For a protected run it is
    about models alone, because nothing else is noised; times and file checksums are left out too.

    Raises:
        UsageError: the folder does not contain a finished run.
        JobError: a file is missing or damaged.
    """
    files = RunFolder(Path(folder))
    if LEARNED in files.log.states():
        try:
            return LearnedKnowledge.model_validate_json(files.read_bytes(LEARNED))
        except ValidationError as error:
            first = error.errors()[0]
            raise JobError(
                f"{Path(folder) / LEARNED} does not contain the findings of a run",
                received=f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}",
                help="its checksum fits the log: use the version of fedkg that wrote it",
            ) from error
    from fedkg.jobs.sweep.stored_plan import is_sweep, sweep_error  # imports all of the job

    if is_sweep(files.path):
        raise sweep_error(files.path)
    if not files.exists():
        raise UsageError(
            f"{folder} is not a run folder",
            expected="a folder that `fedkg run` wrote",
            help="train one first: fedkg run JOB.yaml --out DIR",
        )
    if RESULTS not in files.log.states():
        raise UsageError(
            f"the run in {folder} is not finished", help=f"continue it: fedkg run --resume {folder}"
        )
    require_intact(files)
    environment: Mapping[str, Any] = files.read_json(ENVIRONMENT)
    pack = read_pack(files.read_bytes(PACK), name=PACK)
    private = bool(environment["job"].get("privacy"))
    checks = [] if private else files.rows("checks.csv")
    return LearnedKnowledge(
        run=environment["job_sha256"],
        title=environment["job"]["title"] or environment["job"]["name"],
        software=f"fedkg {environment['fedkg']}",
        began=_xsd_time(environment["started"]),
        window=None if private else environment.get("window"),
        step=pack.manifest.contract.step,
        files=()
        if private
        else tuple(
            UsedFile(name=_source_name(one["path"]), sha256=one["sha256"])
            for one in environment["sources"]
        ),
        properties=tuple(_properties(pack, files.rows("properties.csv"))),
        evidence=(*_data_evidence(checks), *_model_evidence(files.rows("rules.csv"))),
    )


def _source_name(path: str) -> str:
    """The display name of a source.

    A file name, or an endpoint's address without its query string.
    """
    return path.partition("?")[0] if is_address(path) else Path(path).name


def _properties(pack: Pack, rows: Sequence[Mapping[str, str]]) -> Iterator[MinedProperty]:
    inferences = {inference.name: inference for inference in pack.manifest.inferences}
    first = rows[0]["trial"] if rows else ""
    own = [row for row in rows if row["trial"] == first]
    for (client, name), group in groupby(own, key=lambda row: (row["client"], row["inference"])):
        lines, inference = list(group), inferences[name]
        known = {parameter.name: parameter for parameter in inference.parameters}
        yield MinedProperty(
            inference=name,
            template=inference.template,
            text=inference.text,
            client=client,
            columns=_columns(pack, inference.condition),
            traces=int(lines[0]["traces"]),
            epsilon=float(lines[0]["epsilon"]) if lines[0]["epsilon"] else None,
            window=(lines[0]["from"], lines[0]["to"]) if lines[0].get("from") else None,
            numbers=tuple(
                MinedNumber(
                    name=line["number"],
                    value=float(line["value"]),
                    unit=line["unit"],
                    integer=known[line["number"]].integer,
                    direction=known[line["number"]].direction,
                )
                for line in lines
            ),
        )


def _columns(pack: Pack, condition: int) -> tuple[str, ...]:
    """The headers that a condition of a pack reads, sorted."""
    columns = pack.manifest.contract.columns
    read = {place for place in pack.conditions[condition].slots.flat if place >= 0}
    return tuple(sorted({columns[place].source for place in read}))


def _data_evidence(rows: Sequence[Mapping[str, str]]) -> Iterator[RuleEvidence]:
    for row in rows:
        yield RuleEvidence(
            rule=row["rule"],
            title=row["title"],
            kind=row["kind"],
            about="data",
            applied=int(row["evaluations"]),
            violated=int(row["violated"]),
            not_evaluated=row["reason"],
            example=row["example"],
        )


def _model_evidence(rows: Sequence[Mapping[str, str]]) -> Iterator[RuleEvidence]:
    for row in rows:
        yield RuleEvidence(
            rule=row["rule"],
            title=row["title"],
            kind=row["kind"],
            about="model",
            training=row["trial"],
            applied=int(row["evaluations"] or 0) if row["rate"] else 0,
            violated=int(row["violated"] or 0),
            not_evaluated=_partly(row),
            example=row["example"],
        )


def _partly(row: Mapping[str, str]) -> str:
    """Why the rule of a row of `rules.csv` is not evaluated, and for how many of its limits."""
    some = row["reason"] and row["not_evaluated"] != row["bound_rows"]
    return (
        f"{row['not_evaluated']} of {row['bound_rows']} limits: {row['reason']}"
        if some
        else row["reason"]
    )


def _xsd_time(text: str) -> str:
    """A time in XML Schema form: ``2026-01-31T12:00:00+0100`` with a colon in its offset."""
    return f"{text[:-2]}:{text[-2:]}" if len(text) > 5 and text[-5] in "+-" else text
