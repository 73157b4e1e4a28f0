"""The files that a run begins with, and whether they are still those when it goes on or is run again."""

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

from fedkg.errors import FedkgError, JobError
from fedkg.jobs.damage import require_run
from fedkg.jobs.experiment import Experiment
from fedkg.jobs.experiment_factory import create_experiment
from fedkg.jobs.folder import (
    CHECKSUM_KEY,
    ENVIRONMENT,
    FINAL_TABLES,
    JOB,
    PACK,
    SPLIT,
    TRIALS,
    RunFolder,
    json_text,
    table_text,
)
from fedkg.jobs.recovery import Recovery
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.run_log import state_of
from fedkg.jobs.schema.addresses import is_address
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_differences import list_differences
from fedkg.jobs.schema.job_reader import parse_job, parse_yaml
from fedkg.jobs.source_tables import sha256_of
from fedkg.jobs.trials import TrialConfig, plan_trials, trial_title
from fedkg.jobs.trust import require_trust
from fedkg.pack import pack_bytes, read_pack

LIBRARIES = ("torch", "numpy", "pydantic", "safetensors")
"""Those whose versions are written down."""
Checksum = Callable[[str], str]
"""From the SHA-256 of a file to what is written down of it."""


def write_initial_files(
    folder: RunFolder,
    job: Job,
    experiment: Experiment,
    configs: Sequence[TrialConfig],
    fetched: Sequence[Mapping[str, Any]] = (),
) -> None:
    """The files a run begins with; `environment.json` comes last, because it makes the folder a run's.

    Args:
        fetched: what the endpoints held that its graphs come from, as `fedkg.graphs.Fetched` has it. `Any`: JSON.
    """
    body = pack_bytes(experiment.pack)
    folder.write_bytes(PACK, body)
    folder.write_json(SPLIT, experiment.splits(configs))
    folder.write_json(TRIALS, [_trial_entry(config) for config in configs])
    for name in ("rounds.csv", "clients.csv", *FINAL_TABLES):
        folder.rewrite(name, [])
    folder.rewrite("checks.csv", experiment.checks(configs[0]))
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
        },
    )


def _job_text(document: Mapping[str, Any]) -> str:
    """The content of `job.yaml`. `Any`: a job as JSON."""
    import yaml

    return yaml.safe_dump(_without_empty(document), sort_keys=False, allow_unicode=True)


def _without_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """A job without the empty fields of its sites, of which a federation may have 100,000. `Any`: JSON."""
    sites = {
        name: {field: value for field, value in site.items() if value not in (None, [], {})}
        for name, site in document["sites"].items()
    }
    return {**document, "sites": sites}


def reopen_run(
    folder: RunFolder, trust_code: bool, recovery: Recovery | None = None
) -> tuple[Job, Experiment, tuple[TrialConfig, ...]]:
    """The job, data and trainings of a run folder, as they were when the run was begun.

    Args:
        recovery: the damaged files, which are rebuilt as far as the job, the rules and the data allow; None: there are none.

    Raises:
        UsageError: when the folder is not a run's, or its job imports code and `trust_code` is false.
        JobError: when the job, the pack or a file is no longer what the run was begun with (the difference is shown), or is damaged.
    """
    require_run(folder)
    recovery = recovery or Recovery(folder)
    environment = folder.environment()
    begun = parse_job(environment["job"], name=f"{folder.path / ENVIRONMENT}", base=folder.path)
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
    experiment = create_experiment(
        begun, read_pack(folder.read_bytes(PACK), name=str(folder.path / PACK))
    )
    _require_same_graphs(
        graphs, {path: checksum(digest) for path, digest in experiment.files} if graphs else {}
    )
    experiment.prepare(configs)
    recovery.rebuild(SPLIT, "the data", lambda: json_text(experiment.splits(configs)))
    recovery.rebuild(
        "checks.csv", "the data", lambda: table_text("checks.csv", experiment.checks(configs[0]))
    )
    return begun, experiment, configs


def _reject_changed_file(folder: RunFolder) -> None:
    """Raises JobError, with what is different, when somebody has edited `job.yaml`; not when it is unreadable or means the same."""
    path = folder.path / JOB
    try:
        text = path.read_text(encoding="utf-8")
        now = parse_job(parse_yaml(text, str(path)), name=str(path), base=folder.path)
    except (OSError, ValueError, FedkgError):
        return
    reject_changed_job(folder, now, f"{path} was changed after the run was begun")


def _trials_text(folder: RunFolder, configs: Sequence[TrialConfig]) -> str:
    """The content of `trials.json`: trainings are done in order, and the log says how many were."""
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
    """What a run depends on beside its files. `Any`: JSON."""
    return {
        "fedkg": metadata.version("fedkg"),
        "python": platform.python_version(),
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
        "platform": platform.platform(),
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
    """Raises JobError, with what is different, when a run was begun with another job."""
    begun = folder.environment()["job"]
    changed = list_differences(begun, job.model_dump(mode="json"))
    if changed:
        raise JobError(
            f"{message}: a run keeps its job\n  " + "\n  ".join(changed),
            help="undo the change, or start a new run with another --out",
        )


def _new_key(folder: RunFolder) -> bytes:
    """Chance for the checksums of a run, in a file that its owner alone may read."""
    key = secrets.token_bytes(32)
    folder.write_bytes(CHECKSUM_KEY, key, mode=0o600)
    return key


def _keyed_checksum(key: bytes) -> Checksum:
    """Checksums by which nobody without the key can tell whether a guess at a file is right (HMAC, RFC 2104)."""
    return lambda digest: hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()


def _require_same_file(path: str, digest: str, checksum: Checksum) -> None:
    if not Path(path).is_file():
        raise JobError(
            f"the data file {path} of the run is gone",
            help="put it back where it was, or start a new run with another --out",
        )
    if checksum(sha256_of(path)) != digest:
        raise JobError(
            f"the data file {path} is not the one the run was begun with",
            help="put it back, or start a new run with another --out",
        )


def _is_external_graph(path: str) -> bool:
    """Whether a graph stands in a store or behind an endpoint, whose checksum is that of what it says."""
    return is_address(path) or Path(path).is_dir()


def _require_same_graphs(begun: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises JobError where a store or an endpoint says something else than when the run was begun."""
    changed = next((path for path, digest in begun.items() if now.get(path) != digest), None)
    if changed is not None:
        raise JobError(
            f"the graph at {changed} is not the one the run was begun with",
            help="restore what it held, or start a new run with another --out",
        )
