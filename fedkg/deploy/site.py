"""A site of a federation: it answers the server's requests with its own tables and state.

Letters: K sites.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.disclosures import PROPERTIES, SAMPLES, property_numbers
from fedkg.deploy.federation_folders import INVITATION, PACK, STATE, load_site, require_trusted_code
from fedkg.deploy.federation_job_and_pack import PACK_FIELD, JobFiles, own_settings
from fedkg.deploy.message import REQUEST, Message, read_message_file, request_digest
from fedkg.deploy.preparation_messages import (
    check_fields,
    control_parts,
    evaluation_parts,
    server_rows_of_table,
    server_samples,
    summary_of,
    summary_parts,
    table_of_server_rows,
)
from fedkg.deploy.proposed_rule_confirmation import find_accepted, find_proposed, receive_rules
from fedkg.deploy.site_training import SiteTraining
from fedkg.deploy.stated_messages import read_messages
from fedkg.deploy.transport import SiteHandler
from fedkg.errors import FederationError
from fedkg.exclusion_reasons import OTHER_VERSION, UNCONFIRMED
from fedkg.federated.temporal.client_property_mining import Inferred
from fedkg.jobs.experiment.experiment import Experiment, frames_by_site, target_of
from fedkg.jobs.experiment.labelled_table_samples import (
    SERVER_NAME,
    TablePart,
    read_table_parts,
    summarise_table,
    table_samples,
)
from fedkg.jobs.experiment.sample_preparation import (
    SamplePart,
    Samples,
    files_of_sites,
    join_samples,
    read_sample_parts,
    summarise_samples,
)
from fedkg.jobs.experiment.site_knowledge import load_site_knowledge
from fedkg.jobs.experiment.site_sample_statistics import (
    SERVER,
    UNUSED,
    SiteSummary,
    summary_of_size,
)
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.model_distance_to_sets import set_distance_row
from fedkg.jobs.model_knowledge_graphs import GraphCache
from fedkg.jobs.prediction_target import choose_output
from fedkg.jobs.schema.job import Job
from fedkg.jobs.source_data_checks import count_data_set, count_frames
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section, plan_trials
from fedkg.jobs.trial_training import deployed_models
from fedkg.limits import parse_json
from fedkg.models import Params

PREPARATION = "preparation.safetensors"
"""The server's last preparation, in the state of the site: a site process that starts again
continues without another one."""

TABLES = "tables.json"
"""Path and SHA-256 of the files that the site reads in an unfinished run."""


def open_site(folder: Path) -> SiteHandler:
    """The site of a folder that `fedkg site join` wrote; it answers one request at a time.

    Raises:
        UsageError, FederationError: the folder is not that of a site, or its invitation contains
            code that the site may not run.
        JobError, PackError: its invitation cannot be read.
    """
    site = SiteAnswers(folder)
    if not site.files.is_discovery:
        return site
    from fedkg.deploy.causes_site import CausesSite

    return CausesSite(folder)


class SiteAnswers:
    """Answers requests from the tables of a site and its private state.

    Args:
        folder: the folder of the site.
        rules: the folder with the job and the rules; None: the first invitation, until the server
            names other rules that the site has accepted.

    Attributes:
        name: the name of the site.
        sites_file: describes its tables.
        files: the job and the pack.
    """

    def __init__(self, folder: Path, rules: Path | None = None) -> None:
        self.folder = folder
        site = load_site(folder)
        self.name = site.name
        self.sites_file = folder / site.sites_file
        require_trusted_code(
            folder / INVITATION, site.trust_code, f"site {site.name}: its invitation"
        )
        self._read_rules(rules or folder / INVITATION)
        self._joined: JoinedSite | None = None
        self._read_files: Mapping[str, str] = {}
        """Of `list_files`, when the tables were read."""

    def __call__(self, request: bytes) -> bytes:
        """The answer to a request.

        Raises:
            FederationError: the request cannot be read, or does not fit this site.
            JobError, TableError: the site's tables do not fit the job.
        """
        message = Message.from_bytes(request, sender="the server")
        answers = self.answers(message)
        if message.kind not in answers:
            raise FederationError(
                f"site {self.name} received a request of an unknown kind",
                expected=", ".join(answers),
                received=message.kind,
                help="install the same version of fedkg at the server and at all sites",
            )
        try:
            answer = answers[message.kind](message)
            told = {**answer.fields, REQUEST: request_digest(request)}
            return replace(answer, fields=told).to_bytes()
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            traceback.print_exc()  # its text may quote rows: only its kind leaves the site
            raise FederationError(
                f"site {self.name} cannot read the server's request of kind {message.kind}",
                received=f"{type(error).__name__}; the output of the site process shows more",
                help="install the same version of fedkg at the server and at all sites",
            ) from error

    def answers(self, request: Message) -> dict[str, Callable[[Message], Message]]:
        """What answers each kind of request; the preparation has steps."""
        steps = {"summary": self.describe, "join": self.join, "trial": self.share}
        return {
            "describe": steps.get(str(request.fields.get("step")), self.describe),
            "train": self.train,
            "evaluate": self.evaluate,
            "rules": self.answer_about_rules,
            "note": self.acknowledge,
            "finish": self.finish,
        }

    @property
    def shares_rows(self) -> bool:
        """Whether the operator of the site agrees now that the server gets rows."""
        return load_site(self.folder).share_rows

    def list_files(self) -> dict[str, str]:
        """Path and SHA-256 of the sites file and of the tables of this site."""
        return dict(files_of_sites(str(self.sites_file), [self.name]))

    def forget_changed_tables(self) -> None:
        """Read the tables again if the operator has changed them."""
        try:
            found = self.list_files()
        except OSError:  # whoever reads the tables names the file
            found = {}
        if found != self._read_files:
            self.forget_tables()
            self._read_files = found

    def forget_tables(self) -> None:
        """Read the tables again when they are needed."""
        self._joined = None
        for name in ("job", "part", "summary"):
            self.__dict__.pop(name, None)

    @cached_property
    def job(self) -> Job:
        """The job with this site alone."""
        return self.files.site_job(self.name, self.sites_file)

    @cached_property
    def part(self) -> TablePart | SamplePart:
        """The site's samples and their uses."""
        if self.job.data.set is None:
            return read_table_parts(self.job, self.files.pack)[0][self.name]
        return read_sample_parts(self.job, self.files.pack)[self.name]

    def require_same_tables(self) -> None:
        """Raise FederationError if a table has changed since a run that is not finished began."""
        path, name = self.folder / STATE / TABLES, f"{STATE}/{TABLES}"
        if not path.exists():
            return
        now = self.list_files()
        try:
            begun = dict(parse_json(path.read_bytes(), name))
        except (ValueError, TypeError) as error:
            raise FederationError(
                f"site {self.name}: {name} is damaged, so the site cannot tell whether its tables "
                "are those with which the run started",
                received=str(error),
                help=f"restore it from a copy; or give up the run: delete the folder `{STATE}` of "
                "the site, and start a new run at the server",
            ) from error
        changed = next((file for file in begun if now.get(file) != begun[file]), None)
        if changed is not None:
            how = "has changed" if changed in now else "is not a file of this site any more"
            raise FederationError(
                f"site {self.name}: {Path(changed).name} {how} since the run started",
                help=f"restore this file; or give up the run: delete the folder `{STATE}` of the "
                "site, and start a new run at the server",
            )

    @cached_property
    def summary(self) -> SiteSummary:
        """Counts and sums of the site's samples."""
        if isinstance(self.part, TablePart):
            return summarise_table(self.job, self.files.pack, self.part)
        return summarise_samples(self.job, self.part)

    def describe(self, request: Message) -> Message:
        """The site's summary, its training settings, and the rows for the server.

        Raises:
            FederationError: the server has another job, or wants rows that the site does not share.
        """
        identity = request.fields["identity"]
        takes_part = self._use_rules(str(identity.get("pack")))
        theirs = identity if takes_part else {**identity, "pack": self._digest}
        require_equal(self.folder, self.name, self.files.identity, theirs)
        self.require_same_tables()
        self.forget_changed_tables()
        if self.summary.rows[SERVER] and not self.shares_rows:
            raise FederationError(
                f"site {self.name} does not share rows, and the job gives "
                f"{self.summary.rows[SERVER]} of its rows to the server (`data.server`)",
                help="the operator of the site can agree with `share_rows: true` in site.json; or "
                "set `data.server: 0` in the job, with a `data.server_table` if it needs rows",
            )
        return self.summary_answer()

    def summary_answer(self) -> Message:
        """The answer of `describe`."""
        fields, tensors = summary_parts(self.summary)
        if isinstance(self.part, TablePart):
            rows, values = server_rows_of_table(self.part)
        else:
            rows, values = server_samples(self.part)
        return Message(
            kind="describe",
            fields={
                "summary": fields,
                "server": rows,
                "settings": own_settings(self.job, self.name),
            },
            tensors=tensors | values,
        )

    def join(self, request: Message) -> Message:
        """Prepare the training with the summary of all sites; what the rules say about the data."""
        if not self._use_rules(str(request.fields.get(PACK_FIELD))):
            return Message(kind=request.kind, fields={"checks": []})
        found = JoinedSite(self, request)
        self.note_preparation(request)
        self._joined = found
        checks = check_fields(found.check_counts(), with_rows=self.shares_rows)
        return Message(kind=request.kind, fields={"checks": checks})

    def share(self, request: Message) -> Message:
        """Build a trial; what its algorithm lets the server know before it trains."""
        return self.joined.share(str(request.fields["trial"]), consent=self.shares_rows)

    def train(self, request: Message) -> Message:
        """The site's update of a round."""
        self._require_rules(request)
        return self.joined.trial(str(request.fields.get("trial")))[1].train(request)

    def evaluate(self, request: Message) -> Message:
        """Sums of figures and verdicts of a model on the site's test samples."""
        self._require_rules(request)
        return self.joined.evaluate(request)

    def acknowledge(self, request: Message) -> Message:
        """Answer a note of the server, which the site process shows to its operator."""
        return Message(kind=request.kind, round=request.round)

    def answer_about_rules(self, request: Message) -> Message:
        """Whether the site has received and confirmed rules; receive them if the request has them.

        Raises:
            FederationError, JobError, TableError: the rules are not those of the server, or do not
                fit the site's tables.
        """
        digest = str(request.fields["pack"])
        known = find_proposed(self.folder, digest)
        if INVITATION in request.tensors and known is None:
            archive = request.tensors[INVITATION].numpy().tobytes()
            known = receive_rules(self.folder, archive, digest, self.files.folder / PACK)
        accepted = find_accepted(self.folder, digest)
        if accepted is not None and accepted != self.files.folder:
            _ = SiteAnswers(
                self.folder, accepted
            ).summary  # do its tables have what the rules read?
        when = known.confirmed if known is not None else "when it joined"
        return Message(
            kind=request.kind,
            fields={
                "received": known is not None or accepted is not None,
                "confirmed": when if accepted is not None else "",
            },
        )

    def _read_rules(self, folder: Path) -> None:
        """The job and the rules in a folder, from now on."""
        self.files = JobFiles.read(folder)
        self._digest = self.files.identity["pack"]

    def _use_rules(self, digest: str) -> bool:
        """Use the rules of the server if the site has accepted them.

        Returns:
            Whether it takes part: a site that has received these rules and not confirmed them
            describes its data as before, so that the others can go on.
        """
        if digest == self._digest:
            return True
        accepted = find_accepted(self.folder, digest)
        if accepted is not None:
            self._read_rules(accepted)
            self.forget_tables()
            return True
        return find_proposed(self.folder, digest) is None

    def _require_rules(self, request: Message) -> None:
        """Raise FederationError if a request is about other rules than the site prepared with."""
        wanted = str(request.fields.get(PACK_FIELD))
        _ = self.joined
        if wanted == self._digest:
            return
        if find_accepted(self.folder, wanted) is None:
            raise FederationError(f"site {self.name} {UNCONFIRMED}")
        raise FederationError(
            f"site {self.name} has just confirmed the new rules and takes part again from the next "
            "round on"
        )

    def finish(self, request: Message) -> Message:
        """Note the end of the run; from now on, tables may change."""
        (self.folder / STATE / TABLES).unlink(missing_ok=True)
        self.forget_tables()
        return Message(kind=request.kind, round=request.round)

    def note_preparation(self, request: Message) -> None:
        """Keep the server's preparation, and the checksums of the tables until the run ends."""
        self._write(TABLES, json.dumps(self.list_files()).encode())
        self._write(PREPARATION, request.to_bytes())

    def read_preparation(self) -> Message:
        """The server's last preparation, for a site process that is new.

        Raises:
            FederationError: there is none, a table has changed since, or this process has another
                version of fedkg: its updates could differ from those of the others.
        """
        path = self.folder / STATE / PREPARATION
        if not path.exists():
            raise FederationError(
                f"site {self.name} has not joined the training",
                help="start the server again: it joins all sites before it trains",
            )
        self.require_same_tables()
        request = read_message_file(
            path, help="start the server again: it prepares all sites before it trains"
        )
        own = {"fedkg": self.files.identity["fedkg"]}
        require_equal(self.folder, self.name, own, request.fields.get("identity", {}))
        return request

    def _write(self, name: str, content: bytes) -> None:
        """Replace a file of the site's state as a whole."""
        path = self.folder / STATE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)

    @property
    def joined(self) -> JoinedSite:
        """The prepared training, read from the state of the site if its process is new."""
        if self._joined is None:
            request = self.read_preparation()
            self._use_rules(str(request.fields.get(PACK_FIELD)))
            self._joined = JoinedSite(self, request)
        return self._joined


class JoinedSite:
    """The trials of a site, prepared with the summary of all sites.

    Args:
        site: the site.
        request: the server's request of kind ``describe`` with the summary of all sites.
    """

    def __init__(self, site: SiteAnswers, request: Message) -> None:
        self._site = site
        settings: Mapping[str, Mapping[str, Any]] = request.fields["sites"]
        own, told = own_settings(site.job, site.name), dict(settings.get(site.name, {}))
        if site.name not in settings or told != own:
            # With a batch of one row, for example, an update would reveal the row.
            raise FederationError(
                f"the training settings of site {site.name} differ between the server and the site",
                expected=_format_settings(own),
                received=_format_settings(told)
                if site.name in settings
                else "a request that does not name this site",
                help="if you have changed the settings in the sites file, start the server again; "
                "otherwise do not take part, and ask the operator of the server",
            )
        self._place = list(settings).index(site.name)
        self.job = site.files.joint_job(settings)
        summary = summary_of(request.fields["summary"], request.tensors)
        probe = None
        if "probe" in request.fields:
            probe = table_of_server_rows(request.fields["probe"], request.tensors)
        self._samples = self._prepare(summary, request.fields["training"], probe)
        pack = site.files.pack
        output = choose_output(self.job, pack)
        target = target_of(self._samples, pack, output)
        own_knowledge = load_site_knowledge(site.job, self._samples.source, target)
        if own_knowledge and self.job.injection is None:
            raise FederationError(
                f"site {site.name} has knowledge, and the job of the federation injects none",
                help="ask the operator of the server for `model: {inject: true}`; or remove "
                "`knowledge` and `trust` from the settings in the sites file",
            )
        self._experiment = SiteExperiment(
            job=self.job,
            pack=pack,
            samples=self._samples,
            output=output,
            site_knowledge=own_knowledge,
            _graphs=GraphCache(pack),
        )
        self._configs = {config.id: config for config in plan_trials(self.job)}
        self._experiment.prepare(list(self._configs.values()))
        self._trials: dict[str, tuple[Trial, SiteTraining]] = {}

    def _prepare(
        self, summary: SiteSummary, training: Mapping[str, int], probe: TablePart | None
    ) -> Samples:
        """The site's own samples; of other sites only their numbers, of the server its public rows
        if sites score their models on them.
        """
        site, pack = self._site, self._site.files.pack
        use = np.where(site.part.use == SERVER, UNUSED, site.part.use).astype(np.int8)
        if isinstance(site.part, TablePart):
            tables = {site.name: replace(site.part, use=use)}
            if probe is not None:
                tables[SERVER_NAME] = probe
            samples = table_samples(self.job, pack, tables, summary)
        else:
            parts = {site.name: replace(site.part, use=use)}
            samples = join_samples(self.job, pack, parts, summary)
        sites = {name: summary_of_size(summary, rows) for name, rows in training.items()}
        return replace(samples, sites=sites, complete=False)

    def check_counts(self) -> Any:
        """Counts of the rules over inputs alone on all rows of the site's tables."""
        pack, frame = self._site.files.pack, self._samples.frame
        if frame is not None:
            return count_frames(pack, frames_by_site(frame, [self._site.name]))
        return count_data_set(pack, self._samples.uncut_rows, self._site.job)

    def trial(self, name: str) -> tuple[Trial, SiteTraining]:
        """The trial of this name, built once. Raises FederationError if the job has none."""
        if name not in self._trials:
            trial = self.build_trial(name)
            folder = self._site.folder / STATE / name
            stated = None
            if algorithm_section(trial.config.job).path is not None:
                stated = read_messages(self._site.folder / INVITATION).get(name, ())
            training = SiteTraining(deployed_models(trial).work, folder=folder, stated=stated)
            self._trials[name] = trial, training
        return self._trials[name]

    def build_trial(self, name: str) -> Trial:
        """Build the trial of this name. Raises FederationError if the job has none."""
        return self._experiment.build_trial(self._config(name))

    def _config(self, name: str) -> TrialConfig:
        if name not in self._configs:
            raise FederationError(
                f"site {self._site.name} received a request for a trial that is not in its job",
                expected=", ".join(self._configs),
                received=name,
                help="the server and the site need the same job and version of fedkg",
            )
        return self._configs[name]

    def share(self, name: str, *, consent: bool) -> Message:
        """See `SiteAnswers.share`. Raises FederationError without the consent to share samples."""
        return self.share_answer(self.trial(name)[0], consent=consent)

    def share_answer(self, trial: Trial, *, consent: bool) -> Message:
        """The answer of `share`."""
        excluded = () if self.job.privacy is not None else trial.excluded
        fields: dict[str, Any] = {"excluded": list(excluded[self._place : self._place + 1])}
        tensors: dict[str, Tensor] = {}
        section, found = algorithm_section(trial.config.job), trial.inferred
        if section.excluded_by == "properties":
            assert found is not None, "the exclusion mines properties"
            tensors[PROPERTIES] = property_numbers(found.own, self._place)
        if section.grouping.fedstl is not None:
            assert found is not None, "FedSTL mines properties"
            if not consent:
                raise FederationError(
                    f"site {self._site.name} does not share rows, and FedSTL shares "
                    f"{found.shared.samples[self._place]} of its samples with the server",
                    help="the operator of the site can agree with `share_rows: true` in site.json",
                )
            fields["left_out"] = found.own.count_left_out([self._place])
            shared = found.shared
            tensors[SAMPLES + "x"] = shared.x[self._place]
            tensors[SAMPLES + "y"] = shared.y[self._place]
        return Message(kind="describe", fields=fields, tensors=tensors)

    def evaluate(self, request: Message) -> Message:
        """See `SiteAnswers.evaluate`."""
        what = request.fields["what"]
        if what == "control":
            config = self._config(str(request.fields["trial"]))
            [found] = self._experiment.control_sums(config, [self._place])
            fields, tensors = control_parts(found)
            return Message(kind=request.kind, fields=fields, tensors=tensors)
        trial, training = self.trial(str(request.fields["trial"]))
        stacked = training.deployed_model(request)
        params: Params = {name: value[0].clone() for name, value in stacked.items()}
        threshold = float(request.fields["threshold"])
        if what == "figures":
            sums = trial.evaluate(params, [self._place], threshold).sums
            return Message(kind=request.kind, round=request.round, tensors={"figures": sums})
        whole = None
        if trial.inferred is not None:
            received = training.received_model(request)
            received |= {
                name.removeprefix("whole/"): value
                for name, value in request.tensors.items()
                if name.startswith("whole/")
            }
            whole = {name: received[name] for name in params}
        return replace(self.evaluation_answer(trial, params, whole, threshold), round=request.round)

    def evaluation_answer(
        self, trial: Trial, params: Params, received: Params | None, threshold: float
    ) -> Message:
        """The answer of `evaluate` after the last round.

        Args:
            params: the model that the site uses.
            received: the server's model for the site; None without properties of forecasts.
        """
        fields, tensors = evaluation_parts(
            trial.evaluate(params, [self._place], threshold), with_rows=self._site.shares_rows
        )
        fields["sets"] = set_distance_row(
            trial.config.id, self._site.name, self._place, params, trial.sets
        )
        if received is not None:
            scores = trial.judge_forecasts(self._place, params, received)
            if scores is not None:
                tensors["forecasts"] = torch.tensor(list(scores.values()), dtype=torch.float64)
        return Message(kind="evaluate", fields=fields, tensors=tensors)


@dataclass(slots=True, kw_only=True, eq=False)
class SiteExperiment(Experiment):
    """An experiment with the samples of one site."""

    @override
    def note_properties(self, config: TrialConfig, found: Inferred | None) -> tuple[str, ...]:
        """See `Experiment.note_properties`; the server writes the notes."""
        return ()

    @override
    def count_excluded_labels(
        self, config: TrialConfig, excluded: Sequence[int]
    ) -> tuple[int, ...]:
        """See `Experiment.count_excluded_labels`; the server asks for the counts."""
        return ()


def _format_settings(settings: Mapping[str, Any]) -> str:
    """The settings of a site in words. `Any`: numbers, or what a server sent in their place."""
    text = ", ".join(f"{name} {value}" for name, value in settings.items())
    return text[:200] or "no settings of this site alone"


IDENTITY = {
    "fedkg": OTHER_VERSION,
    "pack": "differ in their rules (SHA-256 of the pack)",
    "job": "differ in their job (SHA-256 of its fields)",
    "code": "differ in their Python files of the job (SHA-256)",
}
"""What server and sites must have in common: how an error says that they do not."""


def require_equal(
    folder: Path, site: str, own: Mapping[str, str], theirs: Mapping[str, str]
) -> None:
    """Raise FederationError if the server has another version, pack or job."""
    for what, value in own.items():
        if theirs.get(what) != value:
            raise FederationError(
                f"site {site} and the server {IDENTITY[what]}",
                expected=str(theirs.get(what, "nothing")),
                received=value,
                help="install the same version of fedkg"
                if what == "fedkg"
                else f"ask the operator of the server for a new invitation, move {folder} away, "
                "and join with the invitation",
            )
