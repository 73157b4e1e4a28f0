"""The server of a federated causal discovery: it learns from states, and sees no measurement.

Letters: M sites, T steps, N steps of a request, S states of all sites, P states of a site.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.federation_folders import RUN
from fedkg.deploy.message import Message, read_message_file
from fedkg.deploy.preparation_messages import read_answer
from fedkg.deploy.site_state_versions import NO_RECEIPT, is_receipt
from fedkg.errors import FederationError, Stopped
from fedkg.granger.epoch_messages import Estimates, Progress, known_to_server
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt
from fedkg.granger.moments import Series
from fedkg.jobs.causes.aligned_site_tables import (
    SiteClock,
    count_steps,
    describe_alignment,
    find_common_times,
    find_step,
    merge_units,
)
from fedkg.jobs.causes.discovery import discover_in_states, learn_by_messages, merge_losses
from fedkg.jobs.causes.job_file import CausesJob
from fedkg.jobs.causes.measurements import Measurements, describe_changes, training_steps
from fedkg.jobs.causes.run import CausesRun, read_causes_folder, write_causes_folder
from fedkg.jobs.folder import JOB, RunFolder
from fedkg.pack.causes import prior

if TYPE_CHECKING:
    from fedkg.deploy.federation_job_and_pack import JobFiles
    from fedkg.deploy.server import AskedSites

F64 = NDArray[np.float64]

LEARNING, SUFFIX = "learning", ".message"
"""Of `learning.message`, the last epoch of the unfinished discovery in `run`; that of
`run-without-graz` is `learning-without-graz.message`."""


def run_discovery(run: Path, files: JobFiles, sites: AskedSites, *, command: str) -> CausesRun:
    """Run a causal discovery over its sites.

    The run folder has the results that `fedkg run` writes for the same job and tables. A discovery
    that was stopped continues after its last epoch.

    Args:
        run: the run folder, in the folder of the server.
        files: the job and the pack.
        sites: reaches the sites.
        command: continues the discovery after a stop.

    Raises:
        FederationError: a site does not answer, or fails; the message names it and its error.
        JobError: the job cannot run over sites that keep their measurements.
        FedkgError: the learning diverges.
        Stopped: on Ctrl-C.
    """
    job, target = files.causes_job(), RunFolder(run)
    if (target.path / JOB).exists():
        return read_causes_folder(target)
    checkpoint = run.with_name(f"{run.name.replace(RUN, LEARNING, 1)}{SUFFIX}")
    began = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    causes, contract = files.pack.manifest.causes, files.pack.manifest.contract
    try:
        joined = join_sites(files, sites)
        everything = joined.series(prior(causes, list(sites.names)))
        learning = EpochsAtSites(
            job=job,
            sites=sites,
            known=training_steps(job, len(everything.states)),
            checkpoint=checkpoint,
            identity=joined.identity,
        )
        found = discover_in_states(job, everything, learning.known, learning, {})
        found = replace(found, notes=(*joined.notes(job), *found.notes))
        sources = Measurements(clients=(), time_range=joined.time_range)
        target.create()
        with target.locked():
            done = write_causes_folder(
                target, job, found, causes, began, contract.step, (), sources
            )
    except KeyboardInterrupt as error:
        raise Stopped("stopped; finished epochs are kept", help=command) from error
    checkpoint.unlink(missing_ok=True)
    return done


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinedSites:
    """What the sites let the server know before the learning.

    Attributes:
        clients: their dynamics and filters.
        states: of all filters, [T, S].
        timed: whether the sites have times.
        outside: for each site the rows outside the common times.
        interpolated: unknown values that the sites interpolated.
        time_range: first and last time of the training steps.
    """

    clients: tuple[Client, ...]
    states: F64
    timed: bool
    outside: Mapping[str, int]
    interpolated: int
    time_range: tuple[str, str] | None

    def series(self, allowed: NDArray[np.bool_]) -> Series:
        """The states, with who may drive whom, bool [M, M]."""
        return Series(clients=self.clients, states=self.states, allowed=allowed)

    def notes(self, job: CausesJob) -> tuple[str, ...]:
        """Remarks for the user."""
        return (
            *describe_alignment(self.timed, self.outside),
            *describe_changes(job, self.interpolated),
        )

    @property
    def identity(self) -> str:
        """A SHA-256 of the states."""
        return hashlib.sha256(self.states.tobytes()).hexdigest()


def join_sites(files: JobFiles, sites: AskedSites) -> JoinedSites:
    """Align the clocks of all sites, and ask for the states of their filters.

    Raises:
        FederationError: a site does not answer, or fails.
        TableError, JobError: the sites have no common steps.
    """

    def ask(**fields: Any) -> dict[str, Message]:
        request = Message(kind="describe", fields=fields)
        answers = sites.ask_all(dict.fromkeys(sites.names, request))
        return dict(zip(sites.names, answers, strict=True))

    stated = ask(step="units", identity=files.identity)
    units = merge_units(
        read_answer(name, one, lambda one: _read_units(one.fields["units"]))
        for name, one in stated.items()
    )
    clocks = {
        name: read_answer(name, one, lambda one: _read_clock(one.fields["clock"]))
        for name, one in ask(step="clock", units=units).items()
    }
    place, contract = "the federation", files.pack.manifest.contract
    start, stop = find_common_times(place, clocks)
    timed = all(one.time for one in clocks.values())
    differences: list[dict[float, int]] = []
    if timed and contract.step is None:
        differences = [
            read_answer(name, one, _read_differences)
            for name, one in ask(step="differences", units=units, start=start, stop=stop).items()
        ]
    step = find_step(clocks, contract, differences)
    steps = count_steps(place, start, stop, step)
    answers = ask(
        step="join", identity=files.identity, units=units, start=start, seconds=step, steps=steps
    )
    found = {
        name: read_answer(name, one, partial(_read_joined, name=name, steps=steps))
        for name, one in answers.items()
    }
    each = list(found.values())
    return JoinedSites(
        clients=tuple(one.client for one in each),
        states=np.ascontiguousarray(np.concatenate([one.states for one in each], axis=1)),
        timed=timed,
        outside={name: one.outside for name, one in found.items()},
        interpolated=sum(one.interpolated for one in each),
        time_range=each[0].time_range,
    )


@dataclass(slots=True, kw_only=True, eq=False)
class EpochsAtSites:
    """Learns by messages with sites; see `fedkg.jobs.causes.discovery.LearningPlace`.

    Attributes:
        job: the job.
        sites: reaches the sites.
        known: number of training steps.
        checkpoint: where the last epoch is kept.
        identity: of the states that are learned from.
    """

    job: CausesJob
    sites: AskedSites
    known: int
    checkpoint: Path
    identity: str
    _receipts: dict[str, str] = field(default_factory=dict)

    def learn(self, series: Series) -> tuple[Learnt, str]:
        """See `LearningPlace.learn`."""
        self._receipts = dict.fromkeys(self.sites.names, NO_RECEIPT)
        progress = self._restore(series)

        def ask(epoch: int, gradients: Sequence[F64] | None) -> list[Estimates]:
            return self._ask(series, epoch, gradients, series.lags, self.known)

        return learn_by_messages(self.job, series, ask, progress=progress, save=self._save)

    def measure_losses(
        self, series: Series, learnt: Learnt, begin: int, end: int
    ) -> tuple[float, ...]:
        """See `LearningPlace.measure_losses`."""
        found = self._ask(series, len(learnt.server_loss), None, begin, end)
        return merge_losses(series, learnt, found, begin, end)

    def _ask(
        self, series: Series, epoch: int, gradients: Sequence[F64] | None, begin: int, end: int
    ) -> list[Estimates]:
        """The estimates of all sites on the steps begin .. end - 1."""
        requests = {}
        for m, name in enumerate(self.sites.names):
            tensors = {}
            if gradients is not None:
                tensors["gradients"] = torch.from_numpy(gradients[m])
            fields = {"begin": begin, "end": end, "receipt": self._receipts[name]}
            requests[name] = Message(kind="learn", round=epoch, fields=fields, tensors=tensors)
        found = []
        answers = self.sites.ask_all(requests)
        for m, (name, answer) in enumerate(zip(self.sites.names, answers, strict=True)):
            place = series.places[m]
            shape = (end - begin, place.stop - place.start)
            receipt, one = read_answer(name, answer, partial(_read_estimates, shape=shape))
            self._receipts[name] = receipt
            found.append(one)
        return found

    def _save(self, progress: Progress) -> None:
        """Keep an epoch, with the receipts of the answers that it used."""
        tensors = {
            "causes": progress.causes,
            "losses/clients": np.array(progress.client_loss),
            "losses/server": np.array(progress.server_loss),
            "change": np.array([progress.change]),
        }
        tensors |= {f"gradients/{m}": one for m, one in enumerate(progress.gradients)}
        body = Message(
            kind="checkpoint",
            round=progress.epochs,
            fields={"states": self.identity, "receipts": self._receipts},
            tensors={name: torch.from_numpy(value) for name, value in tensors.items()},
        ).to_bytes()
        replace_file(self.checkpoint, body)

    def _restore(self, series: Series) -> Progress | None:
        """The last epoch that was kept; None before the first.

        Raises:
            FederationError: it is of other states.
        """
        if not self.checkpoint.exists():
            return None
        found = read_message_file(
            self.checkpoint,
            help="restore it from a copy; or delete it, and the server learns again from the first "
            "epoch",
        )
        if found.fields["states"] != self.identity:
            raise FederationError(
                f"{self.checkpoint} belongs to other data of the sites",
                help="a site has changed its table since the run started: restore that table; or "
                "delete this file, and the server learns again from the first epoch",
            )
        self._receipts = dict(found.fields["receipts"])
        tensors = {name: value.numpy() for name, value in found.tensors.items()}
        return Progress(
            causes=tensors["causes"],
            gradients=tuple(tensors[f"gradients/{m}"] for m in range(len(series.clients))),
            epochs=found.round,
            client_loss=tuple(tuple(line) for line in tensors["losses/clients"].tolist()),
            server_loss=tuple(tuple(line) for line in tensors["losses/server"].tolist()),
            change=float(tensors["change"][0]),
        )


def _read_units(value: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(unit) for name, unit in value.items()}


def _read_clock(value: Mapping[str, Any]) -> SiteClock:
    clock = SiteClock(**value)
    if clock.time not in ("", "seconds", "local", "utc") or not clock.first <= clock.last:
        raise ValueError(f"times of unit {clock.time!r} from {clock.first} to {clock.last}")
    return clock


def _read_differences(answer: Message) -> dict[float, int]:
    values, counts = answer.tensors["steps/differences"], answer.tensors["steps/counts"]
    if not bool((values > 0).all()):
        raise ValueError("differences between times that are not above 0")
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Joined:
    """What one site tells when it joins; see `JoinedSites`."""

    client: Client
    states: F64
    outside: int
    interpolated: int
    time_range: tuple[str, str] | None


def _read_joined(answer: Message, *, name: str, steps: int) -> _Joined:
    states, asked = answer.tensors["states"].numpy(), answer.fields
    measurements, size = int(asked["measurements"]), states.shape[1]
    if states.shape != (steps, size) or not 1 <= size <= measurements <= MOST_MEASUREMENTS:
        raise ValueError(
            f"states {list(states.shape)} for {steps} steps and {measurements} measurements"
        )
    if states.dtype != np.float64 or not np.isfinite(states).all():
        raise ValueError("states that are not finite float64 numbers")
    times = asked["time_range"]
    return _Joined(
        client=known_to_server(
            name,
            answer.tensors["dynamics"].numpy(),
            answer.tensors["filter"].numpy(),
            measurements=measurements,
            steps=steps,
        ),
        states=states,
        outside=int(asked["outside"]),
        interpolated=int(asked["interpolated"]),
        time_range=None if times is None else (str(times[0]), str(times[1])),
    )


MOST_MEASUREMENTS = 1 << 20
"""Largest number of measurements that a site may claim."""


def _read_estimates(answer: Message, *, shape: tuple[int, int]) -> tuple[str, Estimates]:
    """The receipt and the estimates of a site."""
    augmented, sums = answer.tensors["augmented"].numpy(), answer.tensors["sums"]
    receipt = answer.fields["receipt"]
    if not is_receipt(receipt):
        raise ValueError("the receipt is not 64 hexadecimal digits")
    if augmented.shape != shape or augmented.dtype != np.float64:
        raise ValueError(
            f"augmented states {list(augmented.shape)} of {augmented.dtype} instead of "
            f"{list(shape)} of float64"
        )
    loss, size, change = sums.tolist()
    return receipt, Estimates(augmented=augmented, loss=loss, size=size, change=change)
