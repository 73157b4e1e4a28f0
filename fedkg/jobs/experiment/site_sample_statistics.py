"""What a site tells about its samples before training: counts and sums, but no rows.

A run in one process merges the summaries of all sites in the same way as a server that only
receives them.

Letters: F features, K classes, H outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets import Task
from fedkg.data.standardise import Moments, merge_moments
from fedkg.errors import JobError
from fedkg.learned_knowledge_records import TimeRange, combine_ranges

TRAIN, TEST, SERVER, UNUSED = 0, 1, 2, 3
"""The use of a sample; unused are samples that overlap the server's samples or the test."""

USES = (TRAIN, TEST, SERVER, UNUSED)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteSummary:
    """Counts and sums of the samples of a site, or of all sites together.

    Attributes:
        task: the kind of targets.
        rows: number of samples by use.
        labels: int64 [4, K], samples of each class by use (0 and 1 for detection); K is 0 for
            numbers.
        inputs: moments of the F numeric features that define the scaling.
        unknown: int64 [F], unknown cells of each numeric feature in training samples.
        outputs: moments of the H targets that define their scaling; None without numbers.
        tested: moments of the H targets of the test; None without numbers.
        texts: the texts of each category in training samples, sorted.
        columns: headers of the table.
        time_range: first and last time; None without times.
        notes: remarks for the user.
        unlabelled: samples without a target, which are dropped.
    """

    task: Task
    rows: tuple[int, ...]
    labels: NDArray[np.int64]
    inputs: Moments
    unknown: NDArray[np.int64]
    outputs: Moments | None = None
    tested: Moments | None = None
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    time_range: TimeRange | None = None
    notes: tuple[str, ...] = ()
    unlabelled: int = 0

    def positives(self, use: int) -> int | None:
        """Number of positive labels among the samples of a use; None for other tasks."""
        return int(self.labels[use, 1]) if self.task == "detection" else None


def summary_of_size(whole: SiteSummary, training: int) -> SiteSummary:
    """What a site knows of another one: the number of its training samples.

    Args:
        whole: the summary of all sites.
    """
    return SiteSummary(
        task=whole.task,
        rows=tuple(training if use == TRAIN else 0 for use in USES),
        labels=np.zeros_like(whole.labels),
        inputs=whole.inputs,
        unknown=np.zeros_like(whole.unknown),
    )


def merge_summaries(each: Sequence[SiteSummary], *, machines: str = "") -> SiteSummary:
    """The summary of all sites together, merged in their order.

    Args:
        machines: header of the machines, a column that some tables may lack.

    Raises:
        JobError: an output is 0 or 1 at one site, and another number elsewhere.
    """
    first = each[0]
    if len({one.task for one in each}) > 1:
        raise JobError(
            "the output is 0 or 1 in every row of some sites, and another number at others",
            expected="one kind of output: yes or no, or a number",
            help="correct the cells; for a number, declare the output in the rules with "
            "another unit than `probability`",
        )
    return SiteSummary(
        task=first.task,
        rows=tuple(sum(one.rows[use] for one in each) for use in USES),
        labels=np.sum([one.labels for one in each], axis=0),
        inputs=merge_moments(one.inputs for one in each),
        unknown=np.sum([one.unknown for one in each], axis=0),
        outputs=_merge(one.outputs for one in each),
        tested=_merge(one.tested for one in each),
        texts={
            header: tuple(sorted({text for one in each for text in one.texts[header]}))
            for header in first.texts
        },
        columns=_common_columns([one.columns for one in each], machines),
        time_range=combine_ranges([one.time_range for one in each]),
        notes=tuple(dict.fromkeys(note for one in each for note in one.notes)),
        unlabelled=sum(one.unlabelled for one in each),
    )


def _common_columns(each: Sequence[Sequence[str]], machines: str) -> tuple[str, ...]:
    """The headers that all tables have, and the machines if any table has them."""
    headers = dict.fromkeys(each[0])
    if any(machines in one for one in each):
        headers[machines] = None
    return tuple(
        header for header in headers if header == machines or all(header in one for one in each)
    )


def _merge(each: Iterable[Moments | None]) -> Moments | None:
    """The moments of all sites; None if a site has none."""
    known = list(each)
    moments = [one for one in known if one is not None]
    return merge_moments(moments) if len(moments) == len(known) else None


def count_labels(y: NDArray[np.generic], use: NDArray[np.int8], classes: int) -> NDArray[np.int64]:
    """Samples of each class 0 .. `classes` - 1 by use, [4, K]."""
    return np.stack(
        [np.bincount(y[use == kind].astype(np.int64), minlength=classes) for kind in USES]
    )
