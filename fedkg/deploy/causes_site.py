"""A site of a federated causal discovery: it keeps its measurements and theta.

Letters: T steps, N steps of a request, P states and D measurements of the site.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from fedkg.deploy.federation_folders import STATE
from fedkg.deploy.message import Message
from fedkg.deploy.site import SiteAnswers, require_equal
from fedkg.deploy.site_state_versions import PrivateRows, is_receipt
from fedkg.deploy.site_training import receipt_of
from fedkg.granger.epoch_messages import ClientEpochs, estimate
from fedkg.granger.kalman import Client, estimated
from fedkg.jobs.causes.aligned_site_tables import (
    SiteMeasurements,
    SiteSeries,
    add_units,
    count_differences,
    find_rows,
    list_units,
    read_series,
)
from fedkg.jobs.causes.discovery import fit_clients
from fedkg.jobs.causes.job_file import CausesJob
from fedkg.jobs.causes.learning import rates_of
from fedkg.jobs.causes.measurements import Measurements, align_measurements
from fedkg.pack import DataContract
from fedkg.sites import load_sites

F64 = NDArray[np.float64]

LEARNING = "causes"
"""Folder in the state of a site with the versions of its theta."""

THETA = "theta"


class CausesSite(SiteAnswers):
    """Answers the server of a causal discovery from the table of a site.

    Args:
        folder: the folder of the site.

    Raises:
        UsageError, FederationError: the folder is not that of a site.
        JobError, PackError: its invitation cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._series: tuple[dict[str, str], SiteSeries] | None = None
        self._learning: JoinedClient | None = None

    @override
    def forget_tables(self) -> None:
        """See `SiteAnswers.forget_tables`."""
        super().forget_tables()
        self._series = self._learning = None
        self.__dict__.pop("discovery", None)

    @cached_property
    def discovery(self) -> CausesJob:
        """The job, with the sites file of this site."""
        return self.files.causes_job(self.sites_file)

    @override
    def answers(self, request: Message) -> dict[str, Callable[[Message], Message]]:
        """What answers each kind of request; the preparation has steps."""
        steps = {
            "units": self.state_units,
            "clock": self.tell_clock,
            "differences": self.count_differences,
            "join": self.join,
        }
        return {
            "describe": steps.get(str(request.fields.get("step")), self.state_units),
            "learn": self.learn,
            "finish": self.finish,
        }

    def state_units(self, request: Message) -> Message:
        """The units that the site states for signals that the rules do not know.

        Raises:
            FederationError: the server has another job, or a table has changed during a run.
        """
        require_equal(self.folder, self.name, self.files.identity, request.fields["identity"])
        self.require_same_tables()
        self.forget_changed_tables()
        return Message(kind=request.kind, fields={"units": self.units})

    @property
    def units(self) -> dict[str, str]:
        """The units that the site states."""
        wanted = self.discovery.clients.get(self.name, ())
        return list_units(load_sites(self.sites_file), self.name, wanted, self._contract)

    def tell_clock(self, request: Message) -> Message:
        """The first and the last time of the table."""
        return Message(
            kind=request.kind, fields={"clock": asdict(self.read(request.fields["units"]).clock)}
        )

    def count_differences(self, request: Message) -> Message:
        """How often each difference between two times occurs in the common times."""
        start, stop = float(request.fields["start"]), float(request.fields["stop"])
        found = count_differences(self.read(request.fields["units"]), start, stop)
        return Message(
            kind=request.kind,
            tensors={
                "steps/differences": torch.tensor(list(found), dtype=torch.float64),
                "steps/counts": torch.tensor(list(found.values()), dtype=torch.int64),
            },
        )

    @override
    def join(self, request: Message) -> Message:
        """Fit the site's filter on the common steps; what the server learns with."""
        found = JoinedClient.of(self, request)
        self.note_preparation(request)
        self._learning = found
        return found.describe()

    def learn(self, request: Message) -> Message:
        """The site's estimates of an epoch."""
        if self._learning is None:
            self._learning = JoinedClient.of(self, self.read_preparation())
        return self._learning.learn(request)

    def read(self, units: dict[str, str]) -> SiteSeries:
        """The table of the site, with signals in these units."""
        if self._series is None or self._series[0] != units:
            wanted = self.discovery.clients.get(self.name, ())
            contract = add_units(self._contract, units)
            self._series = (
                dict(units),
                read_series(load_sites(self.sites_file), self.name, wanted, contract),
            )
        return self._series[1]

    @property
    def _contract(self) -> DataContract | None:
        pack = self.files.pack
        return pack.manifest.contract if pack.manifest.causes else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinedClient:
    """The filter of a site, fitted on the steps that all sites have in common.

    Attributes:
        job: the job.
        client: the filter and the measurements.
        states: of the filter, [T, P].
        outside: rows of the table outside the common steps.
        sources: the measurements and remarks.
        rows: the versions of theta.
    """

    job: CausesJob
    client: Client
    states: F64
    outside: int
    sources: Measurements
    rows: PrivateRows

    @classmethod
    def of(cls, site: CausesSite, request: Message) -> JoinedClient:
        """The client of a site after the server's request to join.

        Raises:
            TableError, JobError, UsageError: the table does not fit the common steps or the job.
        """
        asked = request.fields
        start, step, steps = float(asked["start"]), float(asked["seconds"]), int(asked["steps"])
        series = site.read(asked["units"])
        read = SiteMeasurements(
            series={site.name: series},
            rows={site.name: find_rows(series, start, step, steps)},
            start=start,
            step=step,
        )
        sources = align_measurements(site.discovery, read)
        [client], _, _ = fit_clients(site.discovery, sources)
        first = {THETA: torch.zeros(client.gain.shape, dtype=torch.float64)}
        return cls(
            job=site.discovery,
            client=client,
            states=estimated(client),
            outside=read.outside[site.name],
            sources=sources,
            rows=PrivateRows(folder=site.folder / STATE / LEARNING, first=first),
        )

    def describe(self) -> Message:
        """What the server learns with: the states of the filter at all steps, and its dynamics."""
        client = self.client
        fields: dict[str, Any] = {
            "measurements": len(client.emission),
            "outside": self.outside,
            "interpolated": self.sources.interpolated,
            "time_range": self.sources.time_range,
        }
        return Message(
            kind="describe",
            fields=fields,
            tensors={
                "states": torch.from_numpy(self.states),
                "dynamics": torch.from_numpy(client.transition),
                "filter": torch.from_numpy(client.gain @ client.emission),
            },
        )

    def learn(self, request: Message) -> Message:
        """Follow the server's gradients of the epoch before, if it sends any, and estimate.

        Raises:
            FederationError: the request does not fit this site.
        """
        begin, end = request.fields["begin"], request.fields["end"]
        receipt, gradients = request.fields["receipt"], request.tensors.get("gradients")
        shape = (end - begin, self.states.shape[1])
        if not is_receipt(receipt):
            raise ValueError("the receipt is not 64 hexadecimal digits")
        if not 1 <= begin < end <= len(self.states):
            raise ValueError(f"steps {begin} to {end} of {len(self.states)}")
        if gradients is not None and (
            tuple(gradients.shape) != shape or gradients.dtype != torch.float64
        ):
            raise ValueError(
                f"gradients {list(gradients.shape)} of {gradients.dtype} instead of {list(shape)} "
                "of float64"
            )
        side = ClientEpochs(
            client=self.client,
            states=self.states,
            begin=begin,
            end=end,
            rates=rates_of(self.job.learning),
        )
        before = theta = self.rows.read(receipt)[THETA].numpy()
        if gradients is not None:
            theta = side.learn(before, gradients.numpy())
        found = estimate(side, theta, before)
        sums = torch.tensor([found.loss, found.size, found.change], dtype=torch.float64)
        tensors = {"augmented": torch.from_numpy(found.augmented), "sums": sums}
        if gradients is not None:
            receipt = receipt_of(request, tensors)
            self.rows.write(receipt, {THETA: torch.from_numpy(theta)})
        return Message(
            kind=request.kind, round=request.round, fields={"receipt": receipt}, tensors=tensors
        )
