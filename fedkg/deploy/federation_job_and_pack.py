"""The job and the pack of a federation, in the folders of its server and its sites."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedkg._internal.yaml_documents import parse_yaml
from fedkg.deploy.federation_folders import JOB, PACK, find_code
from fedkg.errors import FederationError, JobError
from fedkg.jobs.causes.job_file import CausesJob, parse_causes_job
from fedkg.jobs.code_trust import list_files
from fedkg.jobs.job_privacy import has_system_noise
from fedkg.jobs.run_initial_files import ELSEWHERE
from fedkg.jobs.schema.data_section import TABLE_SET
from fedkg.jobs.schema.federation_section import RoundContract
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_reader import format_field_errors, parse_job, read_job_text
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section, plan_trials
from fedkg.pack import Pack, load
from fedkg.pack.file import pack_digest

PACK_FIELD = "pack"
"""Field of a request with the digest of the rules that it is about."""

SETTINGS = ("learning_rate", "local_epochs", "batch")
"""Training settings of a site that the server knows."""

PRIVATE = ("knowledge", "trust")
"""Settings of a site that only its own sites file may state."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobFiles:
    """The job and the pack of a federation.

    Attributes:
        folder: where they are.
        document: the fields of the job file. `Any`: YAML.
        pack: the rules.
    """

    folder: Path
    document: Mapping[str, Any]
    pack: Pack

    @classmethod
    def read(cls, folder: Path) -> JobFiles:
        """The job and the pack in a folder.

        Raises:
            FederationError: a file is missing.
            JobError, PackError: the job or the pack cannot be read.
        """
        for name in (JOB, PACK):
            if not (folder / name).is_file():
                raise FederationError(
                    f"{folder / name} does not exist",
                    help="check the path of the folder: `fedkg federation init` creates that of a "
                    "server, `fedkg site join` that of a site",
                )
        document = parse_yaml(read_job_text(folder / JOB), str(folder / JOB))
        return cls(folder=folder, document=document, pack=load(folder / PACK))

    @property
    def identity(self) -> dict[str, str]:
        """What the server and its sites must have in common; the contract concerns the server."""
        code = hashlib.sha256()
        for file in find_code(self.folder):
            code.update(f"{file.name} {file.stat().st_size}\n".encode() + file.read_bytes())
        shared = {name: part for name, part in self.document.items() if name != "federation"}
        fields = json.dumps(shared, sort_keys=True, default=str)
        return {
            "fedkg": metadata.version("fedkg"),
            "pack": pack_digest(self.pack),
            "job": hashlib.sha256(fields.encode()).hexdigest(),
            "code": code.hexdigest(),
        }

    def contract(self) -> RoundContract:
        """How long the server waits for its sites.

        Raises:
            JobError: the section `federation` is wrong.
        """
        try:
            return RoundContract.model_validate(self.document.get("federation") or {})
        except ValidationError as error:
            raise JobError(
                f"{self.folder / JOB}: "
                f"`{'.'.join(['federation', *map(str, error.errors()[0]['loc'])])}` is wrong",
                received=format_field_errors(error.errors()),
            ) from error

    def listed_sites(self) -> dict[str, dict[str, Any]]:
        """The sites that the job lists, with their fields. `Any`: YAML."""
        sites = self.document.get("clients" if self.is_discovery else "sites")
        if self.is_discovery:
            return {str(name): {} for name in sites or ()}
        if isinstance(sites, Mapping):
            return {str(name): dict(own or {}) for name, own in sites.items()}
        return {str(name): {} for name in sites} if isinstance(sites, list) else {}

    def site_job(self, name: str, sites_file: Path) -> Job:
        """The job as one site reads it: with its own sites file, and without other sites.

        Raises:
            JobError, UsageError, TableError: the job or the sites file is wrong.
        """
        own = self.listed_sites().get(name, {})
        own = {field: value for field, value in own.items() if field not in PRIVATE}
        return self._job(sites_file.resolve(), {name: own})

    def joint_job(self, sites: Mapping[str, Mapping[str, Any]]) -> Job:
        """The job over all sites, none of whose tables it names; equal at the server and at sites.

        Args:
            sites: `SETTINGS` of each site, in the order of the sites. `Any`: JSON.

        Raises:
            JobError: the job is wrong, or needs the rows of all sites in one place.
        """
        job = self._job(self.folder.resolve() / ELSEWHERE, sites)
        reject_pooled_rows(job, plan_trials(job), self.pack)
        return job

    @property
    def is_discovery(self) -> bool:
        """Whether the job is a causal discovery."""
        return self.document.get("kind") == "causes"

    def causes_job(self, sites_file: Path | None = None) -> CausesJob:
        """The causal discovery.

        Args:
            sites_file: of one site; None: the job over all sites, none of whose tables it names.

        Raises:
            JobError: the job is wrong, or needs the measurements of all sites in one place.
        """
        place = sites_file or self.folder / ELSEWHERE
        data = {**(self.document.get("data") or {}), "sites_file": str(place.resolve())}
        document = {**self.document, "data": data}
        document.pop("pack", None)
        job = parse_causes_job(document, str(self.folder / JOB))
        reject_pooled_measurements(job)
        return job

    def _job(self, sites_file: Path, sites: Mapping[str, Mapping[str, Any]]) -> Job:
        data = {**(self.document.get("data") or {}), "sites_file": str(sites_file)}
        if data.get("set") not in (None, TABLE_SET):
            raise _pooled(
                f"`data.set: {data['set']}` is one data set for all sites",
                "set `data.set: table`, or leave it out",
            )
        data.pop("path", None)
        document = {
            **self.document,
            "data": data,
            "pack": str((self.folder / PACK).resolve()),
            "sites": {name: dict(own) for name, own in sites.items()},
        }
        document.pop("rules", None)
        job = parse_job(document, name=str(self.folder / JOB), base=self.folder)
        self._reject_foreign_code(job)
        return job

    def _reject_foreign_code(self, job: Job) -> None:
        """Raise JobError if the job imports code that is not in the signed folder: consent to run
        code covers nothing else.
        """
        known = {file.resolve() for file in find_code(self.folder)}
        for file in list_files(job):
            if (self.folder / file).resolve() not in known:
                raise JobError(
                    f"{self.folder / JOB} imports {file}, which the signed invitation does not "
                    "contain",
                    help="as a site, do not take part, and ask the operator of the server; as the "
                    "server, restore the job, or create the federation again",
                )


def own_settings(job: Job, name: str) -> dict[str, Any]:
    """The training settings of a site that it tells the server. `Any`: numbers."""
    site = job.sites[name]
    return {field: value for field in SETTINGS if (value := getattr(site, field)) is not None}


def sites_score(configs: Sequence[TrialConfig]) -> bool:
    """Whether sites score their models in any trial, on a probe that the server sends them."""
    return any(config.job.scoring.at == "sites" for config in configs)


def reject_pooled_rows(job: Job, configs: Sequence[TrialConfig], pack: Pack) -> None:
    """Raise JobError if a job needs the rows of several sites in one place.

    The message names the first such field and what to use instead.
    """
    found = next(_find_pooled_rows(job, configs, pack), None)
    if found is not None:
        raise _pooled(*found)


def reject_pooled_measurements(job: CausesJob) -> None:
    """Raise JobError if a causal discovery needs the measurements of several sites in one place.

    The message names the first such field and what to use instead.
    """
    found = next(_find_pooled_measurements(job), None)
    if found is not None:
        raise _pooled(*found)


def _find_pooled_measurements(job: CausesJob) -> Iterator[tuple[str, str]]:
    """Reasons and alternatives."""
    mode = job.learning.mode
    if mode == "sequential":
        yield (
            f"`learning.mode: {mode}` exchanges a message for every step of every epoch",
            "use `mode: batch`, with one message each way in an epoch",
        )
    if mode == "closed_form":
        yield (
            f"`learning.mode: {mode}` multiplies measurements of a site by states of the others",
            "use `mode: batch`, which converges to the same point",
        )
    if job.correlation:
        yield (
            f"`correlation: {job.correlation:g}` compares measurements of different sites",
            "set `correlation: 0`, and name the measurements of each site in `clients`",
        )
    if job.precedence:
        yield (
            "`precedence: true` compares measurements of different sites",
            "set `precedence: false`",
        )
    if job.centralised:
        yield "`centralised: true` pools the measurements of all sites", "set `centralised: false`"
    if any(job.federation.choices().values()):
        yield (
            "a causal discovery needs the states of all sites in every epoch",
            "leave out `federation.quorum`, `oversampling` and `late`",
        )


def _pooled(reason: str, instead: str) -> JobError:
    return JobError(
        f"sites keep their rows in a federation, so it cannot run this job: {reason}", help=instead
    )


def _find_pooled_rows(
    job: Job, configs: Sequence[TrialConfig], pack: Pack
) -> Iterator[tuple[str, str]]:
    """Reasons and alternatives."""
    if job.data.set == TABLE_SET and job.data.split != "column":
        yield (
            f"`data.split: {job.data.split}` deals the rows of all sites",
            "leave out `data.split`: each site has its own table",
        )
    if job.privacy is not None and not has_system_noise(job):
        yield (
            "the noise of `privacy` follows from the seed of the job, which all sites know",
            "set `privacy.randomness: system`, which takes noise from the operating system",
        )
    if job.privacy is not None and job.privacy.mined is not None:
        yield "`privacy.mined` mines in rows of the server", "leave out `privacy.mined`"
    if job.corrupt is not None:
        yield "`corrupt` changes labels of a site", "leave out `corrupt`"
    if any(config.job.simulation.attacks.changes != "none" for config in configs):
        yield (
            "`simulation.attacks` changes labels or updates of sites",
            "leave out `simulation`; `fedkg run` simulates attacks",
        )
    if job.causes is not None:
        yield (
            "`causes` explains incidents, and the rows of incidents stay at the sites",
            "leave out `causes`; a site sees it with `fedkg eval ... --causes`",
        )
    if job.theory is not None:
        yield (
            "`theory` compares gradients of all sites at every model, which sites do not send",
            "leave out `theory`; `fedkg run` measures it where all tables may be read",
        )
    if job.model.graph is not None:
        yield (
            "`model.graph` names files that an invitation does not contain",
            "use another `model.kind`",
        )
    inferred = [one for one in pack.manifest.inferences if one.per == "run"]
    if inferred and job.data.window is not None and job.data.window.horizon:
        yield (
            f"`infer {inferred[0].name} per run` is mined in the series of all sites",
            "infer it `per client`",
        )
    for config in configs:
        section, own = algorithm_section(config.job), config.job
        if own.augment.by != "none":
            yield (
                "`augment` aligns the series of all sites on one clock",
                "leave out `augment`; jobs of `kind: causes` find causes between sites",
            )
        if own.scoring.at == "sites" and (own.data.server_table is None or own.data.set):
            yield (
                "`scoring.at: sites` shows all sites the probe, and rows of sites are not public",
                "name a public table in `data.server_table`, or set `scoring.at: server`",
            )
        if section.exchange == "data":
            yield (
                f"algorithm {config.algorithm} pools the rows of all sites (`exchange: data`)",
                "use an algorithm that exchanges models, such as `fedavg`",
            )
        if own.model.inject is not None and own.model.inject.trust == "cross_validate":
            yield (
                "`model.inject.trust: cross_validate` trains on the rows of all sites",
                "set a number from 0 to 1, or `trust: cross_validate` in the sites file of a site",
            )
        if own.model.inject is not None and own.model.inject.policy == "drop":
            yield (
                "`model.inject.policy: drop` changes numbers of rows that the server knows already",
                "set `policy: repair`",
            )
        grouping = section.grouping
        personal = section.exchange == "none" or any(
            part is not None
            for part in (
                section.agents,
                section.personal,
                section.private,
                grouping.ifca,
                grouping.fedstl,
            )
        )
        if personal and isinstance(own.evaluation.threshold, str) and not config.baseline:
            yield (
                "`evaluation.threshold: server` needs the models of single sites at the server",
                "set a number",
            )
