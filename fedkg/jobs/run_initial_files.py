"""The files that a run starts with, and checks that they are unchanged when it is resumed."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from fedkg._internal.yaml_documents import parse_yaml
from fedkg.errors import FedkgError, JobError, UsageError
from fedkg.jobs.checksum_log import state_of
from fedkg.jobs.code_trust import require_trust
from fedkg.jobs.experiment.experiment import Experiment, create_experiment
from fedkg.jobs.file_damage import require_run
from fedkg.jobs.folder import (
    CHECKSUM_KEY,
    ENVIRONMENT,
    FINAL_TABLES,
    INCIDENTS,
    JOB,
    PACK,
    SPLIT,
    TRIALS,
    Row,
    RunFolder,
    json_text,
    table_text,
)
from fedkg.jobs.folder_repair import Recovery
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.schema.endpoint_recognition import is_address
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_differences import list_differences
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.source_tables import sha256_of
from fedkg.jobs.trial_expansion import TrialConfig, plan_trials, trial_title
from fedkg.kernels.compiled_loop_policy import can_compile_loops
from fedkg.pack import Pack, pack_bytes, read_pack

LIBRARIES = ("torch", "numpy", "pydantic", "safetensors")
"""Libraries with a version in `environment.json`."""
Checksum = Callable[[str], str]
"""Turns the SHA-256 of a file into the checksum that the run stores."""


ELSEWHERE = "(each site has its own)"
"""The sites file of the job of a federation's server: a file that does not exist."""


def write_initial_files(
    folder: RunFolder,
    job: Job,
    experiment: Experiment,
    configs: Sequence[TrialConfig],
    fetched: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the files that a run starts with.

    `environment.json` comes last: it turns the folder into a run folder.

    Args:
        fetched: content of SPARQL endpoints; see `fedkg.graphs.EndpointFetch`. `Any`: JSON.

    Raises:
        JobError: no site can evaluate a hard rule, and the job does not accept that; or a file of
            the run that `causes` names is damaged.
        UsageError: `causes` does not name a run that found causes.
    """
    causes = {}
    if job.causes is not None:  # a copy: the other run may be gone when this one ends
        from fedkg.report.incident_cause_lookup import read_causes

        causes = {"causes": read_causes(Path(job.causes)).to_json()}
    checks = experiment.checks(configs[0])
    require_hard_rules(experiment, configs[0], checks)
    body = pack_bytes(experiment.pack)
    folder.write_bytes(PACK, body)
    folder.write_json(SPLIT, experiment.splits(configs))
    folder.write_json(TRIALS, [_trial_entry(config) for config in configs])
    for name in ("rounds.csv", "clients.csv", *FINAL_TABLES):
        folder.rewrite(name, [])
    folder.rewrite("checks.csv", checks)
    incidents = experiment.incidents(configs[0], checks)
    if incidents is not None:
        folder.write_json(INCIDENTS, incidents)
    document = job.model_dump(mode="json")
    checksum = _keyed_checksum(_new_key(folder)) if job.privacy is not None else str
    folder.write_text(JOB, _job_text(document))
    folder.write_json(
        ENVIRONMENT,
        {
            **describe_environment(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "job_sha256": hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest(),
            "job": document,
            "pack_sha256": hashlib.sha256(body).hexdigest(),
            "sources": [
                {"path": path, "sha256": checksum(digest)} for path, digest in experiment.files
            ],
            "fetched": [dict(one) for one in fetched],
            "features": experiment.features(),
            "window": experiment.time_range if job.privacy is None else None,
            "measure": experiment.measure.name,
            "event": experiment.measure.event,
            **causes,
        },
    )


def require_hard_rules(experiment: Experiment, config: TrialConfig, checks: Sequence[Row]) -> None:
    """Stop a run before training if its data cannot evaluate a hard rule.

    A hard rule must hold, so a run that never evaluates it must not look as if it held.

    Args:
        checks: the rows of `checks.csv`.

    Raises:
        JobError: such a rule, unless `evaluation.accept_unevaluated` names it.
    """
    hard = {rule.name: rule.output for rule in experiment.pack.manifest.rules if rule.hard}
    hard = {
        name: about_output
        for name, about_output in hard.items()
        if name not in experiment.job.evaluation.accept_unevaluated
    }
    reasons = {
        row["rule"]: row["reason"] for row in checks if row["rule"] in hard and row["rate"] is None
    }
    if any(hard.values()):
        scorer = experiment.build_trial(config).problem.scorer
        if scorer is not None:
            rows = scorer.rows
            reason_of = zip(rows.names, rows.reasons, strict=True) if rows.reasons else ()
            found: dict[str, list[str]] = {}
            for name, reason in reason_of:
                found.setdefault(name.partition("[")[0], []).append(reason)
            reasons |= {name: own[0] for name, own in found.items() if name in hard and all(own)}
    if reasons:
        name, reason = next(iter(reasons.items()))
        more = f" (one of {len(reasons)} such hard rules)" if len(reasons) > 1 else ""
        raise JobError(
            f"no site can evaluate the hard rule `{name}`{more}: {reason}",
            help="give the sites data that the rule is about, or accept it: "
            f"evaluation.accept_unevaluated: [{', '.join(reasons)}]",
        )


def _job_text(document: Mapping[str, Any]) -> str:
    """The content of `job.yaml`. `Any`: a job as JSON."""
    import yaml

    return yaml.safe_dump(_without_empty(document), sort_keys=False, allow_unicode=True)


def _without_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """A job without the empty fields of its sites, because a job may have 100,000 sites.

    `Any`: JSON.
    """
    sites = {
        name: {field: value for field, value in site.items() if value not in (None, [], {})}
        for name, site in document["sites"].items()
    }
    return {**document, "sites": sites}


def reopen_run(
    folder: RunFolder,
    trust_code: bool,
    recovery: Recovery | None = None,
    create: Callable[[Job, Pack], Experiment] = create_experiment,
) -> tuple[Job, Experiment, tuple[TrialConfig, ...]]:
    """The job, the experiment and the trials of a run folder, as they were when the run started.

    Args:
        recovery: the damaged files, which this function rebuilds as far as possible; None for none.
        create: creates the experiment.

    Raises:
        UsageError: the folder is not a run folder, or its job imports code and `trust_code` is
            false.
        JobError: the job, the pack or a data file has changed (the message shows how) or is
            damaged.
    """
    require_run(folder)
    recovery = recovery or Recovery(folder)
    environment = folder.environment()
    begun = parse_job(environment["job"], name=f"{folder.path / ENVIRONMENT}", base=folder.path)
    if create is create_experiment and str(begun.data.sites_file or "").endswith(ELSEWHERE):
        raise UsageError(
            f"the run in {folder.path} belongs to a federation: its tables are at its sites",
            help=f"to continue the run: fedkg server run {folder.path.parent}",
        )
    if JOB in recovery.damaged:
        _reject_changed_file(folder)
    require_trust((begun,), trust_code)
    recovery.rebuild(JOB, ENVIRONMENT, lambda: _job_text(environment["job"]))
    graphs = {
        entry["path"]: entry["sha256"]
        for entry in environment["sources"]
        if _is_external_graph(entry["path"])
    }
    checksum = (
        _keyed_checksum(folder.read_bytes(CHECKSUM_KEY)) if begun.privacy is not None else str
    )
    for entry in environment["sources"]:
        if entry["path"] not in graphs:
            _require_same_file(entry["path"], entry["sha256"], checksum)
    recovery.rebuild(PACK, "its rules", lambda: pack_bytes(load_rules(begun)[0]))
    configs = plan_trials(begun)
    recovery.rebuild(TRIALS, "the tables", lambda: _trials_text(folder, configs))
    experiment = create(begun, read_pack(folder.read_bytes(PACK), name=str(folder.path / PACK)))
    _require_same_graphs(
        graphs, {path: checksum(digest) for path, digest in experiment.files} if graphs else {}
    )
    experiment.prepare(configs)
    recovery.rebuild(SPLIT, "the data", lambda: json_text(experiment.splits(configs)))
    recovery.rebuild(
        "checks.csv", "the data", lambda: table_text("checks.csv", experiment.checks(configs[0]))
    )
    recovery.rebuild(
        INCIDENTS,
        "the data",
        lambda: json_text(experiment.incidents(configs[0], experiment.checks(configs[0]))),
    )
    return begun, experiment, configs


def _reject_changed_file(folder: RunFolder) -> None:
    """Raises JobError with the differences if someone has edited `job.yaml`.

    An unreadable file and one with the same meaning pass.
    """
    path = folder.path / JOB
    try:
        text = path.read_text(encoding="utf-8")
        now = parse_job(parse_yaml(text, str(path)), name=str(path), base=folder.path)
    except (OSError, ValueError, FedkgError):
        return
    reject_changed_job(folder, now, f"{path} was changed after the run started")


def _trials_text(folder: RunFolder, configs: Sequence[TrialConfig]) -> str:
    """The content of `trials.json`, rebuilt from the tables.

    Trials run in order, so the logged checksum tells how many of them were done.
    """
    lengths: dict[str, int] = {}
    for row in folder.rows("rounds.csv"):
        lengths[row["trial"]] = int(row["round"])
    state, text = folder.log.states()[TRIALS], ""
    for done in range(len(configs) + 1):
        text = json_text(
            [
                _trial_entry(config)
                | ({"done": True, "rounds": lengths.get(config.id, 0)} if number < done else {})
                for number, config in enumerate(configs)
            ]
        )
        if state_of(text.encode("utf-8")) == state:
            break
    return text


def describe_environment() -> dict[str, Any]:
    """Versions, platform, processors and compiled loops that results depend on. `Any`: JSON."""
    return {
        "fedkg": metadata.version("fedkg"),
        "python": platform.python_version(),
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
        "platform": platform.platform(),
        "compiled_loops": can_compile_loops(),
        "cpus": os.cpu_count(),
    }


def _trial_entry(config: TrialConfig) -> dict[str, Any]:
    return {
        "id": config.id,
        "algorithm": config.algorithm,
        "preset": config.preset,
        "title": trial_title(config),
        "seed": config.seed,
        "setting": dict(config.setting),
        "corrupted": "" if config.corrupt is None else config.corrupt.site,
        "corruption": "" if config.corrupt is None else config.corrupt.kind,
        "baseline": config.baseline,
        "done": False,
        "rounds": 0,
    }


def reject_changed_job(folder: RunFolder, job: Job, message: str) -> None:
    """Raises JobError with the differences if the run was started with another job."""
    begun = folder.environment()["job"]
    changed = list_differences(begun, job.model_dump(mode="json"))
    if changed:
        raise JobError(
            f"{message}; the job of a run cannot change\n  " + "\n  ".join(changed),
            help="undo the change, or start a new run with another --out",
        )


def _new_key(folder: RunFolder) -> bytes:
    """Write a random key for the checksums of a run; only the owner may read the file."""
    key = secrets.token_bytes(32)
    folder.write_bytes(CHECKSUM_KEY, key, mode=0o600)
    return key


def _keyed_checksum(key: bytes) -> Checksum:
    """Checksums that hide the content: without the key nobody can test a guess (HMAC, RFC 2104)."""
    return lambda digest: hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()


def _require_same_file(path: str, digest: str, checksum: Checksum) -> None:
    if not Path(path).is_file():
        raise JobError(
            f"the file {path}, which the run has read, is missing",
            help="restore it, or start a new run with another --out",
        )
    if checksum(sha256_of(path)) != digest:
        raise JobError(
            f"the file {path} has changed since the run started",
            help="restore it, or start a new run with another --out",
        )


def _is_external_graph(path: str) -> bool:
    """Whether a graph is in a store or behind an endpoint; its checksum covers its triples."""
    return is_address(path) or Path(path).is_dir()


def _require_same_graphs(begun: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises JobError if a store or an endpoint has other content than at the start of the run."""
    changed = next((path for path, digest in begun.items() if now.get(path) != digest), None)
    if changed is not None:
        raise JobError(
            f"the graph at {changed} has changed since the run started",
            help="restore its content, or start a new run with another --out",
        )
