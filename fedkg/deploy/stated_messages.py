"""What an own algorithm sends from a site in each round, stated before the site runs its code.

`fedkg federation init` runs the client's step of the algorithm once on zeros and writes the names,
types and sizes of its answer into the signed invitation. `fedkg site join` shows them before the
operator consents, and the site sends nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkg.deploy.disclosures import VIOLATION, Disclosure, describe_disclosures, list_disclosures
from fedkg.deploy.federation_folders import MESSAGES
from fedkg.errors import FederationError, JobError
from fedkg.federated import Clients, Problem
from fedkg.federated.executors import Work
from fedkg.federated.problem import pool
from fedkg.jobs.experiment.task_metrics import task_loss
from fedkg.jobs.model_builder import build_model
from fedkg.jobs.prediction_target import choose_output
from fedkg.jobs.schema.job import Job
from fedkg.jobs.source_tables import feature_headers
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section, plan_trials
from fedkg.jobs.trial_training import build_trial_algorithm, trial_settings
from fedkg.limits import parse_json, read_file
from fedkg.pack import Pack

ROWS = 4
"""Rows of zeros of each site with which the client's step runs."""

Stated = Mapping[str, Sequence[Mapping[str, Any]]]
"""By trial: name, type, shape and meaning of each tensor. The shape is None if it depends on the
tables. `Any`: JSON."""


def state_messages(job: Job, pack: Pack, sites: Sequence[str]) -> Stated:
    """What sites send in each round of the trials with an own algorithm.

    This runs the code of the job.

    Args:
        job: the job over sites.
        pack: its rules.
        sites: their names.

    Raises:
        JobError: the algorithm cannot be built, or pools the rows of all sites.
    """
    return {
        config.id: _state_trial(config, pack, sites)
        for config in plan_trials(job)
        if algorithm_section(config.job).path is not None
    }


def _state_trial(config: TrialConfig, pack: Pack, sites: Sequence[str]) -> list[dict[str, Any]]:
    """The messages of one trial. `Any`: JSON."""
    job = config.job
    features, known = _count_features(job, pack)
    window, outputs, task = job.data.window, 1, "detection"
    if job.data.set is not None:
        output = choose_output(job, pack)
        columns = pack.manifest.contract.columns
        classes = [one for one in columns if one.role == "output" and one.label == output]
        outputs, task = max(len(classes), 1), "classes" if classes else "regression"
    shape = (features,) if window is None else (window.history, features)
    if window is not None and window.horizon:
        outputs, task = len(window.targets) or 1, "forecast"
    horizon = 0 if window is None else window.horizon
    model = build_model(job.model, sample=shape, outputs=outputs, horizon=horizon)
    target = torch.zeros(ROWS, outputs * horizon) if horizon else torch.zeros(ROWS)
    y = target.long() if task == "classes" else target
    clients = Clients(
        names=tuple(sites),
        x=tuple(torch.zeros(ROWS, *shape) for _ in sites),
        y=tuple(y for _ in sites),
    )
    problem = Problem(model=model, loss=task_loss(task, 1.0), clients=clients)
    settings = trial_settings(config, pack, clients)
    algorithm = build_trial_algorithm(config, problem, settings, None)
    if algorithm.pooled:
        raise JobError(
            f"algorithm {config.algorithm} pools the rows of all sites (`Algorithm.pooled`), and "
            "sites keep their rows in a federation",
            help="use an algorithm that exchanges models",
        )
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(clients))
    found = [
        {
            "name": one.name,
            "dtype": one.dtype,
            "shape": list(one.shape) if known else None,
            "bytes": one.bytes if known else None,
            "meaning": one.meaning,
        }
        for one in list_disclosures(work, sites[0])
        if one.direction == "to the server" and one.when == "in each of its rounds"
    ]
    if settings.scores_at_sites:
        meaning = "for each bound row of a rule, the share of probe rows that it violates"
        found.append(
            {
                "name": VIOLATION,
                "dtype": "float64",
                "shape": None,
                "bytes": None,
                "meaning": meaning,
            }
        )
    return found


def _count_features(job: Job, pack: Pack) -> tuple[int, bool]:
    """F, and whether it is known without the tables of the sites."""
    contract = pack.manifest.contract
    if job.data.window is not None or job.data.categories:
        return 1, False
    if job.data.set is None:
        return len(feature_headers(job, contract)), True
    inputs = [column for column in contract.columns if column.role != "output"]
    return sum(len(one.vocabulary) if one.type == "category" else 1 for one in inputs), True


def read_messages(folder: Path) -> Stated:
    """The messages that an invitation states; empty without an own algorithm.

    Raises FederationError: the file is damaged.
    """
    path = folder / MESSAGES
    if not path.is_file():
        return {}
    try:
        found: dict[str, list[dict[str, Any]]] = parse_json(read_file(path), str(path))
        for each in found.values():
            for one in each:
                str(one["name"]), str(one["dtype"]), one["shape"], str(one["meaning"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FederationError(
            f"{path} does not state the messages of the algorithms",
            received=f"no field {error}" if isinstance(error, KeyError) else str(error),
            help="ask the operator of the server for a new invitation",
        ) from error
    return found


def describe_messages(stated: Stated) -> list[str]:
    """One line for each message that own algorithms send, without repetitions."""
    lines: dict[str, None] = {}
    for each in stated.values():
        for one in each:
            if one["shape"] is None:
                size = "size depends on the tables"
                lines[f"{one['name']}, {one['dtype']}, {size}: {one['meaning']}"] = None
                continue
            listed = Disclosure(
                name=one["name"],
                meaning=one["meaning"],
                direction="to the server",
                when="in each of its rounds",
                shape=tuple(one["shape"]),
                dtype=one["dtype"],
                bytes=one["bytes"],
            )
            [line] = describe_disclosures([listed])
            lines[line.partition(": ")[2]] = None
    return list(lines)


def require_stated(
    stated: Sequence[Mapping[str, Any]], tensors: Mapping[str, Tensor], site: str
) -> None:
    """Raise FederationError if an answer contains more than the invitation states, or something of
    another type or size.

    Args:
        stated: the messages of the trial. `Any`: JSON.
        tensors: of the answer.
        site: name of the site.
    """
    known = {one["name"]: one for one in stated}
    for name, value in tensors.items():
        one, dtype = known.get(name), str(value.dtype).removeprefix("torch.")
        shape = list(value.shape)
        if one is None or one["dtype"] != dtype or one["shape"] not in (None, shape):
            expected = (
                "no tensor of this name"
                if one is None
                else f"{one['dtype']} {one['shape'] or ''}".strip()
            )
            stated_how = "does not state" if one is None else "states with another type or shape"
            raise FederationError(
                f"site {site} sends nothing: the algorithm would send `{name}`, which the "
                f"invitation {stated_how}",
                expected=expected,
                received=f"{dtype} {shape}",
                help="ask the operator of the server; `fedkg federation init` states the messages",
            )
