"""Check a site before it joins a federation: its tables, rules, disk and speed.

Letters: S local steps of a round.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedkg._internal.threads import library_threads
from fedkg.deploy.causes_site import CausesSite, JoinedClient
from fedkg.deploy.disclosures import Disclosure, list_disclosures
from fedkg.deploy.federation_folders import SITE
from fedkg.deploy.federation_job_and_pack import own_settings, sites_score
from fedkg.deploy.message import Message
from fedkg.deploy.preparation_messages import (
    check_fields,
    list_sent,
    server_rows_of_table,
    summary_parts,
)
from fedkg.deploy.site import JoinedSite, SiteAnswers
from fedkg.deploy.site_state_versions import NO_RECEIPT
from fedkg.errors import FedkgError
from fedkg.federated import initial_state
from fedkg.federated.client.per_client_settings import steps_for
from fedkg.federated.executors.sequential import Sequential
from fedkg.federated.train import AT_SITES
from fedkg.jobs.causes.aligned_site_tables import count_differences, count_steps, find_step
from fedkg.jobs.causes.measurements import training_steps
from fedkg.jobs.experiment.labelled_table_samples import TablePart
from fedkg.jobs.experiment.site_sample_statistics import SERVER, TEST, TRAIN
from fedkg.jobs.source_data_checks import count_on_tables
from fedkg.jobs.trial_expansion import TrialConfig, plan_trials
from fedkg.jobs.trial_training import deployed_models
from fedkg.kernels.compiled_loop_policy import loops_in_round
from fedkg.sites import load_sites, read_site

MEASURED_STEPS = 5
"""Local steps that are timed to estimate a round; the first ones are slower."""

ROOM = 10
"""Copies of a model and its private state that a site keeps at most: two of each of its rows, and a
file that is being replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked.

    Attributes:
        what: what was checked.
        text: what was found.
        ok: whether the site can take part as it is; None if this does not depend on it.
        help: what to do.
    """

    what: str
    text: str
    ok: bool | None = True
    help: str = ""


def list_site_disclosures(folder: Path) -> tuple[Disclosure, ...]:
    """Everything that leaves a site in a run, and what comes to it, for each training of the job.

    Sizes are those of this site's data and of the first round. Nothing is sent.

    Raises:
        FederationError, JobError, TableError: the site cannot take part.
    """
    site = SiteAnswers(folder)
    if site.files.is_discovery:
        return list_discovery_disclosures(CausesSite(folder))
    joined = join_alone(site)
    found = [*list_sent(site.summary_answer())]
    checks = Message(
        kind="describe",
        fields={"checks": check_fields(joined.check_counts(), with_rows=site.shares_rows)},
    )
    found += list_sent(checks)
    for config in plan_trials(joined.job):
        trial = joined.build_trial(config.id)
        params = trial.problem.model.init(0)
        found += list_sent(joined.share_answer(trial, consent=True))
        found += list_disclosures(deployed_models(trial).work, site.name)
        found += list_sent(joined.evaluation_answer(trial, params, params, 0.5))
    return tuple(dict.fromkeys(found))


def list_discovery_disclosures(site: CausesSite) -> tuple[Disclosure, ...]:
    """Everything that leaves a site in a causal discovery, and what comes to it.

    Raises:
        JobError, TableError, UsageError: the site cannot take part.
    """
    asked = Message(kind="describe", fields={"identity": site.files.identity})
    stated = site.state_units(asked)
    units = stated.fields["units"]
    clock = site.read(units).clock
    whole = {"units": units, "start": clock.first, "stop": clock.last}
    contract = site.files.pack.manifest.contract
    told = [stated, site.tell_clock(Message(kind="describe", fields=whole))]
    counts: list[dict[float, int]] = []
    if clock.time and contract.step is None:
        told.append(site.count_differences(Message(kind="describe", fields=whole)))
        counts.append(count_differences(site.read(units), clock.first, clock.last))
    step = find_step({site.name: clock}, contract, counts)
    steps = count_steps(str(site.sites_file), clock.first, clock.last, step)
    joined = JoinedClient.of(
        site, Message(kind="describe", fields={**whole, "seconds": step, "steps": steps})
    )
    told.append(joined.describe())
    known = training_steps(joined.job, steps)
    fields = {"begin": 1, "end": known, "receipt": NO_RECEIPT}
    told.append(joined.learn(Message(kind="learn", fields=fields)))
    sent = [one for message in told for one in list_sent(message)]
    received = Disclosure(
        name="gradients",
        meaning="gradients of the server's loss with respect to the augmented states",
        direction="to the site",
        when="in each of its rounds",
        shape=(known - 1, joined.states.shape[1]),
        dtype="float64",
        bytes=8 * (known - 1) * joined.states.shape[1],
    )
    return tuple(dict.fromkeys((*sent, received)))


def check_site(folder: Path) -> list[Finding]:
    """Check the folder of a site that has joined: nothing is sent, and its state stays as it is.

    The estimated time of a round is that of `MEASURED_STEPS` local steps of the job's first
    training with the site's own rows and settings; other sites and the network do not count.
    """
    found: list[Finding] = []
    checks = _check(folder)
    while True:
        try:
            found.append(next(checks))
        except StopIteration:
            return found
        except FedkgError as error:
            left = "the checks after this one were not made"
            place = found[-1].what if found else "folder"
            found.append(
                Finding(
                    what=f"after {place}" if found else "folder",
                    text=f"{error.message}; {left}" if not error.received else str(error),
                    ok=False,
                    help="" if error.received else error.help,  # the text has it
                )
            )
            return found


def _check(folder: Path) -> Iterator[Finding]:
    """The findings in order; an error ends them."""
    site = SiteAnswers(folder)
    if site.files.is_discovery:
        yield from _check_discovery(CausesSite(folder))
        return
    pack = site.files.pack
    rules = len(pack.manifest.rules)
    number = f"{rules} rule{'' if rules == 1 else 's'}"
    text = f"site {site.name}: job {site.job.name}, {number}, readable by this version"
    yield Finding(what="invitation", text=text)
    rows = site.summary.rows
    enough = rows[TRAIN] >= site.job.data.min_samples
    yield Finding(
        what="table",
        text=f"columns and units convert; {rows[TRAIN]:,} rows for training, {rows[TEST]:,} for "
        f"the test, {rows[SERVER]:,} for the server",
        ok=enough,
        help="" if enough else f"the job needs {site.job.data.min_samples} rows for training",
    )
    if rows[SERVER]:
        yield Finding(
            what="consent",
            text=f"the server asks for {rows[SERVER]:,} rows with all columns that the job reads",
            ok=site.shares_rows,
            help="" if site.shares_rows else f"agree with `share_rows: true` in {folder / SITE}",
        )
    yield from _check_rules(site)
    [config, *_] = plan_trials(site.job)
    yield from _check_round(site, folder, config)
    yield from _list_messages(list_site_disclosures(folder))


def _check_discovery(site: CausesSite) -> Iterator[Finding]:
    """The findings about a causal discovery: the table, and what the filter shows of it."""
    text = f"site {site.name}: causal discovery {site.discovery.name}, readable by this version"
    yield Finding(what="invitation", text=text)
    found = {one.name: one for one in list_discovery_disclosures(site)}
    steps, states = found["states"].shape
    measured = len(site.read(site.units).signals)
    text = f"{steps:,} steps of {measured} measurements, seen through {states} states"
    yield Finding(
        what="table",
        text=text,
        ok=True if states < measured else None,
        help=""
        if states < measured
        else "as many states as measurements show the server nearly all of them: measure more, or "
        "ask for fewer `states`",
    )
    yield from _list_messages(found.values())


def _list_messages(disclosures: Iterable[Disclosure]) -> Iterator[Finding]:
    """What leaves the site and comes to it, by time and direction; of several trainings, the
    largest size of each message.
    """
    groups: dict[tuple[str, str, str], dict[str, int]] = {}
    for one in disclosures:
        sizes = groups.setdefault((one.when, one.direction, one.readers), {})
        sizes[one.name] = max(sizes.get(one.name, 0), one.bytes)
    for (when, direction, readers), sizes in groups.items():
        names = ", ".join(dict.fromkeys(name.partition("/")[0] for name in sizes))
        total = sum(sizes.values())
        text = f"{total:,} bytes {direction} {when}: {names}; who can read it: {readers}"
        yield Finding(what="messages", text=text, ok=None)


def join_alone(site: SiteAnswers) -> JoinedSite:
    """The site as the only one of a federation."""
    summary, tensors = summary_parts(site.summary)
    fields = {
        "sites": {site.name: own_settings(site.job, site.name)},
        "summary": summary,
        "training": {site.name: site.summary.rows[TRAIN]},
    }
    if isinstance(site.part, TablePart) and sites_score(plan_trials(site.job)):
        # The server sends its probe later: a row of the site stands for it.
        row = site.part.frame.take(np.arange(1))
        stand_in = TablePart(frame=row, use=np.full(1, SERVER, dtype=np.int8))
        fields["probe"], rows = server_rows_of_table(stand_in)
        tensors |= rows
    return JoinedSite(site, Message(kind="describe", fields=fields, tensors=tensors))


def _check_rules(site: SiteAnswers) -> Iterator[Finding]:
    """How often the recorded rows of the site violate each rule."""
    pack, sites = site.files.pack, load_sites(site.sites_file)
    table = read_site(sites, site.name, pack.manifest.contract).table
    names = [rule.name for rule in pack.manifest.rules]
    tables = [(table, lambda at: table.where(at))]
    for name, counts in count_on_tables(pack, tables, names).items():
        verdict = f"violated in {counts.violated:,} of {counts.evaluations:,} cases"
        text = verdict if counts.evaluations else "not evaluated: no row has what it reads"
        worst = f"; worst: {counts.example}" if counts.example else ""
        yield Finding(
            what=f"rule {name}",
            text=text + worst,
            ok=True if counts.evaluations and not counts.violated else None,
            help="training goes on; look at these rows if they surprise you"
            if counts.violated
            else "",
        )


def _check_round(site: SiteAnswers, folder: Path, config: TrialConfig) -> Iterator[Finding]:
    """Disk space, and the estimated time of one local round against the deadline."""
    work = deployed_models(join_alone(site).build_trial(config.id)).work
    state, client = initial_state(work.problem, work.algorithm, work.settings), torch.tensor([0])
    kept = sum(value[0].numel() * value.element_size() for value in state.models.values())
    needed, free = ROOM * kept * (1 + len(state.clients)), shutil.disk_usage(folder).free
    yield Finding(
        what="disk",
        text=f"{free / 1e9:.1f} GB free, at most {needed / 1e9:.3f} GB needed",
        ok=free > needed,
        help="" if free > needed else f"free space in {folder}",
    )
    steps = int(steps_for(work, client)[0])
    timed = min(MEASURED_STEPS, steps)
    with torch.no_grad(), library_threads(AT_SITES.threads), loops_in_round(AT_SITES.loops):
        list(Sequential().train(work, state, client, limit=1))
        begun = time.perf_counter()
        list(Sequential().train(work, state, client, limit=timed))
    seconds = (time.perf_counter() - begun) / timed * steps
    deadline = site.files.contract().deadline
    fits = seconds <= deadline
    yield Finding(
        what="round",
        text=f"about {seconds:.1f} s for {steps:,} local steps (measured on {timed}); the deadline "
        f"is {deadline:g} s",
        ok=fits,
        help="" if fits else "use a faster machine, or ask for a later `federation.deadline`",
    )
