"""Split training rows over the sites, and assign the test rows to them.

Letters: N rows, K sites.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.data.partition import Split, apportion, dirichlet, iid
from fedkg.data.skews import classes_per_site, dirichlet_sizes, quantity_skew
from fedkg.federated.attacks import wrong_labels
from fedkg.jobs.schema.data_section import Data
from fedkg.jobs.schema.job import Corruption
from fedkg.jobs.trial_expansion import TrialConfig

Labels = NDArray[np.generic]

_HOLD_OUT_STREAM, _SPLIT_STREAM, _TEST_STREAM = 1, 2, 4
"""Words that keep the random numbers of different steps apart."""


def trial_stream(seed: int, step: int = _SPLIT_STREAM) -> np.random.Generator:
    """The random numbers of a step of a trial, by default of its split."""
    return np.random.Generator(np.random.PCG64([seed, step]))


def hold_out_stream(seed: int, site: str = "") -> np.random.Generator:
    """The random numbers that hold out rows; for the table of a site they depend on its name, and
    not on the tables of other sites.
    """
    words = [] if not site else list(hashlib.sha256(site.encode()).digest()[:8])
    return np.random.Generator(np.random.PCG64([seed, _HOLD_OUT_STREAM, *words]))


def draw_split(
    labels: Labels, sites: Sequence[str], data: Data, stream: np.random.Generator
) -> Split:
    """The random split of training rows with these labels [N] that a job asks for.

    Raises:
        JobError: a site gets too few rows.
    """
    least = data.min_samples
    match data.split:
        case "dirichlet":
            return dirichlet(
                labels, sites, data.alpha, stream, size_alpha=data.size_alpha, min_samples=least
            )
        case "iid":
            return iid(labels, sites, stream, min_samples=least)
        case "classes":
            return classes_per_site(labels, sites, data.classes_per_site, stream, min_samples=least)
        case "sizes":
            return dirichlet_sizes(len(labels), sites, data.alpha, stream, min_samples=least)
        case _:
            return quantity_skew(len(labels), sites, data.shares, stream, min_samples=least)


def assign_by_class(test: Labels, train: Sequence[Labels], seed: int) -> NDArray[np.int64]:
    """Assign each test row to a site; -1 for the rows of a class that no site has.

    The test rows of a class are shared in proportion to the sites' numbers of training rows of this
    class.

    Args:
        test: labels of the test rows.
        train: labels of the training rows of each site.
        seed: seed of the trial.
    """
    stream = trial_stream(seed, _TEST_STREAM)
    found = np.full(len(test), -1, dtype=np.int64)
    for value in np.unique(test):
        rows = stream.permutation(np.flatnonzero(test == value))
        shares = np.array([np.count_nonzero(own == value) for own in train], dtype=np.float64)
        if shares.sum():
            found[rows] = np.repeat(np.arange(len(train)), apportion(shares, len(rows)))
    return found


def corrupt_labels(
    y: Tensor, corrupt: Corruption, stream: np.random.Generator, last: int = 1
) -> Tensor:
    """Labels [N] of 0 .. last, with a share of them wrong, see `wrong_labels`."""
    chosen = torch.zeros_like(y, dtype=torch.bool)
    chosen[torch.from_numpy(stream.permutation(len(y))[: round(corrupt.share * len(y))])] = True
    return torch.where(chosen, wrong_labels(y, corrupt.kind, last), y)


def describe_splits(
    configs: Sequence[TrialConfig],
    sites: Callable[[TrialConfig], tuple[int, Mapping[str, Mapping[str, int]]]],
) -> list[dict[str, Any]]:
    """The splits of a run for `split.json`, each once. `Any`: JSON.

    Args:
        sites: draws of a trial's split, and rows and positives of each site.
    """
    found: dict[str, dict[str, Any]] = {}
    for config in configs:
        if config.split_key in found:
            continue
        words = [f"{field.rpartition('.')[2]} {value}" for field, value in config.setting]
        words.append(f"seed {config.seed}")
        if config.corrupt is not None:
            words.append(f"{config.corrupt.kind.replace('_', ' ')} at {config.corrupt.site}")
        draws, rows = sites(config)
        found[config.split_key] = {
            "title": ", ".join(words),
            "setting": dict(config.setting),
            "seed": config.seed,
            "corrupted": "" if config.corrupt is None else config.corrupt.site,
            "draws": draws,
            "sites": rows,
        }
    return list(found.values())
