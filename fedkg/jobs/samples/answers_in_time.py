"""Rules that compare rows, on the answers of models for consecutive test rows of a data set.

They are evaluated as `fedkg eval` evaluates the table of the test rows, with the answers as the
output's column.

Letters: N rows, S answered samples, H outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.data.sets import StandardisedDataSet
from fedkg.jobs.samples.sample_preparation import Index, Samples
from fedkg.jobs.table_rule_evaluation import TableCounts, count_on_tables, row_name, site_frames
from fedkg.pack import Pack


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersInTime:
    """Counts of the rules that compare rows.

    Attributes:
        rules: by name of the rule, over all sites.
        sites: violated and evaluated cases of all these rules, by client of the data set.
    """

    rules: dict[str, TableCounts]
    sites: dict[str, tuple[int, int]]


def evaluate_answers(
    pack: Pack, output: str, samples: Samples, index: Index, answers: Tensor, rules: Sequence[str]
) -> AnswersInTime:
    """Evaluate rules on the test rows with these answers.

    Args:
        pack: the rules of the job. output: the output or label of the answers.
        index: positions [S] of the samples.
        answers: raw outputs [S, H] for them.
        rules: names of the rules that compare rows.
    """
    uncut = samples.uncut_rows
    column = next(
        one.source
        for one in pack.manifest.contract.columns
        if one.role == "output" and output in (one.name, one.label)
    )
    kept = samples.source.rows[index] >= 0
    places = np.argsort(uncut.rows, kind="stable")
    at = np.searchsorted(uncut.rows[places], samples.source.rows[index][kept])
    rows = uncut.take(places[at])
    values = _values(samples.scaled, answers[torch.from_numpy(kept)])
    frames = site_frames(pack, rows, (column, values))
    totals = {name: TableCounts() for name in rules}
    sites: dict[str, tuple[int, int]] = {}
    for site, frame in frames.items():
        found = count_on_tables(pack, [(frame.table(), partial(row_name, frame))], rules)
        sites[site] = (
            sum(one.violated for one in found.values()),
            sum(one.evaluations for one in found.values()),
        )
        for name, one in found.items():
            totals[name].add(one)
    return AnswersInTime(rules=totals, sites=sites)


def _values(scaled: StandardisedDataSet, answers: Tensor) -> NDArray[Any]:
    """Answers as cells of the output's column: probabilities, names of classes, or quantities."""
    match scaled.source.task:
        case "detection":
            return np.asarray(torch.sigmoid(answers.double()).squeeze(-1).numpy())
        case "classes":
            names = np.array(scaled.source.classes, dtype=object)
            return np.asarray(names[answers.argmax(dim=1).numpy()])
        case _:
            return scaled.quantities(answers.double().numpy())[:, 0]
