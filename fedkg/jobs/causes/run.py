"""Run a causal discovery from its job file to its folder.

Letters: M clients, T steps, P states and D measurements of a client, E epochs.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from fedkg._internal.safe_text import escape_csv_cell
from fedkg.errors import JobError, MissingExtra, Stopped
from fedkg.graphs import EndpointFetch
from fedkg.jobs.causes.discovery import Discovery, discover_causes
from fedkg.jobs.causes.discovery_output import (
    describe_discovery,
    discovery_document,
    edge_rows,
    loss_rows,
)
from fedkg.jobs.causes.job_file import CausesJob, read_causes_job
from fedkg.jobs.causes.measurements import Measurements, read_measurements
from fedkg.jobs.endpoint_fetch_log import record_endpoints
from fedkg.jobs.folder import (
    ENVIRONMENT,
    JOB,
    LEARNED,
    REPORT,
    RESULTS,
    RunFolder,
    next_free_folder,
)
from fedkg.jobs.rule_pack import empty_pack, rule_sources
from fedkg.jobs.source_tables import sha256_of
from fedkg.learned_knowledge_records import LearnedKnowledge, UsedFile
from fedkg.pack import Pack
from fedkg.pack.causes import CauseRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CausesRun:
    """A finished causal discovery: its folder, sentences, report and results."""

    folder: Path
    sentences: tuple[str, ...]
    report: Path | None
    results: dict[str, Any]


def run_causes(
    path: str | Path, *, out: str | Path | None = None, overrides: Sequence[str] = ()
) -> CausesRun:
    """Run a causal discovery and write its run folder.

    Raises:
        UsageError, JobError, TableError, FedkgError: before the folder is created; the message
            names the
            file, field, column or client. Also if the learning diverges.
        Stopped: on Ctrl-C while the folder is written.
    """
    job = read_causes_job(path, overrides)
    folder = RunFolder(Path(out) if out is not None else next_free_folder(job.name, Path("runs")))
    if (folder.path / JOB).exists():
        raise JobError(f"{folder.path} already contains a run", help="choose another --out")
    if job.learning.device != "cpu":
        from fedkg.federated.device_transfer import device_named

        device_named(job.learning.device, "learning.device")
    began = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    with record_endpoints(job.rules) as fetched:
        pack = compile_causes(job)
    contract, causes = pack.manifest.contract, pack.manifest.causes
    sources = read_measurements(job, contract if job.rules else None)
    found = discover_causes(job, sources, causes)
    folder.create()
    with folder.locked():
        try:
            return write_causes_folder(
                folder, job, found, causes, began, contract.step, fetched, sources
            )
        except KeyboardInterrupt as error:
            raise Stopped(
                f"stopped while writing the run folder {folder.path}, which is incomplete",
                help="delete the folder and run the job again",
            ) from error


def compile_causes(job: CausesJob) -> Pack:
    """The pack of the job's `cause` statements; an empty one without rules.

    Raises:
        JobError: the rules have no such statement.
        CompileError: the rules are wrong.
    """
    if not job.rules:
        return empty_pack()
    from fedkg import authoring

    pack, _ = authoring.load_or_compile(rule_sources(job.rules))
    if not pack.manifest.causes:
        raise JobError(
            "rules: there is no `cause` statement",
            help="add one: cause NAME for ?a, ?b where { ... } allow ?a drives ?b; or leave out "
            "`rules`, then any client may drive any other",
        )
    return pack


def write_causes_folder(
    folder: RunFolder,
    job: CausesJob,
    found: Discovery,
    causes: Sequence[CauseRecord],
    began: str,
    step: float | None,
    fetched: Sequence[EndpointFetch],
    sources: Measurements,
) -> CausesRun:
    """Write the folder of a finished discovery."""
    import yaml

    document = job.model_dump(mode="json")
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    files = [
        path
        for name in (*job.rules, *([job.data.path] if job.data.path else []), *sources.files)
        for path in _files(Path(name))
    ]
    said = describe_discovery(job, found)
    learned = LearnedKnowledge(
        run=digest,
        title=job.title or job.name,
        software=f"fedkg {metadata.version('fedkg')}",
        began=f"{began[:-2]}:{began[-2:]}",
        window=sources.time_range,
        step=step,
        files=(
            *(UsedFile(name=path.name, sha256=sha256_of(path)) for path in files),
            *(UsedFile(name=one.address, sha256=one.sha256) for one in fetched),
        ),
        edges=found.edges,
    )
    rows, losses = edge_rows(found), loss_rows(found)
    results = discovery_document(job, found, causes, step, rows, said)
    folder.write_text("edges.csv", _csv_text(rows))
    folder.write_text("losses.csv", _csv_text(losses))
    folder.write_text(LEARNED, learned.model_dump_json(indent=2))
    folder.write_json(
        ENVIRONMENT,
        {
            "fedkg": metadata.version("fedkg"),
            "kind": "causes",
            "started": began,
            "job_sha256": digest,
            "job": document,
            "fetched": [asdict(one) for one in fetched],
        },
    )
    folder.write_json(RESULTS, results)
    folder.write_text(JOB, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    try:
        from fedkg.report.causes_page import causes_page

        report: Path | None = folder.write_text(REPORT, causes_page(results, losses))
    except MissingExtra:
        report = None
    return CausesRun(
        folder=folder.path, sentences=(*said, *found.notes), report=report, results=results
    )


def read_causes_folder(folder: RunFolder) -> CausesRun:
    """A discovery that is finished.

    Raises:
        JobError: its results are missing or damaged.
    """
    results, report = folder.read_json(RESULTS), folder.path / REPORT
    return CausesRun(
        folder=folder.path,
        sentences=(*results["sentences"], *results["notes"]),
        report=report if report.exists() else None,
        results=results,
    )


def _files(path: Path) -> list[Path]:
    """A file, or the files of a data set's folder; empty for an address."""
    return (
        [path]
        if path.is_file()
        else sorted(own for own in path.iterdir() if own.is_file())
        if path.is_dir()
        else []
    )


def _csv_text(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["driver"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: escape_csv_cell(cell) for key, cell in row.items()} for row in rows)
    return text.getvalue()
