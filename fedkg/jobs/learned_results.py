"""What a run has learnt, from the tables of its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkg.errors import UsageError
from fedkg.jobs.damage import require_intact
from fedkg.jobs.folder import ENVIRONMENT, LEARNED, PACK, RESULTS, Row, RunFolder
from fedkg.jobs.schema.addresses import is_address
from fedkg.learned_knowledge import (
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
    """Lines of `properties.csv`: every number that was found in the series of a site; what they leave open has none.

    Args:
        clients, traces, reaches: the sites' names, how many series each has, and from when to when these reach.
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
    """What a finished run has learnt.

    Properties are those of the first training that found any: every training of a run finds them in the same way in its own split. Evidence
    is about the data, and about the models of every training; under privacy about the models alone, as nothing is noised in the rest, the
    times of the data and the checksums of its files among it.

    Raises:
        UsageError: the folder is no run, or the run has not come to its end. JobError: one of its files is missing or damaged.
    """
    files = RunFolder(Path(folder))
    if LEARNED in files.log.states():
        return LearnedKnowledge.model_validate_json(files.read_bytes(LEARNED))
    if not files.exists():
        raise UsageError(
            f"{folder} is no run",
            expected="the folder of a run, as `fedkg run` makes it",
            help="train one first: fedkg run JOB.yaml --out DIR",
        )
    if RESULTS not in files.log.states():
        raise UsageError(
            f"the run in {folder} has not come to its end",
            help=f"go on with it: fedkg run --resume {folder}",
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
    """What a source of a run is called: the name of its file, or the address of an endpoint without what stands after ``?``."""
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


def _data_evidence(rows: Sequence[Mapping[str, str]]) -> Iterator[RuleEvidence]:
    for row in rows:
        yield RuleEvidence(
            rule=row["rule"],
            title=row["title"],
            kind=row["kind"],
            about="data",
            applied=int(row["evaluations"]),
            violated=int(row["violated"]),
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
            applied=int(row["applied"] or 0),
            violated=int(row["violated"] or 0),
            example=row["example"],
        )


def _xsd_time(text: str) -> str:
    """A time as XML Schema writes it: ``2026-01-31T12:00:00+0100`` with a colon in its offset."""
    return f"{text[:-2]}:{text[-2:]}" if len(text) > 5 and text[-5] in "+-" else text
