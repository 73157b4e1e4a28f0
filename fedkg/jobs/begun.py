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

from fedkg.errors import JobError, UsageError
from fedkg.jobs.arms import Arm, planned, title_of
from fedkg.jobs.file.addresses import is_address
from fedkg.jobs.file.difference import differences
from fedkg.jobs.file.reading import job_of, parse_yaml
from fedkg.jobs.file.schema import Job
from fedkg.jobs.folder import ARMS, CLOSING, ENVIRONMENT, JOB, LOCK, PACK, SPLIT, RunFolder
from fedkg.jobs.ground import Ground
from fedkg.jobs.grounds import ground_of
from fedkg.jobs.sources import sha256_of
from fedkg.pack import pack_bytes, read_pack

LIBRARIES = ("torch", "numpy", "pydantic", "safetensors")
"""Those whose versions are written down."""
KEY = "checksums.key"
"""Of a protected run: what its files' checksums are made with. Without it nothing in `environment.json` tells of the data's bytes."""

Checksum = Callable[[str], str]
"""From the SHA-256 of a file to what is written down of it."""


def begin(folder: RunFolder, job: Job, ground: Ground, arms: Sequence[Arm], fetched: Sequence[Mapping[str, Any]] = ()) -> None:
    """The files a run begins with; `environment.json` comes last, because it makes the folder a run's.

    Args:
        fetched: what the endpoints held that its graphs come from, as `fedkg.graphs.Fetched` has it. `Any`: JSON.
    """
    import yaml

    body = pack_bytes(ground.pack)
    folder.write_bytes(PACK, body)
    folder.write_json(SPLIT, ground.splits(arms))
    folder.write_json(ARMS, [_arm_entry(arm) for arm in arms])
    for name in ("rounds.csv", "clients.csv", *CLOSING):
        folder.rewrite(name, [])
    folder.rewrite("checks.csv", ground.checks(arms[0]))
    document = job.model_dump(mode="json")
    checksum = _keyed(_new_key(folder)) if job.privacy is not None else str
    folder.write_text(JOB, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    folder.write_json(
        ENVIRONMENT,
        {
            **machine(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "job_sha256": hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest(),
            "job": document,
            "pack_sha256": hashlib.sha256(body).hexdigest(),
            "sources": [{"path": path, "sha256": checksum(digest)} for path, digest in ground.files],
            "fetched": [dict(one) for one in fetched],
            "features": ground.features(),
            "window": ground.reach if job.privacy is None else None,
            "measure": ground.measure.name,
        },
    )


def whole(place: RunFolder) -> None:
    """Raises UsageError when a folder is not a run's."""
    if not place.exists():
        if (place.path / LOCK).exists():
            raise UsageError(
                f"the run in {place.path} ended before its first training", help=f"begin again: fedkg run JOB.yaml --out {place.path}"
            )
        raise UsageError(
            f"{place.path} is not a run folder",
            expected=f"a folder with {ENVIRONMENT} in it, as `fedkg run` makes them",
            help="start one: fedkg run JOB.yaml --out DIR",
        )


def reopened(place: RunFolder) -> tuple[Job, Ground, tuple[Arm, ...]]:
    """The job, data and trainings of a run folder, as they were when the run was begun.

    Raises:
        UsageError: when the folder is not a run's.
        JobError: when the job, the pack or a file is no longer what the run was begun with (the difference is shown), or is damaged.
    """
    whole(place)
    environment = place.environment()
    begun = job_of(environment["job"], name=f"{place.path / ENVIRONMENT}", base=place.path)
    text = _read_bytes(place.path / JOB).decode("utf-8", errors="replace")
    now = job_of(parse_yaml(text, str(place.path / JOB)), name=str(place.path / JOB), base=place.path)
    refuse_changed(place, now, f"{place.path / JOB} was changed after the run was begun")
    graphs = {entry["path"]: entry["sha256"] for entry in environment["sources"] if _is_kept_elsewhere(entry["path"])}
    checksum = _keyed(_read_bytes(place.path / KEY)) if begun.privacy is not None else str
    for entry in environment["sources"]:
        if entry["path"] not in graphs:
            _same_file(entry["path"], entry["sha256"], checksum)
    body = _read_bytes(place.path / PACK)
    if hashlib.sha256(body).hexdigest() != environment["pack_sha256"]:
        raise JobError(
            f"{place.path / PACK} is not the pack the run was begun with",
            help="restore the pack of the run, or start a new run with another --out",
        )
    arms = planned(begun)
    ground = ground_of(begun, read_pack(body, name=str(place.path / PACK)))
    _same_graphs(graphs, {path: checksum(digest) for path, digest in ground.files} if graphs else {})
    ground.prepare(arms)
    return begun, ground, arms


def machine() -> dict[str, Any]:
    """What a run depends on beside its files. `Any`: JSON."""
    return {
        "fedkg": metadata.version("fedkg"),
        "python": platform.python_version(),
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }


def _arm_entry(arm: Arm) -> dict[str, Any]:
    return {
        "id": arm.id,
        "algorithm": arm.algorithm,
        "preset": arm.preset,
        "title": title_of(arm),
        "seed": arm.seed,
        "setting": dict(arm.setting),
        "corrupted": "" if arm.corrupt is None else arm.corrupt.site,
        "corruption": "" if arm.corrupt is None else arm.corrupt.kind,
        "baseline": arm.baseline,
        "done": False,
        "rounds": 0,
    }


def refuse_changed(folder: RunFolder, job: Job, message: str) -> None:
    """Raises JobError, with what is different, when a run was begun with another job."""
    begun = folder.environment()["job"]
    changed = differences(begun, job.model_dump(mode="json"))
    if changed:
        raise JobError(
            f"{message}: a run keeps its job\n  " + "\n  ".join(changed), help="undo the change, or start a new run with another --out"
        )


def refuse_gaps(folder: RunFolder, arms: Sequence[Arm], rounds: Sequence[Mapping[str, str]]) -> None:
    """Raises JobError for a gap: a comparison over rounds that are not all there would be wrong without a sign of it."""
    there = {(row["arm"], int(row["round"])) for row in rounds}
    lengths = folder.records([arm.id for arm in arms])
    for arm in arms:
        gap = next((number for number in range(1, arm.job.training.rounds + 1) if (arm.id, number) not in there), None)
        if gap is not None and gap <= lengths[arm.id]["rounds"]:
            raise JobError(f"{folder.path / 'rounds.csv'} is damaged: round {gap} of {arm.id} is not in it", help="begin the run again")


def _new_key(folder: RunFolder) -> bytes:
    """Chance for the checksums of a run, in a file that its owner alone may read."""
    key, place = secrets.token_bytes(32), folder.path / KEY
    place.unlink(missing_ok=True)
    place.touch(0o600)
    place.write_bytes(key)
    return key


def _keyed(key: bytes) -> Checksum:
    """Checksums by which nobody without the key can tell whether a guess at a file is right (HMAC, RFC 2104)."""
    return lambda digest: hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()


def _same_file(path: str, digest: str, checksum: Checksum) -> None:
    if not Path(path).is_file():
        raise JobError(f"the data file {path} of the run is gone", help="put it back where it was, or start a new run with another --out")
    if checksum(sha256_of(path)) != digest:
        raise JobError(
            f"the data file {path} is not the one the run was begun with", help="put it back, or start a new run with another --out"
        )


def _is_kept_elsewhere(path: str) -> bool:
    """Whether a graph stands in a store or behind an endpoint, whose checksum is that of what it says."""
    return is_address(path) or Path(path).is_dir()


def _same_graphs(begun: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises JobError where a store or an endpoint says something else than when the run was begun."""
    changed = next((path for path, digest in begun.items() if now.get(path) != digest), None)
    if changed is not None:
        raise JobError(
            f"the graph at {changed} is not the one the run was begun with",
            help="restore what it held, or start a new run with another --out",
        )


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise JobError(
            f"{path} is missing: the run cannot go on",
            received=error.strerror or str(error),
            help="restore it from a copy, or start a new run with another --out",
        ) from error
