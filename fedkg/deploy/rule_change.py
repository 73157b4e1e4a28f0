"""Change the rules of a federation between two rounds, with the agreement of its sites.

    FEDERATION/rule-change/       change.json, the new pack, and a new invitation for each site
    FEDERATION/previous.fkgpack   the rules before the last change

The server offers the new invitation to each site between two rounds. It uses the new rules as soon
as enough sites have confirmed them. A site that has not confirmed takes part again when it has.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.federation_folders import (
    CHANGE,
    CHANGE_DOCUMENT,
    INVITATIONS,
    JOB,
    PACK,
    RUN,
    load_federation,
    read_json,
    report_full_disk,
    write_invitation,
    write_json,
)
from fedkg.deploy.federation_job_and_pack import JobFiles
from fedkg.deploy.message import Message
from fedkg.deploy.proposed_rule_confirmation import describe_difference
from fedkg.deploy.quorum_and_deadline_transport import is_answer
from fedkg.deploy.transport import Reply, Transport
from fedkg.errors import FederationError, JobError, UsageError
from fedkg.jobs.folder import PACK as RUN_PACK
from fedkg.jobs.folder import RULE_CHANGES, RunFolder
from fedkg.jobs.prediction_target import choose_output
from fedkg.jobs.rule_pack import with_trained_output
from fedkg.jobs.schema.job import Job
from fedkg.jobs.source_tables import feature_headers
from fedkg.pack import Pack, load, pack_bytes

PREVIOUS = "previous.fkgpack"

ASK_S, ASK_SLOW_S = 30.0, 1.0
"""Seconds in which sites say, between two rounds, whether they have confirmed; those that did not
answer the last time have less: a late answer comes with the next question.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """Rules that the server wants to use from a later round on.

    Attributes:
        pack: their digest, see `fedkg.pack.file.pack_digest`.
        previous: the digest of the rules before them.
        proposed: when they were proposed (ISO 8601, UTC).
        difference: what they change, line by line.
        confirmed: when each site confirmed them, by site.
        problems: why a site cannot use them, by site.
        adopted: whether the server uses them; the change stays until every site has confirmed.
    """

    pack: str
    previous: str
    proposed: str
    difference: tuple[str, ...]
    confirmed: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    adopted: bool = False


def propose_rules(folder: Path, rules: Sequence[str | Path]) -> RuleChange:
    """Compile other rules for a federation, and sign an invitation with them for each site.

    Args:
        folder: the folder of the server, which may be running.
        rules: one pack, or rule files with their graphs.

    Raises:
        UsageError: another change waits for confirmations, or these rules are in use.
        JobError: the rules change the inputs or the output of the model.
        CompileError, PackError, FedkgError: the rules are wrong.
    """
    from fedkg import authoring

    load_federation(folder)  # names a folder that is not that of a server
    pack, _ = authoring.load_or_compile(authoring.parse_sources([str(one) for one in rules]))
    with locked_change(folder):
        return _propose(folder, pack)


def roll_back(folder: Path) -> RuleChange | None:
    """Withdraw a change that the server does not use yet, or propose the previous rules.

    Sites have confirmed the previous rules before, so they need no second confirmation.

    Returns:
        The change back to the previous rules; None if a change was withdrawn.

    Raises:
        UsageError: the rules were never changed.
    """
    load_federation(folder)  # names a folder that is not that of a server
    finish_adoption(folder)
    open_ = load_change(folder)
    # The server may withdraw or adopt it meanwhile.
    if (
        open_ is not None
        and not open_.adopted
        and (withdraw(folder, open_) or JobFiles.read(folder).identity["pack"] != open_.pack)
    ):
        return None
    if not (folder / PREVIOUS).exists():
        raise UsageError(
            f"the rules of {folder} have not been changed, so there is nothing to roll back",
            help=f"propose new rules: fedkg server change-rules {folder} RULES.fkg",
        )
    with locked_change(folder):
        return _propose(folder, load(folder / PREVIOUS))


def load_change(folder: Path) -> RuleChange | None:
    """The change of the rules that is not complete; None if there is none.

    Raises FederationError: its file is damaged.
    """
    path = folder / CHANGE / CHANGE_DOCUMENT
    if not path.exists():
        return None
    document = read_json(path, "`fedkg server change-rules`")
    try:
        return RuleChange(**{**document, "difference": tuple(document["difference"])})
    except (KeyError, TypeError) as error:
        raise FederationError(
            f"{path} does not describe a change of rules",
            expected="the fields pack, previous, proposed and difference",
            received=f"the fields {', '.join(document) or 'of nothing'}",
            help=f"delete {folder / CHANGE}, and propose the rules again",
        ) from error


@contextmanager
def locked_change(folder: Path) -> Iterator[None]:
    """Keep the server and `fedkg server change-rules` from changing the files at the same time."""
    with (folder / JOB).open("r+") as lock:  # nobody replaces the job
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def reload_change(folder: Path, change: RuleChange) -> RuleChange | None:
    """A change as its file describes it now; None if it was withdrawn or replaced."""
    now = load_change(folder)
    same = now is not None and (now.pack, now.proposed) == (change.pack, change.proposed)
    return now if same else None


def withdraw(folder: Path, change: RuleChange) -> bool:
    """Give up a change; whoever reads it meanwhile sees all of it or nothing.

    Returns:
        Whether it was still there, and not in use if `change` is not.
    """
    with locked_change(folder):
        now = reload_change(folder, change)
        if now is None or now.adopted != change.adopted:
            return False
        gone = Path(tempfile.mkdtemp(dir=folder, prefix=f".{CHANGE}."))
        (folder / CHANGE).rename(gone / CHANGE)
    shutil.rmtree(gone)
    return True


def new_files(folder: Path, change: RuleChange) -> JobFiles | None:
    """The job with the proposed rules; None if they were withdrawn."""
    with locked_change(folder):
        if reload_change(folder, change) is None:
            return None
        return replace(JobFiles.read(folder), pack=load(folder / CHANGE / PACK))


def adopt(folder: Path, run: RunFolder, change: RuleChange, *, trial: str, number: int) -> bool:
    """Use the proposed rules from a round on, and record that in the run.

    The run's record and its pack change in one step, so a process that dies continues with the
    rules of its last round.

    Args:
        trial: id of the training that goes on with the new rules; "" before the run.
        number: its next round.

    Returns:
        Whether the change was not withdrawn meanwhile.
    """
    with locked_change(folder):
        now = reload_change(folder, change)
        if now is not None:
            _adopt(folder, run, now, trial, number)
        return now is not None


def _adopt(folder: Path, run: RunFolder, change: RuleChange, trial: str, number: int) -> None:
    body = (folder / CHANGE / PACK).read_bytes()
    if run.exists() and run.read_bytes(RUN_PACK) != body:
        names = load_federation(folder).sites
        run.write_bytes(f"pack-{change.previous[:8]}.fkgpack", run.read_bytes(RUN_PACK))
        row = {
            "trial": trial,
            "round": number,
            "time": _now(),
            "pack": change.pack,
            "previous": change.previous,
            "confirmed": "; ".join(f"{name} {when}" for name, when in change.confirmed.items()),
            "not_confirmed": "; ".join(name for name in names if name not in change.confirmed),
            "difference": "; ".join(line.strip() for line in change.difference),
        }
        run.append(RULE_CHANGES, [row])
        run.write_bytes(RUN_PACK, body)
    _use_in_folder(folder, change)


def finish_adoption(folder: Path) -> None:
    """Complete what a server began that was killed in `adopt`: a run has the new rules already."""
    with locked_change(folder):
        _finish_adoption(folder)


def _finish_adoption(folder: Path) -> None:
    change = load_change(folder)
    if change is None or change.adopted:
        return
    body = (folder / CHANGE / PACK).read_bytes()
    runs = [RunFolder(path) for path in folder.glob(f"{RUN}*") if path.is_dir()]
    if (folder / PACK).read_bytes() == body or any(_has_adopted(run, body, change) for run in runs):
        _use_in_folder(folder, change)


def _has_adopted(run: RunFolder, body: bytes, change: RuleChange) -> bool:
    """Whether a run has the pack `body` of a change; a damaged run is reported when it is used."""
    with suppress(JobError):
        return (
            run.exists()
            and run.read_bytes(RUN_PACK) == body
            and any(row["time"] >= change.proposed for row in run.rows(RULE_CHANGES))
        )
    return False


def _use_in_folder(folder: Path, change: RuleChange) -> None:
    """Replace the rules and invitations of the server."""
    body = (folder / CHANGE / PACK).read_bytes()
    if (folder / PACK).read_bytes() != body:
        replace_file(folder / PREVIOUS, (folder / PACK).read_bytes())
        for path in (folder / CHANGE).glob("*.zip"):
            replace_file(folder / INVITATIONS / path.name, path.read_bytes())
        replace_file(folder / PACK, body)
    _save(folder, replace(change, adopted=True))


@dataclass(slots=True, kw_only=True, eq=False)
class Confirmations:
    """Asks sites, between two rounds, whether their operators have confirmed new rules.

    Attributes:
        folder: the folder of the server.
        transport: reaches the sites.
        names: the sites of the training.
        needed: how many of them must have confirmed.
        on_note: receives what the operator should know.
        prepared: the sites that had confirmed when the training was prepared with the new rules.
    """

    folder: Path
    transport: Transport
    names: tuple[str, ...]
    needed: int
    on_note: Callable[[str], None]
    prepared: frozenset[str] = frozenset()
    _postponed: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """By pack and time of a change: failures, and rounds before the next try; see `postpone`."""
    _silent: Mapping[str, str] = field(default_factory=dict)
    """Why sites that were asked in this round did not answer."""
    _noted: set[tuple[str, str, str]] = field(default_factory=set)
    """Rules, site and reason of the notes about sites that do not answer."""
    _slow: set[str] = field(default_factory=set)
    """Sites that did not answer their last question: rounds do not wait for them again."""

    def is_due(self) -> bool:
        """Whether the training must be prepared again before its next round: enough sites have
        confirmed, or another site has confirmed rules that the server uses already; and all sites
        answer, because each prepares again.
        """
        change = self.collect()
        if change is None:
            return False
        failures, rounds = self._postponed.get((change.pack, change.proposed), (0, 0))
        if rounds > 0:
            self._postponed[change.pack, change.proposed] = failures, rounds - 1
            return False
        late = (set(self.names) & change.confirmed.keys()) - self.prepared
        enough = bool(late) if change.adopted else self.has_enough(change)
        return enough and self._all_answer(change)

    def postpone(self, change: RuleChange, error: FederationError) -> None:
        """Go on with the rules in use, because a site could not prepare new ones.

        After each failure twice as many rounds pass before the next try, because a try prepares
        all sites twice.
        """
        failures, _ = self._postponed.get((change.pack, change.proposed), (0, 0))
        self._postponed[change.pack, change.proposed] = failures + 1, 2**failures - 1
        note = f"the new rules wait: {error.message}; the training goes on with the rules in use"
        if (change.pack, "", note) not in self._noted:
            self._noted.add((change.pack, "", note))
            self.on_note(note)

    def has_enough(self, change: RuleChange) -> bool:
        """Whether enough sites have confirmed a change."""
        return len(set(self.names) & change.confirmed.keys()) >= self.needed

    def _all_answer(self, change: RuleChange) -> bool:
        """Whether all sites answer now; otherwise the operator learns which one does not, once."""
        present = set(self.transport.present())
        absent = {name: "it is not connected" for name in self.names if name not in present}
        if not absent | dict(self._silent):
            asked = [name for name in self.names if name in change.confirmed]  # `collect`: the rest
            question = Message(kind="rules", fields={"pack": change.pack})
            replies = self._ask(dict.fromkeys(asked, question))
            self._silent = _why_silent(asked, replies)
            # a site that has joined again in a new folder does not know the rules
            lost = {
                name
                for name, reply in replies.items()
                if reply.message is not None and not reply.message.fields.get("confirmed")
            }
            if lost:
                kept = {name: when for name, when in change.confirmed.items() if name not in lost}
                _save_open(self.folder, replace(change, confirmed=kept))
                return False
        silent = {**self._silent, **absent}
        for name, why in silent.items():
            if (change.pack, name, why) not in self._noted:
                self._noted.add((change.pack, name, why))
                self.on_note(
                    f"the new rules wait for {name}: {why}; the training goes on with the rules in "
                    "use"
                )
        return not silent

    def collect(self) -> RuleChange | None:
        """The open change, after the sites that have not confirmed were asked."""
        change = load_change(self.folder)
        if change is None:
            return None
        present = set(self.transport.present())
        waiting = [name for name in self.names if name in present - change.confirmed.keys()]
        question = Message(kind="rules", fields={"pack": change.pack})
        replies = self._ask(dict.fromkeys(waiting, question))
        unknown = [
            name
            for name, reply in replies.items()
            if reply.message is not None and not reply.message.fields.get("received")
        ]
        with locked_change(self.folder):
            if reload_change(self.folder, change) is None:
                return None
            offers = {name: self._offer(question, name) for name in unknown}
        replies |= self._ask(offers)
        self._silent = _why_silent(waiting, replies)
        confirmed, problems = dict(change.confirmed), dict(change.problems)
        for name, reply in replies.items():
            when = "" if reply.message is None else str(reply.message.fields.get("confirmed"))[:40]
            if reply.error and problems.get(name) != reply.error:
                self.on_note(f"{name} does not accept the new rules: {reply.error}")
            problems[name] = reply.error
            if when:
                confirmed[name] = when
                self.on_note(
                    f"{name} has confirmed the new rules: {len(confirmed)} of {len(self.names)}, "
                    f"{self.needed} needed"
                )
        problems = {name: text for name, text in problems.items() if text}
        found = replace(change, confirmed=confirmed, problems=problems)
        if found != change and not _save_open(self.folder, found):
            return None
        return found

    def _ask(self, requests: Mapping[str, Message]) -> dict[str, Reply]:
        """The replies that come in time, by site; of other requests' replies none."""
        found: dict[str, Reply] = {}
        slow = self._slow & requests.keys()
        for asked, seconds in ((requests.keys() - slow, ASK_S), (slow, ASK_SLOW_S)):
            if asked:
                exchange = {name: requests[name] for name in requests if name in asked}
                for reply in self.transport.exchange(exchange, seconds=seconds):
                    request = requests.get(reply.site)
                    if reply.message is None or is_answer(reply.message, request):
                        found[reply.site] = reply
        self._slow = (self._slow | requests.keys()) - found.keys()
        return {name: reply for name, reply in found.items() if name in requests}

    def _offer(self, question: Message, name: str) -> Message:
        path = self.folder / CHANGE / f"{name}.zip"
        if not path.exists():  # `dismiss --delete` has deleted it, and the site is back
            write_invitation(self.folder, name, pack=self.folder / CHANGE / PACK, target=path)
        body = bytearray(path.read_bytes())
        return replace(question, tensors={"invitation": torch.frombuffer(body, dtype=torch.uint8)})


def _why_silent(names: Sequence[str], replies: Mapping[str, Reply]) -> dict[str, str]:
    """Why sites did not answer, by site; nothing about those that did."""
    found = {name: replies[name].error if name in replies else "no answer" for name in names}
    return {name: why for name, why in found.items() if why}


def complete(folder: Path, names: Sequence[str]) -> None:
    """Delete the files of a change that the server uses and all sites have confirmed."""
    change = load_change(folder)
    if change is not None and change.adopted and change.confirmed.keys() >= set(names):
        withdraw(folder, change)


def _propose(folder: Path, pack: Pack) -> RuleChange:
    federation, files = load_federation(folder), JobFiles.read(folder)
    open_ = load_change(folder)
    if open_ is not None and not open_.adopted:
        waiting = [name for name in federation.sites if name not in open_.confirmed]
        raise UsageError(
            f"the server of {federation.name} does not use an earlier change of the rules yet",
            received=f"proposed {open_.proposed}, "
            + (f"not confirmed by {', '.join(waiting)}" if waiting else "confirmed by all sites"),
            help="wait until enough sites have confirmed it and the server, which must run, uses "
            f"it; or withdraw it: fedkg server change-rules {folder} --roll-back",
        )
    settings: dict[str, dict[str, object]] = {name: {} for name in files.listed_sites()}
    job = files.joint_job(settings or {"a": {}, "b": {}})
    pack = with_trained_output(job, pack)
    new = replace(files, pack=pack)
    if new.identity["pack"] == files.identity["pack"]:
        raise UsageError(
            f"the federation {federation.name} uses these rules already",
            help="nothing to do, unless you meant another rule file",
        )
    new.joint_job(settings or {"a": {}, "b": {}})  # the job must be possible with the new rules
    _require_same_model(job, files, new)
    with (
        report_full_disk(folder),
        tempfile.TemporaryDirectory(dir=folder, prefix=f".{CHANGE}.") as scratch,
    ):
        partial = Path(scratch) / CHANGE
        partial.mkdir()
        (partial / PACK).write_bytes(pack_bytes(pack))
        for name in federation.sites:
            write_invitation(folder, name, pack=partial / PACK, target=partial / f"{name}.zip")
        found = RuleChange(
            pack=new.identity["pack"],
            previous=files.identity["pack"],
            proposed=_now(),
            difference=describe_difference(folder / PACK, partial / PACK),
        )
        write_json(partial / CHANGE_DOCUMENT, asdict(found))
        if open_ is not None:  # one rename after the other, for a process that is killed
            (folder / CHANGE).rename(Path(scratch) / "earlier")
        partial.rename(folder / CHANGE)
    return found


def _require_same_model(job: Job, old: JobFiles, new: JobFiles) -> None:
    """Raise JobError if the rules change what the model reads or predicts."""
    inputs = [feature_headers(job, one.pack.manifest.contract) for one in (old, new)]
    if inputs[0] != inputs[1]:
        raise JobError(
            "the new rules change the inputs of the model",
            expected=", ".join(inputs[0]),
            received=", ".join(inputs[1]),
            help="write rules that read the same columns, or create a new federation with these "
            "rules: fedkg federation init JOB -o FEDERATION",
        )
    outputs = [choose_output(job, one.pack) for one in (old, new)]
    if outputs[0] != outputs[1]:
        raise JobError(
            "the new rules change the output of the model",
            expected=outputs[0],
            received=outputs[1],
            help="create a new federation with these rules: fedkg federation init JOB -o "
            "FEDERATION",
        )


def _save_open(folder: Path, change: RuleChange) -> bool:
    """Save a change if it was not withdrawn or replaced meanwhile; whether it was saved."""
    with locked_change(folder):
        is_open = reload_change(folder, change) is not None
        if is_open:
            _save(folder, change)
    return is_open


def _save(folder: Path, change: RuleChange) -> None:
    write_json(folder / CHANGE / CHANGE_DOCUMENT, asdict(change))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
