"""The server of a federation: it trains a job over sites that keep their tables.

Letters: K sites.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.constraints.binding.layout import InputLayout
from fedkg.constraints.engine.skeleton_properties import reads_output
from fedkg.deploy.causes_server import run_discovery
from fedkg.deploy.disclosures import PROPERTIES, SAMPLES, START
from fedkg.deploy.federation_folders import FEDERATION, PACK, RUN
from fedkg.deploy.federation_job_and_pack import PACK_FIELD, JobFiles, sites_score
from fedkg.deploy.kept_descriptions import DESCRIPTIONS, forget_run, keep_answer, read_kept
from fedkg.deploy.message import Message
from fedkg.deploy.preparation_messages import (
    Found,
    control_of,
    counts_of,
    evaluation_of,
    read_answer,
    require_equal_shapes,
    samples_of_server,
    server_rows_of_table,
    summary_of,
    summary_parts,
    sums_of,
    table_of_server_rows,
)
from fedkg.deploy.quorum_and_deadline_transport import (
    NO_START_REPLY,
    ContractTransport,
    RoundContract,
    apply_contract,
    wait_for_sites,
)
from fedkg.deploy.remote_sites import RemoteSites
from fedkg.deploy.rule_change import (
    Confirmations,
    adopt,
    complete,
    finish_adoption,
    load_change,
    new_files,
    withdraw,
)
from fedkg.deploy.transport import Reply, Transport
from fedkg.errors import FederationError, JobError, Stopped, UsageError, join_lines
from fedkg.exclusion_reasons import NOT_NEEDED, explain_exclusion
from fedkg.federated import Clients, RoundRecord, ServerState, initial_state
from fedkg.federated.temporal.client_property_mining import Inferred, of_shared
from fedkg.federated.temporal.forecast_scores import Scores, merge_scores
from fedkg.federated.temporal.properties import Properties, unknown_properties
from fedkg.jobs.causes.run import CausesRun
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.events import Event, Listener, ignore_event
from fedkg.jobs.experiment.experiment import Experiment
from fedkg.jobs.experiment.injected_knowledge_metrics import COUNTS
from fedkg.jobs.experiment.labelled_table_samples import (
    SERVER_NAME,
    TablePart,
    merge_tables,
    read_server_part,
    table_samples,
)
from fedkg.jobs.experiment.sample_preparation import Samples, join_samples
from fedkg.jobs.experiment.site_sample_statistics import TRAIN, SiteSummary, merge_summaries
from fedkg.jobs.experiment.task_metrics import figure_count, figures_of
from fedkg.jobs.experiment.trial import Evaluation, Trial
from fedkg.jobs.folder import PACK as RUN_PACK
from fedkg.jobs.folder import Row, RunFolder
from fedkg.jobs.model_knowledge_graphs import GraphCache
from fedkg.jobs.prediction_target import choose_output
from fedkg.jobs.rules_only_baseline import ControlSums
from fedkg.jobs.runner import RulesChange, Run, resume, start_run
from fedkg.jobs.schema.job import Job
from fedkg.jobs.source_data_checks import TableCounts, check_rows
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section, plan_trials
from fedkg.jobs.trial_training import deployed_models
from fedkg.limits import parse_json
from fedkg.models import Params
from fedkg.pack import Pack

NOTE_S = 1.0
"""Seconds in which a site can receive a note of the server."""

_START_AGAIN = (
    "correct the cause at the site, and start the server again: a run that has begun continues "
    "after its last round"
)


def run_folder(folder: Path, without: Collection[str] = ()) -> RunFolder:
    """The run of a server; a training without some sites is another run."""
    return RunFolder(folder / "-".join((RUN, *(("without", *sorted(without)) if without else ()))))


def run_server(
    folder: Path,
    transport: Transport,
    *,
    on_event: Listener = ignore_event,
    report: bool = True,
    without: Collection[str] = (),
    wait: float | None = None,
) -> Run | CausesRun:
    """Train the job of a federation over its sites, or discover causes between them.

    The server opens no table of a site. The run folder has the content that `fedkg run` writes for
    the same job and tables. An existing run continues from its last round; with a quorum, also
    without sites that have described their data before.

    Args:
        folder: the folder of the server, see `fedkg federation init`.
        transport: reaches the sites.
        on_event: receives progress events.
        report: whether to write `report.html`.
        without: sites that do not take part, as if the federation never had them. The run is then
            another one, see `run_folder`.
        wait: how long to wait for all sites to be present, in seconds; None: as the job says.

    Raises:
        UsageError: the federation does not have these sites, or no others.
        FederationError: a site does not answer, or fails; the message names it and its error.
        JobError: the job cannot run over sites that keep their rows; the message names the field.
        Stopped, TooFewClients: see `fedkg.jobs.run_job`.
    """
    finish_adoption(folder)
    files = JobFiles.read(folder)
    names, contract = read_site_names(folder, files, without), files.contract()
    run = run_folder(folder, without)
    again = f" --without {','.join(sorted(without))}" if without else ""
    command = f"fedkg server run {folder}{again}"

    def note(message: str) -> None:
        on_event(Event(kind="note", message=message, folder=run.path if run.exists() else None))

    dispensable = list_dispensable(folder, run, files, names)
    wait_for_sites(contract, transport, names, dispensable, wait)
    sites = AskedSites(
        transport=transport,
        names=names,
        contract=contract,
        dispensable=dispensable,
        kept=None if contract.quorum == "all" else descriptions_of(folder, run),
        on_note=note,
    )
    if files.is_discovery:
        discovered = run_discovery(run.path, files, sites, command=command)
        _finish(sites)
        return discovered
    changes = Confirmations(
        folder=folder,
        transport=transport,
        names=names,
        needed=contract.needed(len(names)),
        on_note=note,
    )
    while True:
        known = list_dispensable(folder, run, JobFiles.read(folder), names)
        sites = replace(sites, dispensable=known)
        prepared = prepare_training(folder, run, sites, changes)
        configs = plan_trials(prepared.job)
        experiment = prepared.open(prepared.job, prepared.files.pack)
        if sites.kept is not None:  # a site may be gone when a later training begins
            for config in _list_unfinished(run, configs):
                experiment.shared(config)
        try:
            if run.exists():
                # `federation init` has asked for the consent to run code.
                found = resume(
                    run.path,
                    on_event=on_event,
                    report=report,
                    create=prepared.open,
                    trust_code=True,
                )
            else:
                experiment.prepare(configs)
                found = start_run(
                    run, prepared.job, experiment, configs, on_event=on_event, report=report
                )
        except RulesChange:
            continue
        except Stopped as error:
            raise Stopped(error.message, help=command) from error
        _finish(sites)
        return found


def _finish(sites: AskedSites) -> None:
    """Tell the sites that the run is complete; a site that is gone keeps its notes."""
    with suppress(FederationError):
        sites.ask_all({name: Message(kind="finish") for name in sites.names})
    if sites.kept is not None:  # last: a server that is stopped above starts again without them
        forget_run(sites.kept)


def descriptions_of(folder: Path, run: RunFolder) -> Path:
    """Where a server keeps what sites answered before the first round of a run."""
    return folder / DESCRIPTIONS / run.path.name


def list_dispensable(
    folder: Path, run: RunFolder, files: JobFiles, names: Sequence[str]
) -> frozenset[str]:
    """The sites without which a run can continue: with a quorum, those whose descriptions the
    server has kept.
    """
    if files.contract().quorum == "all" or not run.exists():
        return frozenset()
    request = _summary_request(files.identity)
    return frozenset(read_kept(descriptions_of(folder, run), dict.fromkeys(names, request)))


def _summary_request(identity: Mapping[str, str]) -> Message:
    """The first request to a site."""
    fields = {PACK_FIELD: identity["pack"], "identity": dict(identity), "step": "summary"}
    return Message(kind="describe", fields=fields)


def _list_unfinished(run: RunFolder, configs: Sequence[TrialConfig]) -> list[TrialConfig]:
    """The trainings of a run that are not done; all before it."""
    if not run.exists():
        return list(configs)
    run = RunFolder(run.path)  # what the last training logged
    run.recover()
    records = run.records([config.id for config in configs])
    return [config for config in configs if not records[config.id]["done"]]


def prepare_training(
    folder: Path, run: RunFolder, sites: AskedSites, changes: Confirmations
) -> PreparedSites:
    """Prepare the sites for the next rounds: with new rules if enough sites have confirmed them,
    which is then recorded in the run.

    Args:
        folder: the folder of the server.
        run: its run, which may not exist yet.
        sites: reaches the sites.
        changes: asks sites whether they have confirmed.

    Raises:
        FederationError, JobError: see `run_server`.
    """
    run = RunFolder(run.path)  # what the last training logged
    due, change = changes.is_due(), load_change(folder)
    files = None
    # another change may have been proposed since `is_due`
    if due and change is not None and not change.adopted and changes.has_enough(change):
        files, number = new_files(folder, change), 1
    if files is not None and change is not None:
        config: TrialConfig | None = None
        try:
            prepared = replace(describe_sites(files, sites), changes=changes)
            if run.exists():
                config, number = find_next_round(run, prepared)
        except JobError as error:
            withdraw(folder, change)
            changes.on_note(f"the rules stay as they are: {error}")
        except FederationError as error:
            changes.postpone(change, error)
        else:
            if run.exists() and config is None:
                withdraw(folder, change)
                changes.on_note("the rules stay as they are: the run is finished")
            else:
                trial = "" if config is None else config.id
                if adopt(folder, run, change, trial=trial, number=number):
                    if run.exists():
                        run.rewrite("checks.csv", check_rows(files.pack, prepared.checks))
                    changes.on_note(
                        f"the new rules are used from round {number} on, confirmed by "
                        f"{', '.join(change.confirmed)}"
                    )
                    changes.prepared = frozenset(change.confirmed)
                    complete(folder, sites.names)
                    return replace(prepared, files=JobFiles.read(folder))
                changes.on_note("the rules stay as they are: the operator withdrew the new ones")
    prepared = describe_sites(JobFiles.read(folder), sites)
    if change is not None and change.adopted:
        if run.exists() and run.read_bytes(RUN_PACK) == (folder / PACK).read_bytes():
            # the server may have been killed after it used the rules
            run.rewrite("checks.csv", check_rows(prepared.files.pack, prepared.checks))
        changes.prepared = frozenset(change.confirmed)
        complete(folder, sites.names)
    return replace(prepared, changes=changes)


def find_next_round(run: RunFolder, prepared: PreparedSites) -> tuple[TrialConfig | None, int]:
    """The training that a run goes on with, and its next round, in a training with new rules.

    Returns:
        None and 0 if all trainings are done.

    Raises:
        JobError: the models of the run do not fit the new rules, or the run is damaged.
    """
    configs = plan_trials(prepared.job)
    config = next(iter(_list_unfinished(run, configs)), None)
    if config is None:
        return None, 0
    saved = load_state(run, config.id)
    if saved is None:
        return config, 1
    experiment = prepared.open(prepared.job, prepared.files.pack)
    experiment.prepare(configs)
    trial = experiment.build_trial(config)
    fresh = initial_state(trial.problem, trial.algorithm, trial.settings)
    shapes = [{name: list(one.shape) for name, one in state.models.items()} for state in
              (saved, fresh)]  # fmt: skip
    if shapes[0] != shapes[1]:
        names = sorted(shapes[0].keys() | shapes[1].keys())
        name = next(one for one in names if shapes[0].get(one) != shapes[1].get(one))
        known, new = (
            f"`{name}` of shape {one[name]}" if name in one else f"no parameter `{name}`"
            for one in shapes
        )
        raise JobError(
            "the new rules change the parameters of the model",
            expected=known,
            received=new,
            help="create a new federation with these rules: fedkg federation init JOB -o "
            "FEDERATION",
        )
    return config, saved.round + 1


def read_site_names(
    folder: Path, files: JobFiles, without: Collection[str] = ()
) -> tuple[str, ...]:
    """The names of the sites in the order of the job, or else of `federation.json`.

    Args:
        folder: the folder of the server.
        files: its job.
        without: sites that do not take part.

    Raises:
        UsageError: the federation does not have the sites of `without`, or no others.
        FederationError: the file is missing or names no site, or the job lists other sites.
    """
    path = folder / FEDERATION
    try:
        found = parse_json(path.read_bytes(), str(path))
        known = tuple(str(name) for name in found["sites"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FederationError(
            f"{path} does not list the sites of a federation",
            expected='{"name": ..., "address": ..., "sites": {NAME: KEY, ...}}',
            received=f"no field {error}" if isinstance(error, KeyError) else str(error),
            help="restore it from a copy, or create the federation again: fedkg federation init "
            "JOB.yaml -o FEDERATION --sites NAME,NAME",
        ) from error
    names = tuple(files.listed_sites()) or known
    missing = [name for name in names if name not in known]
    if missing or not names:
        raise FederationError(
            f"{path} does not list the sites of the job",
            expected=", ".join(names) or "at least one site",
            received=", ".join(known) or "none",
            help="create the federation again: fedkg federation init JOB.yaml -o FEDERATION",
        )
    unknown = [name for name in without if name not in names]
    left = tuple(name for name in names if name not in without)
    if unknown or not left:
        raise UsageError(
            "--without must name sites of the federation, and leave at least one",
            expected=f"some of {', '.join(names)}",
            received=", ".join(without),
        )
    return left


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AskedSites:
    """Sites that must all answer.

    Attributes:
        transport: reaches the sites.
        names: of the sites, in order.
        contract: how long to wait for their answers.
        pack: the digest of the rules, which every request names; None before they are known.
        kept: the folder with their answers before the first round; None: they are not kept.
        dispensable: sites whose kept answers count if they do not answer again.
        on_note: receives which sites these are.
    """

    transport: Transport
    names: tuple[str, ...]
    contract: RoundContract
    pack: str | None = None
    kept: Path | None = None
    dispensable: frozenset[str] = frozenset()
    on_note: Callable[[str], None]

    def read_all(
        self, requests: Mapping[str, Message], read: Callable[[Message], Found]
    ) -> list[Found]:
        """What `read` makes of the answers of all sites, in the order of the sites.

        Raises:
            FederationError: as `ask_all`; or an answer does not have the expected form.
        """
        answers = self.ask_all(requests)
        return [
            read_answer(name, answer, read)
            for name, answer in zip(self.names, answers, strict=True)
        ]

    def read_needed(
        self, requests: Mapping[str, Message], read: Callable[[Message], Found]
    ) -> dict[str, Found]:
        """What `read` makes of the answers by site, in the order of the sites: of all if every
        round needs all of them, otherwise of those that answer in the expected form.

        Raises:
            FederationError: a site that is needed, or each site, gives no such answer.
        """
        if self.contract.quorum == "all":
            return dict(zip(self.names, self.read_all(requests, read), strict=True))
        replies, found, errors = self._exchange(requests), {}, {}
        for name in self.names:
            message = replies[name].message
            if message is None:
                errors[name] = replies[name].error
                continue
            try:
                found[name] = read_answer(name, message, read)
            except FederationError as error:
                errors[name] = str(error)
                self.on_note(f"figures are without {name}: {join_lines(str(error))}")
        if not found:
            name = self.names[0]
            raise FederationError(
                "no site answers", received=f"site {name}: {errors[name]}", help=_START_AGAIN
            )
        return found

    def ask_all(self, requests: Mapping[str, Message]) -> list[Message]:
        """The answers of all sites, in the order of the sites.

        Raises:
            FederationError: a site fails or does not answer in time; the message names it. A
                failure ends the wait for the others, so it comes before sites without a reply.
        """
        found = self._exchange(requests)
        failed = [found[name] for name in self.names if found[name].message is None]
        if failed:
            # The failure of one site ends the wait for the others.
            first = min(failed, key=lambda reply: NO_START_REPLY in reply.error)
            named = first.error.startswith(f"site {first.site} ")
            raise FederationError(
                first.error if named else f"site {first.site}: {first.error}", help=_START_AGAIN
            )
        return [message for name in self.names if (message := found[name].message) is not None]

    def tell_excluded(self, record: RoundRecord) -> None:
        """Tell sites that are present why a round did not use their update; without an answer in
        time, they do not learn it. With late updates nothing is sent: one could arrive meanwhile.
        """
        if self.contract.late == "weight":
            return
        notes = {
            site: Message(kind="note", round=record.round, fields={"excluded": why})
            for site, why in record.excluded.items()
            if why != NOT_NEEDED
        }
        notes = {site: notes[site] for site in self.transport.present() if site in notes}
        if notes:
            for _ in self.transport.exchange(notes, seconds=NOTE_S):
                pass

    def _exchange(self, requests: Mapping[str, Message]) -> dict[str, Reply]:
        """The reply of every site."""
        about = {} if self.pack is None else {PACK_FIELD: self.pack}
        requests = {
            name: replace(request, fields={**about, **request.fields})
            for name, request in requests.items()
        }
        described = next(iter(requests.values())).kind == "describe"
        kept: dict[str, Message] = {}
        if self.kept is not None and described:
            may_lack = {name: one for name, one in requests.items() if name in self.dispensable}
            kept = read_kept(self.kept, may_lack)
        dispensable = set(kept)
        if self.contract.quorum != "all" and not described:  # the end of a run awaits no lost site
            dispensable |= requests.keys() - set(self.transport.present())
        transport = ContractTransport(
            transport=self.transport,
            contract=self.contract,
            participants=len(self.names),
            preference=lambda number: self.names,
            dispensable=frozenset(dispensable),
        )
        found = {}
        for reply in transport.exchange(requests, seconds=math.inf):  # the contract limits it
            name, request = reply.site, requests[reply.site]
            is_silent = NO_START_REPLY in reply.error or explain_exclusion(reply.error).absent
            if reply.message is None and is_silent and name in kept:
                if request.fields["step"] == "summary":  # the first one
                    why = "no answer" if NO_START_REPLY in reply.error else reply.error
                    self.on_note(f"the run continues without {name} until it is back: {why}")
                reply = replace(reply, message=kept[name])
            elif reply.message is not None and self.kept is not None and described:
                keep_answer(self.kept, name, request, reply.message)
            found[name] = reply
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedSites:
    """The sites of a federation after they described their data.

    Attributes:
        files: the job and the pack.
        sites: reaches the sites.
        job: the job over all sites.
        samples: the rows that sites gave to the server, and the summaries of the sites.
        checks: counts of rules over inputs alone on the tables of all sites.
        changes: asks sites about new rules; None: the rules stay as they are.
        shared: what each site lets the server know of a training, by its id, if it was asked.
    """

    files: JobFiles
    sites: AskedSites
    job: Job
    samples: Samples
    checks: Mapping[str, TableCounts] | None
    changes: Confirmations | None = None
    shared: dict[str, list[Message]] = field(default_factory=dict)

    def open(self, job: Job, pack: Pack) -> RemoteExperiment:
        """The experiment of a job over these sites."""
        return RemoteExperiment(
            job=job,
            pack=pack,
            samples=self.samples,
            output=choose_output(job, pack),
            _graphs=GraphCache(pack),
            asked=self.sites,
            checked=self.checks,
            changes=self.changes,
            _shared=self.shared,
        )


def describe_sites(files: JobFiles, sites: AskedSites) -> PreparedSites:
    """Ask all sites for their summaries, and prepare them with the summary of all.

    Raises:
        FederationError: a site does not answer, or fails.
        JobError: the job cannot run over these sites.
    """
    identity = files.identity
    sites = replace(sites, pack=identity["pack"])
    first = _summary_request(identity)
    replies = dict(zip(sites.names, sites.ask_all(dict.fromkeys(sites.names, first)), strict=True))
    settings = {
        name: read_answer(name, reply, lambda one: dict(one.fields["settings"]))
        for name, reply in replies.items()
    }
    job = files.joint_job(settings)
    summaries = {
        name: read_answer(name, reply, lambda one: summary_of(one.fields["summary"], one.tensors))
        for name, reply in replies.items()
    }
    require_equal_shapes(summaries)
    own = read_server_part(job, files.pack) if job.data.set is None else None
    summary = (
        merge_tables(job, files.pack, list(summaries.values()), own)
        if job.data.set is None
        else merge_summaries(list(summaries.values()))
    )
    samples = _server_samples(job, files.pack, replies, summary, own)
    known, tensors = summary_parts(summary)
    training = {name: one.rows[TRAIN] for name, one in summaries.items()}
    asked: dict[str, Any] = {
        "identity": identity,  # of the version that a site process must have when it starts again
        "sites": settings,
        "summary": known,
        "training": training,
    }
    if own is not None and sites_score(plan_trials(job)):
        asked["probe"], rows = server_rows_of_table(own)
        tensors |= rows
    request = Message(kind="describe", fields={"step": "join", **asked}, tensors=tensors)
    checks = sites.read_all(
        dict.fromkeys(sites.names, request), lambda one: counts_of(one.fields["checks"])
    )
    return PreparedSites(
        files=files,
        sites=sites,
        job=job,
        samples=replace(samples, sites=summaries, complete=False),
        checks=_merge_counts(checks),
    )


def _server_samples(
    job: Job,
    pack: Pack,
    replies: Mapping[str, Message],
    summary: SiteSummary,
    own: TablePart | None,
) -> Samples:
    """The samples of the server: its own table, or the rows that the job gives to it."""
    if job.data.set is None:
        tables = {
            name: read_answer(
                name, reply, lambda one: table_of_server_rows(one.fields["server"], one.tensors)
            )
            for name, reply in replies.items()
        }
        if own is not None:
            tables = {SERVER_NAME: own}
        return table_samples(job, pack, tables, summary)
    parts = {
        name: read_answer(
            name, reply, lambda one: samples_of_server(one.fields["server"], one.tensors)
        )
        for name, reply in replies.items()
    }
    return join_samples(job, pack, parts, summary)


def _merge_counts(
    each: Sequence[Mapping[str, TableCounts] | None],
) -> Mapping[str, TableCounts] | None:
    """The counts of all sites, merged in the order of the sites."""
    found: dict[str, TableCounts] = {}
    for counts in each:
        if counts is None:
            return None
        for name, own in counts.items():
            found.setdefault(name, TableCounts()).add(own)
    return found


@dataclass(slots=True, kw_only=True, eq=False)
class RemoteExperiment(Experiment):
    """An experiment over sites that keep their data.

    Attributes:
        asked: reaches the sites.
        checked: counts of rules over inputs alone on the tables of all sites.
        changes: asks sites about new rules; None: the rules stay as they are.
    """

    asked: AskedSites
    checked: Mapping[str, TableCounts] | None
    changes: Confirmations | None = None
    _shared: dict[str, list[Message]]

    def shared(self, config: TrialConfig) -> list[Message]:
        """What each site lets the server know of a trial before it trains."""
        if config.id not in self._shared:
            request = Message(kind="describe", fields={"step": "trial", "trial": config.id})
            replies = self.asked.ask_all(dict.fromkeys(self.asked.names, request))
            self._shared[config.id] = replies
        return self._shared[config.id]

    @override
    def end_round(self, record: RoundRecord) -> bool:
        """See `Experiment.end_round`: tell sites why their update was not used, and ask whether
        they have confirmed new rules.
        """
        self.asked.tell_excluded(record)
        return self.changes is not None and self.changes.is_due()

    def _read_shared(self, config: TrialConfig, read: Callable[[Message], Found]) -> list[Found]:
        return [
            read_answer(name, reply, read)
            for name, reply in zip(self.asked.names, self.shared(config), strict=True)
        ]

    @override
    def count_excluded_labels(
        self, config: TrialConfig, excluded: Sequence[int]
    ) -> tuple[int, ...]:
        """See `Experiment.count_excluded_labels`."""
        counts = self._read_shared(config, lambda one: [int(n) for n in one.fields["excluded"]])
        return tuple(own[0] if own else 0 for own in counts)

    @override
    def infer(
        self, config: TrialConfig, clients: Clients, layout: InputLayout, share: float
    ) -> Inferred:
        """See `Experiment.infer`: the samples that sites share and the properties of these, and the
        properties of all samples if the server compares them.
        """
        steps = 0 if self.job.data.window is None else self.job.data.window.horizon
        replies = self.shared(config)
        unknown = unknown_properties(self.pack, layout, steps, len(replies))
        own = None
        if algorithm_section(config.job).excluded_by == "properties":
            told = self._read_shared(config, lambda reply: _property_values(reply, unknown))
            values = tuple(torch.stack(values) for values in zip(*told, strict=True))
            own = replace(unknown, values=values)
        if not all(SAMPLES + "x" in reply.tensors for reply in replies):
            return Inferred(own=own or unknown, shared=clients, sample=unknown)
        shared = Clients(
            names=clients.names,
            x=tuple(reply.tensors[SAMPLES + "x"] for reply in replies),
            y=tuple(reply.tensors[SAMPLES + "y"] for reply in replies),
        )
        found = of_shared(self.pack, shared, layout, steps=steps)
        return found if own is None else replace(found, own=own)

    @override
    def note_properties(self, config: TrialConfig, found: Inferred | None) -> tuple[str, ...]:
        """See `Experiment.note_properties`."""
        if found is None:
            return ()
        counts = self._read_shared(config, lambda one: [int(n) for n in one.fields["left_out"]])
        return found.own.format_left_out([sum(own) for own in zip(*counts, strict=True)])

    @override
    def check_counts(self, config: TrialConfig) -> Mapping[str, TableCounts] | None:
        """See `Experiment.check_counts`."""
        return self.checked

    @override
    def incidents(self, config: TrialConfig, checks: Sequence[Row]) -> None:
        """None: the measured values stay at the sites."""

    @override
    def prediction_incidents(
        self, config: TrialConfig, state: ServerState, trial: Trial | None
    ) -> None:
        """None: the predictions stay at the sites."""

    @override
    def control_sums(
        self, config: TrialConfig, sites: Sequence[int] | None = None
    ) -> list[ControlSums]:
        """See `Experiment.control_sums`."""
        assert sites is None, "the server asks all sites"
        request = Message(kind="evaluate", fields={"what": "control", "trial": config.id})
        task = self.samples.summary.task
        found = self.asked.read_needed(
            dict.fromkeys(self.asked.names, request),
            lambda one: control_of(one.fields, one.tensors, task),
        )
        return list(found.values())

    @override
    def build_trial(self, config: TrialConfig) -> Trial:
        """See `Experiment.build_trial`."""
        trial = Experiment.build_trial(self, config)
        known = {one.name: getattr(trial, one.name) for one in fields(trial)}
        remote, known["algorithm"], known["settings"] = apply_contract(
            config.job.federation,
            self.asked.transport,
            trial.problem.clients.names,
            trial.algorithm,
            trial.settings,
        )
        transport = TrialTransport(
            transport=remote.transport, trial=config.id, pack=self.asked.pack
        )
        known["remote"] = replace(remote, transport=transport)
        return RemoteTrial(**known, asked=self.asked)


def _property_values(answer: Message, expected: Properties) -> tuple[Tensor, ...]:
    """What a site mined: float64 [P] for each inference."""
    numbers = answer.tensors[PROPERTIES].double()
    if numbers.shape != (expected.parameters,):
        raise ValueError(f"numbers {list(numbers.shape)} instead of [{expected.parameters}]")
    return torch.split(numbers, [len(one.parameters) for one in expected.inferences])


def _forecast_numbers(tensors: Mapping[str, Tensor]) -> list[list[float]]:
    """Figures [4, 3] of forecasts by kind of model."""
    numbers = tensors["forecasts"]
    if numbers.shape != (4, 3):
        raise ValueError(f"figures of forecasts {list(numbers.shape)} instead of [4, 3]")
    found: list[list[float]] = numbers.tolist()
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RemoteTrial(Trial):
    """A training over sites that keep their data.

    Attributes:
        asked: reaches the sites.
    """

    asked: AskedSites

    @override
    def figures(
        self, models: Sequence[Params], state: ServerState | None = None
    ) -> dict[str, float]:
        """See `Trial.figures`."""
        assert state is not None, "sites find their models in the state"
        # Sums without a missing site are not the figures of all: they are not evaluated. The last
        # round has figures of the sites that are left, which `sites.csv` names.
        needs_all = self.config.job.federation.quorum == "all"
        may_skip = not needs_all and state.round < self.config.job.training.rounds
        if may_skip and not set(self.asked.names) <= set(self.asked.transport.present()):
            return {}
        threshold = self.deployed_threshold(state)
        task = self.samples.summary.task
        sums = self._evaluate(state, "figures", threshold, lambda one: sums_of(one.tensors, task))
        if may_skip and len(sums) < len(self.asked.names):
            return {}
        return figures_of(task, torch.stack(list(sums.values())).sum(0), threshold)

    @override
    def final_rows(self, models: Sequence[Params], state: Any) -> Mapping[str, list[Row]]:
        """See `Trial.final_rows`. `Any`: the last server state."""
        replies = self._evaluate(
            state, "final", self.deployed_threshold(state), self._read_evaluation
        )
        found = [
            replace(replies[name][0], sites=(place,))
            for place, name in enumerate(self.asked.names)
            if name in replies
        ]
        return {
            **self.evaluation_rows(found),
            "forecasts.csv": self._merged_forecasts([own for _, _, own in replies.values()]),
            "sets.csv": [
                {**row, "trial": self.config.id, "client": name}
                for name, (_, row, _) in replies.items()
                if row is not None
            ],
            "properties.csv": [],
        }

    def _read_evaluation(
        self, answer: Message
    ) -> tuple[Evaluation, Row | None, list[list[float]] | None]:
        """The evaluation of a site, its row of `sets.csv`, and its figures of forecasts."""
        row = answer.fields["sets"]
        found = evaluation_of(answer.fields, answer.tensors, 0, self.samples.summary.task)
        rows = self._count_bound_rows()
        if any(rows[rule] != tally.bound for rule, tally in found.tallies.items()):
            raise ValueError("counts of rules with other bound rows than those of the server")
        sums = COUNTS + 3 * figure_count(self.samples.summary.task)
        if self.form is not None and found.knowledge.shape != (1, sums):
            raise ValueError(f"knowledge {list(found.knowledge.shape)} instead of [1, {sums}]")
        forecasts = _forecast_numbers(answer.tensors) if "forecasts" in answer.tensors else None
        return found, None if row is None else dict(row), forecasts

    def _count_bound_rows(self) -> Counter[int]:
        """The bound rows of each rule about outputs, by its position."""
        forecasts, pack = self.rules.forecasts, self.rules.pack
        owners = (
            [bank.rule for bank in pack.banks if reads_output(bank.skeleton)]
            if forecasts is None
            else [bank.rule for bank in forecasts.module.banks]
        )
        return Counter(rule for own in owners for rule in own.tolist())

    def _merged_forecasts(self, each: Sequence[list[list[float]] | None]) -> list[Row]:
        """Rows of `forecasts.csv`; none unless every site has test samples and properties."""
        kinds = ("client", "cluster", "teacher", "truth")
        scores: list[Scores] = [
            {
                kind: (mse, sequences, steps)
                for kind, (mse, sequences, steps) in zip(kinds, numbers, strict=True)
            }
            for numbers in each
            if numbers is not None
        ]
        return (
            self.forecast_rows(merge_scores(scores)) if len(scores) == len(self.asked.names) else []
        )

    def deployed_threshold(self, state: ServerState) -> float:
        """The threshold of alarms; the server has the model of all sites, or the job a number."""
        given = self.config.job.evaluation.threshold
        return float(given) if not isinstance(given, str) else self.threshold(state.params)

    def _evaluate(
        self, state: ServerState, what: str, threshold: float, read: Callable[[Message], Found]
    ) -> dict[str, Found]:
        """What `read` makes of the answers of the sites about the models that they use after a
        round, by site: of all, or with a quorum of those that answer.
        """
        assert isinstance(self.remote, RemoteSites)
        work = deployed_models(self).work
        requests = {}
        for place, name in enumerate(self.asked.names):
            request = self.remote.evaluation(work, state, place)
            asked = {"what": what, "threshold": threshold, "trial": self.config.id}
            tensors = dict(request.tensors)
            if self.inferred is not None and what == "final":
                tensors |= _private_layers(state, request)
            requests[name] = replace(request, fields={**request.fields, **asked}, tensors=tensors)
        return self.asked.read_needed(requests, read)


def _private_layers(state: ServerState, request: Message) -> Params:
    """The server's values of layers that are each site's own, which training does not send."""
    group = request.fields["group"]
    return {
        f"whole/{name}": value[group or 0]
        for name, value in state.models.items()
        if f"{START}{name}" not in request.tensors
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrialTransport:
    """A transport that adds the name of a trial and the digest of its rules to every request.

    Attributes:
        transport: carries the requests.
        trial: name of the trial.
        pack: digest of the rules.
    """

    transport: Transport
    trial: str
    pack: str | None

    def present(self) -> tuple[str, ...]:
        """See `Transport.present`."""
        return self.transport.present()

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        """See `Transport.exchange`."""
        named = {
            site: replace(
                request, fields={**request.fields, "trial": self.trial, PACK_FIELD: self.pack}
            )
            for site, request in requests.items()
        }
        return self.transport.exchange(named, seconds=seconds)
