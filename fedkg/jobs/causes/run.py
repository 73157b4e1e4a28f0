"""A learning of causes from its job to its folder.

Letters: M clients, T steps, P states and D measurements of a client, E epochs.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError, MissingExtra
from fedkg.granger.effects import Reached, edges, reach
from fedkg.granger.identified import Reading, readings
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt, Rates, learn, losses_of
from fedkg.granger.moments import Series, moments, series_of
from fedkg.granger.over_time import cut
from fedkg.granger.protocol import traffic
from fedkg.granger.reference import best_lags, innovation_label, p_values
from fedkg.granger.states import client_of, correlated
from fedkg.jobs.causes.data import Sources, read_sources
from fedkg.jobs.causes.file import CausesJob, read_causes
from fedkg.jobs.folder import ENVIRONMENT, JOB, LEARNED, REPORT, RESULTS, RunFolder, next_folder
from fedkg.jobs.sources import sha256_of
from fedkg.learned import CausalEdge, Learned, UsedFile
from fedkg.pack.causes import CauseRecord, prior

MOST_LAGS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """All that a learning gives.

    Attributes:
        edges: the strongest first. reference: the strength of each edge by the innovation label.
        held: losses (L_m)_a of each client and L_s on the steps that were not learnt from; empty where there are none.
        reached: whom a disturbance of each client reaches along significant edges, each as strong as the innovation label has it.
    """

    series: Series
    learnt: Learnt
    edges: tuple[CausalEdge, ...]
    reference: NDArray[np.float64]
    readings: tuple[Reading, ...]
    reached: dict[str, tuple[Reached, ...]]
    held: tuple[float, ...]
    notes: tuple[str, ...]
    truth: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CausesRun:
    """A finished learning: its folder, its sentences, its report."""

    folder: Path
    sentences: tuple[str, ...]
    report: Path | None
    results: dict[str, Any]


def run_causes(path: str | Path, *, out: str | Path | None = None, overrides: Sequence[str] = ()) -> CausesRun:
    """Learn what a job file asks for, and write the run folder.

    Raises:
        UsageError, JobError, TableError, FedkgError: naming the file, field, column or client that is wrong, before the folder is made; or
            where the learning diverges.
    """
    job = read_causes(path, overrides)
    folder = RunFolder(Path(out) if out is not None else next_folder(job.name, Path("runs")))
    if (folder.path / JOB).exists():
        raise JobError(f"{folder.path} holds a run already", help="choose another --out")
    began = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    causes, step = _said(job)
    sources = read_sources(job)
    found = found_in(job, sources, causes)
    folder.create()
    with folder.locked():
        return _write(folder, job, found, causes, began, step)


def found_in(job: CausesJob, sources: Sources, causes: Sequence[CauseRecord]) -> Found:
    """The learning itself. Raises UsageError, FedkgError as the parts do."""
    whole, notes = (list(sources.models), []) if sources.models else _modelled(job, sources)
    steps = len(whole[0].measurements)
    known = _known(job, steps)
    clients = [replace(client, measurements=np.ascontiguousarray(client.measurements[:known])) for client in whole]
    names = [client.name for client in clients]
    allowed = prior(causes, names)
    lags, said = _lags(job, clients, allowed)
    notes += said
    everything = series_of(whole, allowed, lags=lags)
    series = cut(everything, 0, known)
    section = job.learning
    rates = Rates(
        client=section.client,
        server=section.server,
        causes=section.causes,
        ridge=section.ridge,
        normalised=1.0 if section.normalised and section.mode == "sequential" else None,
    )
    learnt = learn(series, rates, mode=section.mode, epochs=section.epochs)
    label = Learnt(causes=innovation_label(series), augmentations=(), client_loss=np.zeros((1, 1)), server_loss=np.zeros(1))
    tested = p_values(series, shifts=job.shifts, seed=job.seed)
    sure = replace(label, causes=label.causes * _spread(series, np.nan_to_num(tested, nan=1.0) <= job.level))
    held = _held(cut(everything, known - lags, steps), learnt) if steps - known > lags + 2 else ()
    return Found(
        series=series,
        learnt=learnt,
        edges=edges(series, learnt, tested),
        reference=label.strength(series),
        readings=readings(series),
        reached={name: reach(series, sure, m) for m, name in enumerate(names)},
        held=held,
        notes=(*sources.notes, *notes),
        truth=sources.truth,
    )


def _lags(job: CausesJob, clients: Sequence[Client], allowed: NDArray[np.bool_]) -> tuple[int, list[str]]:
    """How many lags are learnt, and what is said of the choice."""
    given = job.learning.lags
    if given != "choose":
        return given, []
    chosen = max(1, int(best_lags(series_of(clients, allowed), MOST_LAGS).max()))
    return chosen, [f"{chosen} lag{'s' if chosen > 1 else ''} by the Bayesian information criterion, up to {MOST_LAGS}"]


def _spread(series: Series, pairs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What holds of pairs of clients [M, M], for each pair of their states: [S, L S]."""
    sizes = [len(client.transition) for client in series.clients]
    return np.tile(np.repeat(np.repeat(pairs, sizes, 0), sizes, 1), (1, series.lags))


def _known(job: CausesJob, steps: int) -> int:
    """How many steps are learnt from."""
    return steps if job.data.train == 1 else int(steps * job.data.train)


def _modelled(job: CausesJob, sources: Sources) -> tuple[list[Client], list[str]]:
    """Clients with states and dynamics of their own, from the steps that are learnt from; their measurements are those of all steps."""
    known = _known(job, len(sources.clients[0].values))
    measured = correlated([replace(client, values=client.values[:known]) for client in sources.clients], job.correlation)
    left = sum(len(client.columns) for client in sources.clients) - sum(len(client.columns) for client in measured)
    made = []
    for whole, one in zip(sources.clients, measured, strict=True):
        mean, deviation = one.values.mean(axis=0), one.values.std(axis=0)
        values = whole.values[:, [whole.columns.index(column) for column in one.columns]]
        scaled = (values - mean) / np.where(deviation > 0, deviation, 1.0)
        made.append(replace(client_of(one, job.states), measurements=np.ascontiguousarray(scaled)))
    return made, [f"measurements left out because they go with no other client's: {left}"] if left else []


def _held(series: Series, learnt: Learnt) -> tuple[float, ...]:
    each = [
        losses_of(moments(series, m), learnt.augmentations[m], learnt.causes[place, series.drivers(m)])
        for m, place in enumerate(series.places)
    ]
    return (*(own for own, _ in each), sum(server for _, server in each))


def _said(job: CausesJob) -> tuple[tuple[CauseRecord, ...], float | None]:
    """The `cause` statements of the job's rules, and the step of their timeline."""
    if not job.rules:
        return (), None
    from fedkg import authoring

    pack, _ = authoring.load_or_compile([Path(rule) for rule in job.rules])
    if not pack.manifest.causes:
        raise JobError("rules: no `cause` statement is in them", help="cause NAME for ?a, ?b where { ... } allow ?a drives ?b")
    return pack.manifest.causes, pack.manifest.contract.step


def sentences(job: CausesJob, found: Found) -> tuple[str, ...]:
    """What was found, in words."""
    sure = [edge for edge in found.edges if edge.p_value is not None and edge.p_value <= job.level]
    made = [f"{edge.driver} drives {edge.driven} (strength {edge.strength:.3g}, p = {edge.p_value:.3f})." for edge in sure[:8]]
    if len(sure) > 8:
        made.append(f"{len(sure) - 8} more edges are in edges.csv.")
    if not sure:
        made.append(f"No edge is significant at {job.level:g}: nobody is seen to drive anybody.")
    weak = [
        reading
        for reading in found.readings
        if reading.kept < 0.5 and any((e.driver, e.driven) == (reading.driver, reading.driven) for e in sure)
    ]
    made += [f"{reading.text()}." for reading in weak[:4]]
    if found.truth is not None:
        names = [client.name for client in found.series.clients]
        true = {(names[n], names[m]) for m, n in np.argwhere(found.truth).tolist()}
        told = {(edge.driver, edge.driven) for edge in sure}
        made.append(
            f"Of {len(true)} true edges of the generated plant {len(true & told)} are found; edges found beyond them: {len(told - true)}."
        )
    sent = traffic(found.series)
    made.append(f"A step sends {8 * sent.up} bytes up and {8 * sent.down} down; all measurements would be {8 * sent.centralised}.")
    return tuple(made)


def _write(folder: RunFolder, job: CausesJob, found: Found, causes: Sequence[CauseRecord], began: str, step: float | None) -> CausesRun:
    import yaml

    names = [client.name for client in found.series.clients]
    document = job.model_dump(mode="json")
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    files = [Path(name) for name in (*job.rules, *([job.data.path] if job.data.path else []))]
    said = sentences(job, found)
    learned = Learned(
        run=digest,
        title=job.title or job.name,
        software=f"fedkg {metadata.version('fedkg')}",
        began=f"{began[:-2]}:{began[-2:]}",
        step=step,
        files=tuple(UsedFile(name=path.name, sha256=sha256_of(path)) for path in files),
        edges=found.edges,
    )
    kept = {(one.driver, one.driven): one.kept for one in found.readings}
    place = {name: number for number, name in enumerate(names)}
    rows = [
        {
            "driver": edge.driver,
            "driven": edge.driven,
            "strength": edge.strength,
            "reference": float(found.reference[place[edge.driven], place[edge.driver]]),
            "lag": edge.lag,
            "p_value": edge.p_value,
            "kept": kept[edge.driver, edge.driven],
        }
        for edge in found.edges
    ]
    losses = [
        {"epoch": number + 1, "server": float(server), **{name: float(own) for name, own in zip(names, client, strict=True)}}
        for number, (client, server) in enumerate(zip(found.learnt.client_loss, found.learnt.server_loss, strict=True))
    ]
    results: dict[str, Any] = {
        "title": job.title or job.name,
        "sentences": said,
        "notes": found.notes,
        "clients": {
            client.name: {"states": len(client.transition), "measurements": len(client.emission)} for client in found.series.clients
        },
        "edges": rows,
        "reached": {
            name: [{"client": r.client, "first": r.first, "peak": r.peak, "size": r.size} for r in one]
            for name, one in found.reached.items()
        },
        "readings": [one.text() for one in found.readings],
        "held": dict(zip((*names, "server"), found.held, strict=True)) if found.held else {},
        "prior": [f"{cause.name}: {drive.driver} drives {drive.driven}" for cause in causes for drive in cause.drives],
        "level": job.level,
        "step": step,
    }
    folder.write_text("edges.csv", _csv(rows))
    folder.write_text("losses.csv", _csv(losses))
    folder.write_text(LEARNED, learned.model_dump_json(indent=2))
    folder.write_json(
        ENVIRONMENT, {"fedkg": metadata.version("fedkg"), "kind": "causes", "started": began, "job_sha256": digest, "job": document}
    )
    folder.write_json(RESULTS, results)
    folder.write_text(JOB, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    try:
        from fedkg.report.causes import causes_page

        report: Path | None = folder.write_text(REPORT, causes_page(results, losses))
    except MissingExtra:
        report = None
    return CausesRun(folder=folder.path, sentences=(*said, *found.notes), report=report, results=results)


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["driver"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
