"""What a site and its server exchange before training and at evaluations, as messages.

Letters: F features, H outputs, S sites that share a model, R rules, n rows for the server.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedkg.data import Frame
from fedkg.data.frame import text_array
from fedkg.data.sets import DataSet, Task
from fedkg.data.standardise import Moments
from fedkg.deploy.disclosures import Disclosure, When
from fedkg.deploy.message import Message
from fedkg.errors import FederationError
from fedkg.jobs.experiment.labelled_table_samples import MOST_TEXTS, TablePart
from fedkg.jobs.experiment.sample_preparation import SamplePart
from fedkg.jobs.experiment.site_sample_statistics import SERVER, USES, SiteSummary
from fedkg.jobs.experiment.task_metrics import figure_count
from fedkg.jobs.experiment.trial import Evaluation
from fedkg.jobs.result_rows import RuleTally
from fedkg.jobs.rules_only_baseline import ControlSums
from fedkg.jobs.source_data_checks import TableCounts

Fields = Mapping[str, Any]
"""Values that JSON can express; `Any`: JSON."""
Tensors = dict[str, Tensor]

SUMMARY_FIELDS = ("task", "rows", "columns", "time_range", "notes", "unlabelled")
DATA_FIELDS = (
    "name", "source", "features", "units", "task", "classes", "targets", "label", "step",
    "step_unit", "since_1970", "utc",
)  # fmt: skip


BEFORE: When = "before the first round"
EVALUATED: When = "at evaluations"
CHANGED: When = "when rules change"
ROUNDS: When = "in each of its rounds"

MEANINGS: Mapping[str, tuple[When, str]] = {
    "labels": (BEFORE, "samples of each class by use: training, test, server, unused"),
    "unknown": (BEFORE, "unknown cells of each numeric feature in training samples"),
    "moments/inputs": (BEFORE, "number, mean and squared deviations of each numeric feature"),
    "moments/outputs": (BEFORE, "the same of the targets in training and server samples"),
    "moments/tested": (BEFORE, "the same of the targets in test samples"),
    "server/numbers": (BEFORE, "the rows that the job gives to the server, with consent"),
    "server/x": (BEFORE, "the inputs that the job gives to the server, with consent"),
    "server/y": (BEFORE, "the targets of these rows, with consent"),
    "server/row": (BEFORE, "the positions of these rows in the table, with consent"),
    "server/time": (BEFORE, "the times of these rows, with consent"),
    "summary": (
        BEFORE,
        "kind of target, samples by use, headers, texts of categories, time range, remarks",
    ),
    "settings": (BEFORE, "learning rate, epochs and batch of the site"),
    "server": (BEFORE, "names and texts of the rows for the server, with consent"),
    "checks": (
        BEFORE,
        "for each rule over inputs, cases and violations; with consent, the worst row",
    ),
    "excluded": (BEFORE, "number of training labels outside the ranges that the job injects"),
    "left_out": (BEFORE, "for each rule, whether the site's teacher leaves it out"),
    "properties": (BEFORE, "the numbers of `infer` statements, which the server compares"),
    "samples/x": (BEFORE, "the inputs of the samples that FedSTL shares, with consent"),
    "samples/y": (BEFORE, "the targets of these samples, with consent"),
    "units": (BEFORE, "causal discovery: the units that the sites file states"),
    "clock": (BEFORE, "causal discovery: number of rows, first and last time"),
    "steps/differences": (BEFORE, "causal discovery: differences between two times"),
    "steps/counts": (BEFORE, "causal discovery: how often each difference occurs"),
    "states": (BEFORE, "causal discovery: the states of the site's filter at all steps"),
    "dynamics": (BEFORE, "causal discovery: transition matrix of the states"),
    "filter": (BEFORE, "causal discovery: product of the filter's gain and the emission matrix"),
    "measurements": (BEFORE, "causal discovery: number of measurements"),
    "outside": (BEFORE, "causal discovery: rows outside the times of other sites"),
    "interpolated": (BEFORE, "causal discovery: number of interpolated values"),
    "time_range": (BEFORE, "causal discovery: first and last time of training steps"),
    "augmented": (ROUNDS, "causal discovery: the states that are augmented by measurements"),
    "sums": (
        ROUNDS,
        "causal discovery: loss, and squared norms of the augmentation and of its change",
    ),
    "receipt": (ROUNDS, "a SHA-256 that stands for what the site remembers"),
    "figures": (EVALUATED, "sums of right and wrong answers and of losses on test samples"),
    "counts": (EVALUATED, "test samples, positive labels, violated and evaluated cases"),
    "knowledge": (EVALUATED, "sums of right answers of the model, of its knowledge, and of both"),
    "rules/counts": (EVALUATED, "for each rule, bound rows, violations and cases"),
    "rules/margins": (EVALUATED, "for each rule, with consent, the margin of the worst violation"),
    "rules/met": (EVALUATED, "for each bound row, whether a test sample meets its condition"),
    "examples": (
        EVALUATED,
        "for each rule, with consent, the worst violation in words, with its row and values",
    ),
    "forecasts": (EVALUATED, "errors of forecasts, and the share that satisfies properties"),
    "sets": (EVALUATED, "distance of the site's model to its parameter set"),
    "determined": (EVALUATED, "test samples for which the rules leave one answer"),
    "rows": (EVALUATED, "number of test samples"),
    "sites": (EVALUATED, "position of the site in the list of sites"),
    "request": (ROUNDS, "SHA-256 of the server's request; every other answer has it too"),
    "received": (CHANGED, "whether the site has the new rules"),
    "confirmed": (CHANGED, "when its operator confirmed them"),
}
"""When a site sends each tensor and field besides those of training, and what it says."""


def list_sent(message: Message) -> tuple[Disclosure, ...]:
    """What an answer of a site discloses; its size for fields is that of their JSON.

    Raises:
        KeyError: `MEANINGS` lacks a tensor or field.
    """
    found = []
    for name, value in message.tensors.items():
        shape, kind = tuple(value.shape), str(value.dtype).removeprefix("torch.")
        found.append((name, shape, kind, value.numel() * value.element_size()))
    for name, told in message.fields.items():
        found.append((name, (), "JSON", len(json.dumps(told))))
    return tuple(
        Disclosure(
            name=name,
            meaning=MEANINGS[name][1],
            direction="to the server",
            when=MEANINGS[name][0],
            shape=shape,
            dtype=kind,
            bytes=size,
        )
        for name, shape, kind, size in found
    )


Found = TypeVar("Found")

MOST_ROWS = 1 << 40
"""Largest number of rows that a site may claim."""

UNREADABLE = (
    LookupError, TypeError, ValueError, ArithmeticError, RuntimeError, AttributeError,
)  # fmt: skip
"""What answers of another form raise; a number that JSON cannot hold is an ArithmeticError."""


def read_answer(site: str, answer: Message, read: Callable[[Message], Found]) -> Found:
    """What `read` makes of a site's answer.

    Raises:
        FederationError: the answer lacks a field or a tensor, or has another form.
    """
    try:
        return read(answer)
    except UNREADABLE as error:
        raise FederationError(
            f"site {site} sent an answer of kind {answer.kind} that the server cannot read",
            received=f"{type(error).__name__}: {error}",
            help="install the same version of fedkg at the server and at all sites",
        ) from error


def summary_parts(summary: SiteSummary) -> tuple[dict[str, Any], Tensors]:
    """The fields and tensors of a summary. `Any`: JSON."""
    fields = {name: getattr(summary, name) for name in SUMMARY_FIELDS}
    fields["texts"] = {header: list(texts) for header, texts in summary.texts.items()}
    tensors = {
        "labels": torch.from_numpy(summary.labels),
        "unknown": torch.from_numpy(summary.unknown),
    }
    for name in ("inputs", "outputs", "tested"):
        moments: Moments | None = getattr(summary, name)
        if moments is not None:
            stacked = np.stack([moments.count, moments.mean, moments.squares])
            tensors[f"moments/{name}"] = torch.from_numpy(stacked)
    return fields, tensors


def summary_of(fields: Fields, tensors: Mapping[str, Tensor]) -> SiteSummary:
    """The summary that `summary_parts` wrote.

    Raises:
        ValueError, KeyError, TypeError: it has another form, or impossible numbers.
    """
    moments = {}
    for name in ("inputs", "outputs", "tested"):
        if f"moments/{name}" in tensors:
            count, mean, squares = tensors[f"moments/{name}"].numpy()
            moments[name] = Moments(count=count, mean=mean, squares=squares)
    known = fields["time_range"]
    found = SiteSummary(
        task=fields["task"],
        rows=tuple(fields["rows"]),
        columns=tuple(fields["columns"]),
        time_range=None if known is None else (known[0], known[1]),
        notes=tuple(fields["notes"]),
        unlabelled=fields["unlabelled"],
        texts={header: tuple(texts) for header, texts in fields["texts"].items()},
        labels=tensors["labels"].numpy(),
        unknown=tensors["unknown"].numpy(),
        inputs=moments["inputs"],
        outputs=moments.get("outputs"),
        tested=moments.get("tested"),
    )
    _check_summary(found)
    return found


def _check_summary(summary: SiteSummary) -> None:
    """Raise ValueError if numbers of a site would spoil those of all sites."""
    rows, labels, unknown = summary.rows, summary.labels, summary.unknown
    if len(rows) != len(USES) or not all(type(n) is int and 0 <= n <= MOST_ROWS for n in rows):
        raise ValueError(
            f"{list(rows)[:8]} instead of {len(USES)} whole numbers of rows, 0 .. {MOST_ROWS}"
        )
    if labels.ndim != 2 or len(labels) != len(USES) or (labels < 0).any():
        raise ValueError(f"negative counts of labels, or {list(labels.shape)} of them")
    if unknown.shape != summary.inputs.mean.shape or (unknown < 0).any():
        raise ValueError(f"negative counts of unknown cells, or {list(unknown.shape)} of them")
    for moments in (summary.inputs, summary.outputs, summary.tested):
        if moments is not None:
            every = np.stack([moments.count, moments.mean, moments.squares])
            if not np.isfinite(every).all() or (moments.count < 0).any():
                raise ValueError("a negative count, or a count, mean or square that is not finite")
            if (moments.squares < 0).any():
                raise ValueError("negative sums of squares")
    if any(len(texts) > MOST_TEXTS for texts in summary.texts.values()):
        raise ValueError(f"a category with more than {MOST_TEXTS} texts")


def require_equal_shapes(summaries: Mapping[str, SiteSummary]) -> None:
    """Raise FederationError if the summary of a site does not fit that of the first one."""
    (first, expected), *others = summaries.items()
    for name, summary in others:
        for what, own, theirs in (
            ("kind of target", summary.task, expected.task),
            ("number of classes", summary.labels.shape[1], expected.labels.shape[1]),
            ("number of numeric features", len(summary.inputs.mean), len(expected.inputs.mean)),
            ("list of categories", sorted(summary.texts), sorted(expected.texts)),
        ):
            if own != theirs:
                raise FederationError(
                    f"site {name} has another {what} than site {first}",
                    expected=", ".join(theirs) if isinstance(theirs, list) else str(theirs),
                    received=", ".join(own) if isinstance(own, list) else str(own),
                    help="compare the sites files, and the job at both sites",
                )


def server_rows_of_table(part: TablePart) -> tuple[dict[str, Any], Tensors]:
    """The rows of a table that the job gives to the server, with all their columns. `Any`: JSON."""
    frame = part.frame.take(part.use == SERVER)
    numeric = [header for header in frame.headers if frame.columns[header].dtype != object]
    texts = {header: frame.texts(header) for header in frame.headers if header not in numeric}
    values = np.stack([frame.columns[header] for header in numeric], axis=1)
    fields = {
        "name": frame.name,
        "headers": list(frame.headers),
        "numeric": numeric,
        "texts": texts,
        "names_machines": part.names_machines,
    }
    return fields, {"server/numbers": torch.from_numpy(values)}


def table_of_server_rows(fields: Fields, tensors: Mapping[str, Tensor]) -> TablePart:
    """The part that `server_rows_of_table` wrote."""
    values = tensors["server/numbers"].numpy()
    frame = Frame(name=str(fields["name"]), columns={})
    for header in fields["headers"]:
        if header in fields["texts"]:
            frame = frame.with_texts(header, fields["texts"][header])
        else:
            frame = frame.with_numbers(header, values[:, fields["numeric"].index(header)])
    use = np.full(len(values), SERVER, dtype=np.int8)
    return TablePart(frame=frame, use=use, names_machines=fields["names_machines"])


def server_samples(part: SamplePart) -> tuple[dict[str, Any], Tensors]:
    """The samples that the job gives to the server, and the names of a data set. `Any`: JSON."""
    data = part.data.take(part.use == SERVER)
    fields = {name: getattr(data, name) for name in DATA_FIELDS}
    for name, texts in (("clients", data.clients), ("traces", data.traces)):
        fields[name] = None if texts is None else texts.tolist()
    tensors = {
        "server/x": torch.from_numpy(np.ascontiguousarray(data.x)),
        "server/y": torch.from_numpy(np.ascontiguousarray(data.y)),
        "server/row": torch.from_numpy(data.rows),
    }
    if data.time is not None:
        tensors["server/time"] = torch.from_numpy(data.time)
    return fields, tensors


def samples_of_server(fields: Fields, tensors: Mapping[str, Tensor]) -> SamplePart:
    """The part that `server_samples` wrote."""
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in fields.items()
        if name in DATA_FIELDS
    }
    clients, traces = (
        None if fields[name] is None else text_array(fields[name]) for name in ("clients", "traces")
    )
    time = tensors.get("server/time")
    data = DataSet(
        x=tensors["server/x"].numpy(),
        y=tensors["server/y"].numpy(),
        row=tensors["server/row"].numpy(),
        time=None if time is None else time.numpy(),
        clients=clients,
        traces=traces,
        **known,
    )
    use = np.full(data.samples, SERVER, dtype=np.int8)
    return SamplePart(data=data, use=use, uncut_rows=data)


ROW_OF_SITE = "a row of a site that does not share rows"
"""What the server reads in place of the worst row of a rule."""


def check_fields(
    counts: Mapping[str, TableCounts] | None, *, with_rows: bool
) -> list[dict[str, Any]] | None:
    """The counts of rules over inputs alone. `Any`: JSON; an infinite margin is None.

    Args:
        with_rows: whether the worst row of each rule may leave the site, in words and as margin.
    """
    if counts is None:
        return None
    found = []
    for name, one in counts.items():
        unmeasured, margin, text = one.worst
        if text and not with_rows:
            unmeasured, margin, text = True, math.inf, ROW_OF_SITE
        line = {key: value for key, value in asdict(one).items() if key != "worst"}
        known = margin if math.isfinite(margin) else None
        found.append({**line, "rule": name, "worst": [unmeasured, known, text]})
    return found


def counts_of(lines: list[dict[str, Any]] | None) -> dict[str, TableCounts] | None:
    """The counts that `check_fields` wrote. `Any`: JSON."""
    if lines is None:
        return None
    found = {}
    for line in lines:
        unmeasured, margin, text = line["worst"]
        known = {key: value for key, value in line.items() if key not in ("rule", "worst")}
        worst = (unmeasured, math.inf if margin is None else margin, text)
        found[line["rule"]] = TableCounts(**known, worst=worst)
    return found


def evaluation_parts(found: Evaluation, *, with_rows: bool) -> tuple[dict[str, Any], Tensors]:
    """The fields and tensors of an evaluation. `Any`: JSON.

    Args:
        with_rows: as in `check_fields`.
    """
    known = {
        rule: one
        if with_rows or not one.example
        else replace(one, least=(True, 0.0), example=ROW_OF_SITE)
        for rule, one in found.tallies.items()
    }
    tallies = known.values()
    counts = [
        (rule, one.bound, one.violated, one.evaluations, one.applied, one.least[0])
        for rule, one in known.items()
    ]
    met = [one.met for one in tallies]
    fields = {"sites": list(found.sites), "examples": [one.example for one in tallies]}
    tensors = {
        "figures": found.sums,
        "counts": found.counts,
        **({"knowledge": found.knowledge} if found.knowledge.numel() else {}),
        "rules/counts": torch.tensor(counts, dtype=torch.int64).reshape(-1, 6),
        "rules/margins": torch.tensor([one.least[1] for one in tallies], dtype=torch.float64),
        "rules/met": torch.from_numpy(np.concatenate(met) if met else np.zeros(0, dtype=bool)),
    }
    return fields, tensors


def sums_of(tensors: Mapping[str, Tensor], task: Task) -> Tensor:
    """The `figure_sums` of one site. Raises ValueError if they have another shape."""
    sums = tensors["figures"].double()
    if sums.shape != (1, figure_count(task)):
        raise ValueError(f"figures {list(sums.shape)} instead of [1, {figure_count(task)}]")
    return sums[0]


def evaluation_of(
    fields: Fields, tensors: Mapping[str, Tensor], place: int, task: Task
) -> Evaluation:
    """The evaluation that `evaluation_parts` wrote at the site at this place."""
    counts = tensors["counts"].long()
    if counts.shape != (1, 4):
        raise ValueError(f"counts {list(counts.shape)} instead of [1, 4]")
    lines = tensors["rules/counts"].tolist()
    ends = np.cumsum([line[1] for line in lines])
    met = np.split(tensors["rules/met"].numpy(), ends[:-1]) if lines else []
    if any(len(own) != line[1] for line, own in zip(lines, met, strict=True)):
        raise ValueError("another number of bound rows than the counts say")
    tallies = {
        rule: RuleTally(
            bound=bound,
            violated=violated,
            evaluations=evaluations,
            applied=applied,
            not_evaluated=int((~own).sum()),
            met=own,
            least=(bool(unmeasured), margin),
            example=example,
        )
        for (rule, bound, violated, evaluations, applied, unmeasured), margin, own, example in zip(
            lines, tensors["rules/margins"].tolist(), met, fields["examples"], strict=True
        )
    }
    return Evaluation(
        sites=(place,),
        sums=sums_of(tensors, task)[None],
        counts=counts,
        tallies=tallies,
        knowledge=tensors.get("knowledge", torch.zeros(1, 0, dtype=torch.float64)),
    )


def control_parts(found: ControlSums) -> tuple[dict[str, Any], Tensors]:
    """The fields and tensors of the control without learning. `Any`: JSON."""
    return {"determined": found.determined, "rows": found.rows}, {"figures": found.sums[None]}


def control_of(fields: Fields, tensors: Mapping[str, Tensor], task: Task) -> ControlSums:
    """The control that `control_parts` wrote."""
    return ControlSums(
        sums=sums_of(tensors, task), determined=int(fields["determined"]), rows=int(fields["rows"])
    )
