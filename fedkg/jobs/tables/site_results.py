"""Figures of each site at the end of a trial: its own test rows with the model that it deploys.

Letters: N test rows, K sites.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.data.partition import positions_by_owner
from fedkg.jobs.chronological_holdout import SITE_COLUMN
from fedkg.jobs.folder import Row
from fedkg.jobs.result_rows import site_row
from fedkg.jobs.samples.task_metrics import detection_figures
from fedkg.jobs.site_split import assign_by_class
from fedkg.jobs.tables.rule_evaluation import RowTally
from fedkg.jobs.tables.table_preparation import SiteRows, TableData, binary_labels
from fedkg.jobs.training import HeldOut, predict_test_rows
from fedkg.jobs.trial_expansion import TrialConfig
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
    return assign_by_class(
        binary_labels(frame, label),
        [binary_labels(part, label) for part in site_rows.frames.values()],
        config.seed,
    )


def site_result_rows(
    config: TrialConfig,
    prepared: TableData,
    site_rows: SiteRows,
    model: Model,
    models: Sequence[Params],
    held: HeldOut,
    tally: RowTally,
) -> list[Row]:
    """The rows of `sites.csv` for a trial.

    Args:
        models: one model that all sites share, or one per site.
        tally: counts of verdicts on all test rows under each model.
    """
    places = positions_by_owner(
        assign_test_rows(prepared, config, site_rows), len(site_rows.frames)
    )
    rows: list[Row] = []
    answers: tuple[Tensor, float] | None = None
    for k, (site, frame) in enumerate(site_rows.frames.items()):
        which, mine = min(k, len(models) - 1), places[k]
        if len(mine) and (answers is None or len(models) > 1):
            # a common model predicts all test rows once, a site's model only its own rows
            asked = torch.arange(len(held.test_y)) if len(models) == 1 else torch.from_numpy(mine)
            answers = predict_test_rows(config.job, model, models[which], held.test_rows(asked))
        index = torch.from_numpy(mine)
        targets = held.test_y[index]
        figures: dict[str, float] = {}
        if len(mine) and answers is not None:
            logits, threshold = answers
            own = logits[index] if len(models) == 1 else logits
            figures = detection_figures(own, targets, threshold)
        rows.append(
            site_row(
                config.id,
                site,
                samples=frame.rows,
                test_rows=len(mine),
                positives=int((targets > 0.5).sum()),
                figures=figures,
                violated=int(tally.violated[which, mine].sum()),
                evaluations=int(tally.evaluations[which, mine].sum()),
            )
        )
    return rows
