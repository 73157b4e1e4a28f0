"""The rules of a federation change between two rounds, once its sites have confirmed them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import yaml
from command import call
from test_job_over_sites import JOB, RULES, SIZES, compiled, write_tables

from fedkg.deploy import rule_change
from fedkg.deploy.deletion import delete_site
from fedkg.deploy.federation_folders import (
    INVITATION,
    PACK,
    SIGNER,
    create_federation,
    dismiss_site,
    join_federation,
    write_invitation,
)
from fedkg.deploy.federation_job_and_pack import JobFiles
from fedkg.deploy.kept_descriptions import keep_answer
from fedkg.deploy.message import Message
from fedkg.deploy.proposed_rule_confirmation import confirm_rules, receive_rules
from fedkg.deploy.rule_change import Confirmations, load_change, propose_rules, roll_back
from fedkg.deploy.server import run_server
from fedkg.deploy.server_lifecycle import SiteStatus, read_status, save_status
from fedkg.deploy.signing import create_key
from fedkg.deploy.site import open_site
from fedkg.deploy.transport import LoopbackTransport, Reply
from fedkg.errors import FederationError, JobError, Stopped, UsageError
from fedkg.federated import ServerState
from fedkg.jobs import run_job
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.events import Event
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.trial_expansion import plan_trials
from fedkg.jobs.trial_training import train_rounds
from fedkg.pack import read_pack

pytestmark = pytest.mark.slow

STRICTER = RULES.replace("wear > 200 min and torque > 50", "wear > 90 min and torque > 30")
OTHER_INPUTS = (
    RULES + 'signal speed in rpm span 0 .. 9000 column "Speed"\nrule s require speed > 1\n'
)

# the penalty makes the models depend on the rules
FIVE_ROUNDS = {
    **JOB,
    "algorithm": "scfa",
    "training": {**JOB["training"], "rounds": 5, "penalty": 1.0},
}


@cache
def pack_of(rules: str) -> bytes:
    return compiled(rules)


@pytest.fixture(autouse=True)
def plain_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites train without compiled loops; a training in one process must do the same."""
    monkeypatch.setenv("FEDKG_KERNELS", "off")


@dataclass
class Federation:
    """A server and its sites in this process.

    Attributes:
        folder: has the folder `plants` of the server and one of each site.
        steps: what happens after a round, by its number.
        notes: what the server said.
        excluded: by round, the sites without a used update.
    """

    folder: Path
    steps: Mapping[int, Callable[[], object]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    excluded: dict[int, list[str]] = field(default_factory=dict)

    @property
    def server(self) -> Path:
        return self.folder / "plants"

    def run(self, **options: Any) -> RunFolder:
        """Train, with sites whose processes have just started."""

        def listen(event: Event) -> None:
            if event.kind == "note":
                self.notes.append(event.message)
            if event.kind == "site":
                self.excluded.setdefault(event.round, []).append(f"{event.site}: {event.message}")
            if event.kind == "round":
                self.steps.get(event.round, lambda: None)()

        sites = {name: open_site(self.folder / name) for name in SIZES}
        options = {"report": False} | options
        found = run_server(self.server, LoopbackTransport(sites=sites), on_event=listen, **options)
        return RunFolder(found.folder)

    def confirm(self, *names: str) -> None:
        for name in names:
            confirm_rules(self.folder / name)

    def propose(self, rules: str) -> None:
        (self.folder / "new.fkgpack").write_bytes(pack_of(rules))
        propose_rules(self.server, [self.folder / "new.fkgpack"])


def create(folder: Path, job: Mapping[str, Any] = FIVE_ROUNDS, **join: Any) -> Federation:
    write_tables(folder / "data")
    (folder / "job.yaml").write_text(yaml.safe_dump(dict(job)))
    (folder / "rules.fkgpack").write_bytes(pack_of(RULES))
    create_federation(folder / "job.yaml", folder / "plants", sites=list(SIZES))
    for name in SIZES:
        invitation = folder / "plants" / "invitations" / f"{name}.zip"
        sites_file = folder / "data" / "sites.yaml"
        join_federation(invitation, sites_file, folder / name, share_rows=True, **join)
    return Federation(folder)


def train_by_hand(folder: Path, *phases: tuple[str, int]) -> ServerState:
    """Train in one process that reads all tables, with rules up to a round and then with others.

    No message, no confirmation and no run folder is involved.
    """
    (folder / "hand.fkgpack").write_bytes(pack_of(RULES))
    data = {**FIVE_ROUNDS["data"], "sites_file": str(folder / "data" / "sites.yaml")}
    fields = {**FIVE_ROUNDS, "data": data, "pack": "hand.fkgpack"}
    job, state = parse_job(fields, name="the job", base=folder), None
    for rules, last in phases:
        experiment = create_experiment(job, read_pack(pack_of(rules), name="a pack"))
        configs = plan_trials(job)
        experiment.prepare(configs)
        trial = experiment.build_trial(configs[0])
        for found, record in train_rounds(configs[0], trial, state, None):
            if record.round == last:
                state = found
                break
    assert state is not None
    return state


def models(run: RunFolder) -> Mapping[str, torch.Tensor]:
    state = load_state(run, "scfa-s0")
    assert state is not None
    return state.models


def equal(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    assert one.keys() == other.keys()
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_rounds_after_the_confirmations_use_the_new_rules(tmp_path):
    federation = create(tmp_path)
    federation.steps = {
        1: lambda: federation.propose(STRICTER),
        2: lambda: federation.confirm("graz", "linz"),
        3: lambda: federation.confirm("wien"),
    }

    run = federation.run(report=True)

    by_hand = train_by_hand(tmp_path, (RULES, 3), (STRICTER, 5))
    assert equal(models(run), by_hand.models)
    assert not equal(models(run), train_by_hand(tmp_path, (RULES, 5)).models)

    [row] = run.rows("rule_changes.csv")
    assert (row["trial"], row["round"], row["not_confirmed"]) == ("scfa-s0", "4", "")
    assert [one.split()[0] for one in row["confirmed"].split("; ")] == list(SIZES)
    assert "worn: " in row["difference"]
    assert "careful" not in row["difference"]
    assert run.read_bytes(f"pack-{row['previous'][:8]}.fkgpack") == pack_of(RULES)
    assert run.read_bytes("pack.fkgpack") == pack_of(STRICTER)
    assert run.damage() == ()
    assert "Rule changes" in (run.path / "report.html").read_text()
    assert any(
        "from round 4 on, confirmed by graz, linz, wien" in note for note in federation.notes
    )
    assert load_change(federation.server) is None
    # the local baseline, a later training of the run, has the new rules from its first round on
    assert [one["round"] for one in run.rows("rounds.csv")][:5] == ["1", "2", "3", "4", "5"]


def test_a_stopped_server_and_new_site_processes_keep_the_rules_of_each_round(tmp_path):
    federation = create(tmp_path, accept_rule_changes=True)

    def stop() -> None:
        raise KeyboardInterrupt

    federation.steps = {2: lambda: federation.propose(STRICTER), 4: stop}
    with pytest.raises(Stopped):
        federation.run()
    federation.steps = {}
    run = federation.run()

    [row] = run.rows("rule_changes.csv")
    assert row["round"] == "3"
    assert equal(models(run), train_by_hand(tmp_path, (RULES, 2), (STRICTER, 5)).models)


def test_roll_back_withdraws_an_open_change_and_returns_from_a_used_one(tmp_path, capsys):
    federation = create(tmp_path)
    with pytest.raises(UsageError, match="have not been changed"):
        roll_back(federation.server)
    federation.propose(RULES.replace("65", "64"))
    assert roll_back(federation.server) is None
    assert load_change(federation.server) is None

    federation.steps = {
        1: lambda: federation.propose(STRICTER),
        2: lambda: federation.confirm(*SIZES),
        4: lambda: call(capsys, "server", "change-rules", federation.server, "--roll-back"),
    }
    run = federation.run()

    # sites joined with the first rules: nobody confirms them again
    assert [row["round"] for row in run.rows("rule_changes.csv")] == ["3", "5"]
    by_hand = train_by_hand(tmp_path, (RULES, 2), (STRICTER, 4), (RULES, 5))
    assert equal(models(run), by_hand.models)
    assert run.read_bytes("pack.fkgpack") == pack_of(RULES)


def test_with_a_quorum_the_others_go_on_and_a_late_site_comes_back(tmp_path):
    contract = {"quorum": 2, "retries": 0}
    federation = create(tmp_path, {**FIVE_ROUNDS, "federation": contract})
    federation.steps = {
        1: lambda: federation.propose(STRICTER),
        2: lambda: federation.confirm("graz", "linz"),
        4: lambda: federation.confirm("wien"),
    }

    run = federation.run()

    assert federation.excluded == {
        number: ["wien: site wien has not confirmed the new rules"] for number in (3, 4)
    }
    [row] = run.rows("rule_changes.csv")
    assert (row["round"], row["not_confirmed"]) == ("3", "wien")
    missing = run.rows("exclusions.csv")
    assert {(one["client"], one["decided_by"]) for one in missing} == {("wien", "site")}
    assert "fedkg site confirm" in missing[0]["help"]
    assert load_change(federation.server) is None


def test_new_rules_wait_for_a_site_that_does_not_answer_and_the_training_goes_on(
    tmp_path, monkeypatch
):
    """With a quorum of two, two confirmations would do, but each site must prepare again."""
    federation = create(tmp_path, {**FIVE_ROUNDS, "federation": {"quorum": 2, "retries": 0}})
    paused, ask = set(), LoopbackTransport._ask

    def answer(transport: LoopbackTransport, site: str, down: bytes) -> Reply:
        if site in paused:
            return Reply(site=site, message=None, error="the operator pauses")
        return ask(transport, site, down)

    monkeypatch.setattr(LoopbackTransport, "_ask", answer)
    federation.steps = {
        1: lambda: federation.propose(STRICTER),
        2: lambda: (federation.confirm("graz", "linz"), paused.add("wien")),
        4: paused.clear,
    }

    run = federation.run()

    waits = [note for note in federation.notes if "the new rules wait for" in note]
    [wait] = waits
    assert wait.startswith("the new rules wait for wien: the operator pauses; the training goes on")
    [row] = run.rows("rule_changes.csv")
    assert (row["round"], row["not_confirmed"]) == ("5", "wien")


def test_a_site_that_fails_while_new_rules_are_prepared_does_not_end_the_run(tmp_path, monkeypatch):
    federation = create(tmp_path, accept_rule_changes=True)
    federation.steps = {1: lambda: federation.propose(STRICTER)}
    ask, failed = LoopbackTransport._ask, []

    def answer(transport: LoopbackTransport, site: str, down: bytes) -> Reply:
        request = Message.from_bytes(down, sender="the server")
        new = request.fields.get("identity", {}).get("pack") != first
        if site == "linz" and request.fields.get("step") == "join" and new and not failed:
            failed.append(site)
            return Reply(site=site, message=None, error="the disk is full")
        return ask(transport, site, down)

    monkeypatch.setattr(LoopbackTransport, "_ask", answer)
    first = JobFiles.read(federation.server).identity["pack"]
    run = federation.run()

    assert failed
    assert any("wait: site linz: the disk is full" in note for note in federation.notes)
    assert [row["round"] for row in run.rows("rule_changes.csv")] == ["3"]
    assert equal(models(run), train_by_hand(tmp_path, (RULES, 2), (STRICTER, 5)).models)


@pytest.mark.parametrize("kind", ["rules", "describe"])
def test_a_change_that_the_operator_replaces_meanwhile_is_not_used(tmp_path, monkeypatch, kind):
    """While the server asks for confirmations, and while it prepares the sites."""
    federation = create(tmp_path, accept_rule_changes=True)
    federation.steps = {1: lambda: federation.propose(STRICTER)}
    ask, replaced = LoopbackTransport._ask, []

    def answer(transport: LoopbackTransport, site: str, down: bytes) -> Reply:
        asked = Message.from_bytes(down, sender="the server").kind
        if asked == kind and not replaced and load_change(federation.server) is not None:
            replaced.append(site)
            roll_back(federation.server)
            federation.propose(RULES.replace("65", "64"))
        return ask(transport, site, down)

    monkeypatch.setattr(LoopbackTransport, "_ask", answer)
    run = federation.run()

    assert run.read_bytes("pack.fkgpack") == pack_of(RULES.replace("65", "64"))
    assert all("worn: " not in row["difference"] for row in run.rows("rule_changes.csv"))
    assert load_change(federation.server) is None


def test_after_a_change_the_next_training_begins_without_a_site_that_is_gone(tmp_path, monkeypatch):
    job = {**FIVE_ROUNDS, "federation": {"quorum": 2, "retries": 0}, "seeds": [0, 1]}
    federation = create(tmp_path, job)
    gone, ask = set(), LoopbackTransport._ask

    def answer(transport: LoopbackTransport, site: str, down: bytes) -> Reply:
        if site in gone:
            return Reply(site=site, message=None, error=f"no site process answers on {site}")
        return ask(transport, site, down)

    monkeypatch.setattr(LoopbackTransport, "_ask", answer)
    federation.steps = {
        1: lambda: gone or federation.propose(STRICTER),
        2: lambda: gone or federation.confirm(*SIZES),
        4: lambda: gone.add("wien"),
    }

    run = federation.run()

    assert len(run.rows("rounds.csv")) == 10
    [row] = run.rows("rule_changes.csv")
    assert row["round"] == "3"
    assert set(federation.excluded) == {1, 2, 3, 4, 5}


def test_a_server_killed_while_it_changes_the_rules_has_the_rules_of_its_run(tmp_path, monkeypatch):
    federation = create(tmp_path, accept_rule_changes=True)
    federation.steps = {2: lambda: federation.propose(STRICTER)}

    def die(path: Path, body: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rule_change, "replace_file", die)
        with pytest.raises(KeyboardInterrupt):
            federation.run()
    shutil.copytree(federation.server, tmp_path / "copy")
    monkeypatch.setattr(Confirmations, "is_due", lambda changes: False)  # a site is not there
    run = federation.run()

    assert [row["round"] for row in run.rows("rule_changes.csv")] == ["3"]
    for path in (federation.server / PACK, run.path / "pack.fkgpack"):
        assert path.read_bytes() == pack_of(STRICTER)
    assert roll_back(tmp_path / "copy") is not None, "not only withdrawn"


def test_rounds_wait_once_for_a_site_that_hangs(tmp_path):
    """Later questions give it a second; its answer to other rules is no confirmation."""
    federation = create(tmp_path)
    federation.propose(STRICTER)
    waits: list[tuple[list[str], float]] = []
    sites = {name: open_site(federation.folder / name) for name in SIZES}
    inner = LoopbackTransport(sites=sites)
    old = Message(kind="rules", fields={"confirmed": "before", "request": "of another change"})

    class WienHangs:
        def present(self) -> tuple[str, ...]:
            return inner.present()

        def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
            waits.append((list(requests), seconds))
            yield Reply(site="wien", message=old)
            answering = {name: one for name, one in requests.items() if name != "wien"}
            yield from inner.exchange(answering, seconds=seconds)

    changes = Confirmations(
        folder=federation.server,
        transport=WienHangs(),
        names=tuple(SIZES),
        needed=3,
        on_note=federation.notes.append,
    )
    assert not changes.is_due()
    assert (list(SIZES), 30.0) in waits
    waits.clear()
    assert not changes.is_due()
    assert [wait for wait in waits if "wien" in wait[0]] == [(["wien"], 1.0)]
    change = load_change(federation.server)
    assert change is not None
    assert change.confirmed == {}


def test_a_site_that_joins_again_confirms_again(tmp_path):
    federation = create(tmp_path)
    federation.propose(STRICTER)

    def join_again() -> None:
        invitation = federation.server / "invitations" / "graz.zip"
        (federation.server / "rule-change" / "graz.zip").unlink()
        join_federation(invitation, tmp_path / "data" / "sites.yaml", tmp_path / "new" / "graz",
                        share_rows=True)  # fmt: skip
        shutil.rmtree(tmp_path / "graz")
        (tmp_path / "new" / "graz").rename(tmp_path / "graz")
        federation.confirm("linz", "wien")
        raise KeyboardInterrupt

    federation.steps = {1: lambda: federation.confirm("graz"), 2: join_again}
    with pytest.raises(Stopped):
        federation.run()
    federation.steps = {4: lambda: federation.confirm("graz")}
    run = federation.run()

    [row] = run.rows("rule_changes.csv")
    assert (row["round"], row["not_confirmed"]) == ("5", "")


def test_rules_for_another_model_and_rules_that_a_site_cannot_evaluate(tmp_path):
    federation = create(tmp_path)
    before = sorted(path.name for path in federation.server.iterdir())
    with pytest.raises(UsageError, match="uses these rules already"):
        federation.propose(RULES)
    with pytest.raises(JobError, match="output"):
        federation.propose(RULES.replace("output failure", "output broken").replace(
            "failure >=", "broken >=").replace("failure <=", "broken <="))  # fmt: skip
    assert sorted(path.name for path in federation.server.iterdir()) == before

    # `data.features` lists the inputs, so the model stays; no table has the new column
    federation.propose(OTHER_INPUTS)
    with pytest.raises(UsageError, match="does not use an earlier change"):
        federation.propose(STRICTER)
    federation.steps = {2: lambda: federation.confirm(*SIZES)}
    run = federation.run()

    assert run.rows("rule_changes.csv") == []
    change = load_change(federation.server)
    assert change is not None
    assert change.problems.keys() == SIZES.keys()
    assert "Speed" in change.problems["linz"]
    assert equal(models(run), train_by_hand(tmp_path, (RULES, 5)).models)


def test_a_site_rejects_rules_that_its_server_did_not_sign(tmp_path):
    """A valid invitation of the same job, signed by another key or for another site."""
    federation = create(tmp_path)
    site, used = tmp_path / "graz", tmp_path / "graz" / INVITATION / PACK
    federation.propose(STRICTER)
    change = load_change(federation.server)
    assert change is not None
    for_linz = (federation.server / "rule-change" / "linz.zip").read_bytes()
    (federation.server / "keys" / "signing.key").unlink()
    create_key(federation.server / "keys", "other").rename(
        federation.server / "keys" / "signing.key"
    )
    forged = write_invitation(
        federation.server, "graz", pack=tmp_path / "new.fkgpack", target=tmp_path / "forged.zip"
    )

    with pytest.raises(FederationError, match="not signed by a trusted key"):
        receive_rules(site, forged.read_bytes(), change.pack, used)
    with pytest.raises(FederationError, match="another site") as caught:
        receive_rules(site, for_linz, change.pack, used)
    assert caught.value.received == "an invitation with another site's name"
    keys = federation.server / "keys"
    shutil.copy(keys / "other.pub", keys / SIGNER)  # the forger also replaces the first invitation
    shutil.unpack_archive(write_invitation(federation.server, "graz"), site / INVITATION)
    forged = write_invitation(
        federation.server, "graz", pack=tmp_path / "new.fkgpack", target=tmp_path / "forged.zip"
    )
    with pytest.raises(FederationError, match="not signed by the key that you expect"):
        receive_rules(site, forged.read_bytes(), change.pack, used)
    assert list((site / "rules").iterdir()) == []


def test_a_training_without_a_site_equals_a_federation_that_never_had_it(tmp_path):
    federation = create(tmp_path / "three")
    federation.run()

    apart = federation.run(without=["graz"])

    assert apart.path.name == "run-without-graz"
    data = {**FIVE_ROUNDS["data"], "sites_file": str(tmp_path / "two.yaml")}
    document = yaml.safe_load((tmp_path / "three" / "data" / "sites.yaml").read_text())
    del document["sites"]["graz"]
    for site in document["sites"].values():
        site["url"] = str(tmp_path / "three" / "data" / site["url"])
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "rules.fkgpack").write_bytes(pack_of(RULES))
    fields = {**FIVE_ROUNDS, "data": data, "pack": str(tmp_path / "rules.fkgpack")}
    never = RunFolder(run_job(fields, out=tmp_path / "never", report=False).folder)
    assert equal(models(apart), models(never))
    for name in ("sites.csv", "rules.csv", "clients.csv", "checks.csv"):
        assert apart.rows(name) == never.rows(name), name
    with pytest.raises(UsageError, match="must name sites of the federation"):
        federation.run(without=["steyr"])


def test_dismissal_with_deletion_says_what_is_gone_and_what_remains(tmp_path, capsys, monkeypatch):
    federation = create(tmp_path)
    run = federation.run(report=True)
    assert "graz" in (run.path / "clients.csv").read_text()
    mentions = {
        "rules.csv": {"example": "site graz, row 19: torque 61 N.m"},
        "checks.csv": {"example": "site graz, row 2: torque 70 N.m"},
        "rounds.csv": {"notes": "graz is lost | graz-2 is back"},
        "rule_changes.csv": {"confirmed": "graz 12:00; linz 12:01", "not_confirmed": "graz; wien"},
    }
    run.append("rule_changes.csv", [{"trial": run.rows("rounds.csv")[0]["trial"], "round": 1}])
    for table, cells in mentions.items():
        first, *others = run.rows(table)
        run.rewrite(table, [{**first, **cells}, *others])
    change = {"confirmed": {"graz": "now", "linz": "now"}, "problems": {"graz": "no column"}}
    (federation.server / "rule-change").mkdir()
    (federation.server / "rule-change" / "change.json").write_text(json.dumps(change))

    dismiss_site(federation.server, "graz")
    status = read_status(federation.server)
    status.sites["graz"] = SiteStatus(left=True, deletion=True)
    save_status(federation.server, status)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "rewrite", Mock(side_effect=OSError("the disk is full")))
        with pytest.raises(OSError, match="the disk is full"):
            delete_site(federation.server, "graz")
    kept = federation.server / "descriptions" / "run"
    keep_answer(kept, "graz", Message(kind="describe"), Message(kind="describe"))

    done = call(capsys, "federation", "dismiss", federation.server, "graz", "--delete")

    assert done.code == 0
    assert "remains: the models" in done.out
    assert f"fedkg server run {federation.server} --without graz" in done.out
    run = RunFolder(run.path)
    assert run.damage() == ()
    left = {table: run.rows(table)[0] for table in mentions}
    assert left["rules.csv"]["example"] == left["checks.csv"]["example"] == ""
    assert left["rounds.csv"]["notes"] == "graz-2 is back"
    confirmed = left["rule_changes.csv"]
    assert (confirmed["confirmed"], confirmed["not_confirmed"]) == ("linz 12:01", "wien")
    change = json.loads((federation.server / "rule-change" / "change.json").read_text())
    assert change == {"confirmed": {"linz": "now"}, "problems": {}}
    for name in ("clients.csv", "sites.csv", "split.json", "events.jsonl"):
        assert "graz" not in (run.path / name).read_text(), name
        assert "linz" in (run.path / name).read_text() or name == "events.jsonl", name
    assert not (federation.server / "invitations" / "graz.zip").exists()
    assert read_status(federation.server).sites["graz"].left
    [record] = yaml.safe_load((federation.server / "deletions.json").read_text())["deletions"]
    assert record["site"] == "graz"
    assert record["requested"]  # as before the interruption
    assert any("rows of clients.csv" in line for line in record["deleted"])
    assert "what it told about its data" in record["deleted"]
    assert not list(kept.iterdir())


@pytest.mark.parametrize("words", [("--roll-back",), ("rules.fkg",)])
def test_a_folder_that_is_not_of_a_server_is_named(tmp_path, capsys, words):
    (tmp_path / "rules.fkg").write_text(RULES)
    (tmp_path / "empty").mkdir()
    words = [tmp_path / one if one.endswith("fkg") else one for one in words]

    done = call(capsys, "server", "change-rules", tmp_path / "empty", *words)

    assert done.code != 0
    assert "job.yaml" not in done.err
    assert f"{tmp_path / 'empty'}" in done.err


def test_after_each_failure_twice_as_many_rounds_pass_before_the_next_try(tmp_path, monkeypatch):
    change = SimpleNamespace(pack="1a", proposed="now", confirmed={}, adopted=False)
    monkeypatch.setattr(Confirmations, "collect", lambda self: change)
    monkeypatch.setattr(Confirmations, "_all_answer", lambda self, change: True)
    notes, tries = [], []
    changes = Confirmations(
        folder=tmp_path, transport=None, names=(), needed=0, on_note=notes.append
    )

    for number in range(1, 20):
        if changes.is_due():
            tries.append(number)
            changes.postpone(change, FederationError("site linz: the disk is full"))

    assert tries == [1, 2, 4, 8, 16]
    [note] = notes
    assert note.startswith("the new rules wait: site linz: the disk is full")
