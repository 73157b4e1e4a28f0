"""Figures of each site at the end of a trial: its own test rows with the model that it deploys.

Letters: N test rows, K sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.data.partition import apportion, positions_by_owner
from fedkg.jobs.row_order import SITE_COLUMN
from fedkg.jobs.tables.rule_evaluation import RowTally
from fedkg.jobs.tables.table_data import SiteRows, TableData, binary_labels
from fedkg.jobs.training import HeldOut, detection_figures, predict_test_rows
from fedkg.jobs.trials import TrialConfig
from fedkg.models import Model, Params

Index = NDArray[np.int64]


def assign_test_rows(prepared: TableData, config: TrialConfig, site_rows: SiteRows) -> Index:
    """The site that each test row belongs to, [N]; -1 for none.

    Rows from a site's table, or with a site in the split column, belong to that site. Others are
    assigned like the training rows: of each class in proportion to the sites' numbers of training
    rows.
    """
    sites, frame = list(site_rows.frames), prepared.test
    header = (
        SITE_COLUMN
        if SITE_COLUMN in frame.columns
        else config.job.data.site_column
        if config.job.data.split == "column"
        else ""
    )
    if header:
        place = {site: i for i, site in enumerate(sites)}
        return np.array([place.get(text, -1) for text in frame.texts(header)], dtype=np.int64)
    label = prepared.job.data.label
    labels, own = (
        binary_labels(frame, label),
        [binary_labels(part, label) for part in site_rows.frames.values()],
    )
    stream = np.random.Generator(np.random.PCG64([config.seed, 4]))
    found = np.full(frame.rows, -1, dtype=np.int64)
    for value in np.unique(labels):
        rows = stream.permutation(np.flatnonzero(labels == value))
        shares = np.array([np.count_nonzero(part == value) for part in own], dtype=np.float64)
        if shares.sum():
            found[rows] = np.repeat(np.arange(len(sites)), apportion(shares, len(rows)))
    return found


def site_result_rows(
    config: TrialConfig,
    prepared: TableData,
    site_rows: SiteRows,
    model: Model,
    models: Sequence[Params],
    held: HeldOut,
    tally: RowTally,
) -> list[dict[str, Any]]:
    """The rows of `sites.csv` for a trial. `Any`: texts and numbers.

    Args:
        models: one model that all sites share, or one per site.
        tally: counts of verdicts on all test rows under each model.
    """
    places = positions_by_owner(
        assign_test_rows(prepared, config, site_rows), len(site_rows.frames)
    )
    rows = []
    answers: tuple[Tensor, float] | None = None
    for k, (site, frame) in enumerate(site_rows.frames.items()):
        which, mine = min(k, len(models) - 1), places[k]
        if len(mine) and (answers is None or len(models) > 1):
            # a common model predicts all test rows once, a site's model only its own rows
            asked = torch.arange(len(held.test_y)) if len(models) == 1 else torch.from_numpy(mine)
            answers = predict_test_rows(config.job, model, models[which], held.test_rows(asked))
        index = torch.from_numpy(mine)
        targets = held.test_y[index]
        figures = {}
        if len(mine) and answers is not None:
            logits, threshold = answers
            own = logits[index] if len(models) == 1 else logits
            figures = detection_figures(own, targets, threshold)
        violated = int(tally.violated[which, mine].sum())
        evaluations = int(tally.evaluations[which, mine].sum())
        positives = int((targets > 0.5).sum())
        if not positives:  # without failures F1 and recall are 0 for every model
            figures = {
                name: value
                for name, value in figures.items()
                if name not in ("f1", "recall", "precision")
            }
        rows.append(
            {
                "trial": config.id,
                "client": site,
                "samples": frame.rows,
                "test_rows": len(mine),
                "positives": positives,
                **{name: value for name, value in figures.items() if name != "threshold"},
                "violation": violated / evaluations if evaluations else None,
                "violated": violated,
                "evaluations": evaluations,
            }
        )
    return rows
