"""Append states from filters or causal discovery to the samples of a run.

Letters: W windows, T steps of a window, F features, C channels of states, M sites.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets import DataSet, series, standardise
from fedkg.errors import JobError
from fedkg.granger.effects import edges
from fedkg.granger.filter_states_as_inputs import Record, channels, filtered, states_of
from fedkg.granger.moments import series_of
from fedkg.granger.protocol import traffic
from fedkg.jobs.causes.learning import choose_lags, learn_causes
from fedkg.jobs.experiment.sample_preparation import Samples
from fedkg.jobs.experiment.site_sample_statistics import TEST
from fedkg.jobs.schema.augmentation_section import Augmentation
from fedkg.jobs.schema.job import Job
from fedkg.learned_knowledge_records import CausalEdge
from fedkg.pack import Pack
from fedkg.pack.causes import prior

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AugmentedSamples:
    """Samples [W, T, F + C], the discovered edges, and remarks for the user."""

    samples: Samples
    edges: tuple[CausalEdge, ...] = ()
    notes: tuple[str, ...] = ()


def augment_samples(samples: Samples, job: Job, pack: Pack, *, alone: bool) -> AugmentedSamples:
    """The samples as a trial reads them.

    Causal discovery runs once, without privacy, on the steps before the first test step of any
    site. The states of a site depend on its own measurements up to each step; with server
    predictions also on the states of other sites.

    Args:
        alone: whether to use the states of each site's own filter, without causal discovery.

    Raises:
        JobError: the sites have no common time, or not enough states.
        UsageError, FedkgError: see `learn`.
    """
    section = job.augment
    if section.by == "none":
        return AugmentedSamples(samples=samples)
    assert job.data.window is not None, "looked at before"
    records, firsts = _records(samples, samples.uncut_rows)
    found = filtered(records, section.states, past=section.past)
    names = [client.name for client in found.clients]
    allowed = prior(pack.manifest.causes, names)
    own, last = found.series(allowed, 1), 1 if job.data.window.horizon else 0
    if alone:
        made = states_of(found, own, None, section.states, section.reads)
        notes = (
            (
                f"states: {len(names)} sites with a local filter each, fitted on "
                f"{found.stop - found.start:,} steps; sites send nothing"
            ),
            *(f"states: {note}" for note in found.notes),
        )
        return AugmentedSamples(
            samples=_with_channels(samples, section, made, firsts, last), notes=notes
        )
    lags, said = choose_lags(section.learning, series_of(own.clients, allowed))
    known = found.series(allowed, lags)
    learnt, course = learn_causes(section.learning, known)
    made = states_of(found, known, learnt, section.states, section.reads)
    sent = traffic(known)
    notes = (
        (
            f"states: causal discovery used {len(known.states):,} steps of {len(names)} "
            f"sites; {course}"
        ),
        (
            f"states: each step of an epoch sends {8 * sent.up:,} bytes up and "
            f"{8 * sent.down:,} down, in addition to `bytes`"
        ),
        *(f"states: {note}" for note in (*said, *found.notes)),
    )
    return AugmentedSamples(
        samples=_with_channels(samples, section, made, firsts, last),
        edges=edges(known, learnt),
        notes=notes,
    )


def _records(samples: Samples, rows: DataSet) -> tuple[list[Record], Mapping[str, float]]:
    """The sites' series on one clock, and the time of the first step of each.

    Raises:
        JobError: rows belong to no site, or the steps of sites do not align.
    """
    windows = samples.source
    if rows.clients is None or windows.clients is None or windows.time is None:
        raise JobError(
            f"augment: {rows.name} is one series, and causal discovery needs several sites",
            help="set `data.split: column` and a column with the site",
        )
    every = series(rows)
    zero = min(float(one.time[0]) for one in every)
    records = []
    for one in every:
        place = (float(one.time[0]) - zero) / rows.step
        if abs(place - round(place)) > 0.01:
            raise JobError(
                f"augment: the steps of {one.client} do not align with those of other sites",
                expected=f"times that are whole steps of {rows.step:g} {rows.step_unit} apart",
                received=f"{place:,.2f} steps after the first of all sites",
                help="resample the table of this site to the steps of the others",
            )
        tested = windows.time[(windows.clients == one.client) & (samples.use == TEST)]
        known = (
            len(one.time)
            if not len(tested)
            else round((float(tested.min()) - float(one.time[0])) / rows.step)
        )
        records.append(
            Record(
                name=one.client,
                start=round(place),
                known=round(place) + known,
                columns=rows.features,
                values=one.x,
            )
        )
    return records, {one.client: float(one.time[0]) for one in every}


def _with_channels(
    samples: Samples,
    section: Augmentation,
    made: Mapping[str, F64],
    firsts: Mapping[str, float],
    last: int,
) -> Samples:
    """The samples with the scaled channels appended to the features of each window.

    Args:
        firsts: time of the first step of each site.
        last: steps between the last step of a window and its time: a forecast has the time of its
            first
            step, a label that of its last.
    """
    source, names = samples.source, channels(section.states, section.reads)
    assert source.clients is not None, "looked at before"
    assert source.time is not None, "looked at before"
    steps = source.x.shape[1]
    extra = np.full((source.samples, steps, len(names)), np.nan)
    for name, own in made.items():
        mine = np.flatnonzero(source.clients == name)
        ends = np.round((source.time[mine] - firsts[name]) / source.step).astype(np.int64) - last
        extra[mine] = own[ends[:, None] + np.arange(1 - steps, 1)]
    wide = replace(
        source,
        x=np.concatenate([source.x.astype(np.float64), extra], axis=2),
        features=(*source.features, *names),
        units=(*source.units, *["1"] * len(names)),
    )
    return replace(samples, source=wide, scaled=standardise(wide))
