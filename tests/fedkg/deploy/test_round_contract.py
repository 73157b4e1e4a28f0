"""A round ends with k of n sites by its deadline; a scripted transport plays the sites.

The transport has a clock of its own: no test waits longer than a second in total.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
import torch

from fedkg.deploy import quorum_and_deadline_transport
from fedkg.deploy.message import Message
from fedkg.deploy.quorum_and_deadline_transport import (
    ContractTransport,
    RoundContract,
    wait_for_sites,
)
from fedkg.deploy.transport import Reply
from fedkg.errors import FederationError, TooFewClients
from fedkg.exclusion_reasons import NO_PROCESS, NO_REPLY, NOT_NEEDED, PAUSED, explain_exclusion

NEVER = 1e9


@dataclass
class Clock:
    """Time that passes only when somebody waits."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-9)


@dataclass
class Script:
    """Sites that answer each try after some seconds, or fail: `steps[site]` lists the tries.

    A step is (seconds, error); an error of "" is an answer. The last step repeats.
    """

    clock: Clock
    steps: Mapping[str, list[tuple[float, str]]]
    asked: list[tuple[float, str, int]] = field(default_factory=list)
    open: list[tuple[float, str, Message, str]] = field(default_factory=list)

    def present(self) -> tuple[str, ...]:
        return tuple(sorted(s for s, steps in self.steps.items() if steps[0][0] <= self.clock.now))

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        end = self.clock.now + seconds
        for site, request in requests.items():
            before = sum(other == site for _, other, _ in self.asked)
            wait, error = self.steps[site][min(before, len(self.steps[site]) - 1)]
            self.asked.append((self.clock.now, site, request.round))
            self.open.append((self.clock.now + wait, site, request, error))
        mine = set(requests)
        while (mine if requests else self.open) and self.open:
            at, site, request, error = min(self.open, key=lambda one: one[0])
            if at > end:
                self.clock.now = end
                return
            self.clock.now = max(self.clock.now, at)
            self.open.remove((at, site, request, error))
            mine.discard(site)
            answer = None if error else Message(kind=request.kind, round=request.round)
            yield Reply(site=site, message=answer, error=error)


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(quorum_and_deadline_transport, "time", found)
    return found


def play(clock, steps, *, kind="train", participants=None, number=1, **contract):
    """The replies of one exchange by site (error, or "" for an answer), and the script."""
    script = Script(clock, steps)
    wrapped = ContractTransport(
        transport=script,
        contract=RoundContract(**contract),
        participants=participants or len(steps),
        preference=lambda number: sorted(steps),
    )
    requests = {site: Message(kind=kind, round=number) for site in steps}
    replies = list(wrapped.exchange(requests, seconds=NEVER))
    assert [reply.site for reply in replies] == list(steps)  # in the order of the requests
    return {reply.site: reply.error for reply in replies}, script


def test_all_answers_end_the_round_at_once(clock):
    found, script = play(clock, {"b": [(3, "")], "a": [(1, "")]})

    assert found == {"b": "", "a": ""}
    assert clock.now == 3
    assert len(script.asked) == 2


def test_quorum_and_grace_end_a_round_without_a_slow_site(clock):
    steps = {"a": [(1, "")], "b": [(2, "")], "c": [(6, "")], "d": [(NEVER, "")]}

    found, _ = play(clock, steps, quorum=2, grace=5, deadline=100)

    assert clock.now == 7  # two answers after 2 s, and 5 s of grace
    assert [site for site, error in found.items() if not error] == ["a", "b", "c"]
    assert NO_REPLY in found["d"]


@pytest.mark.parametrize(
    ("quorum", "sites", "needed"),
    [("all", 5, 5), (2, 5, 2), (9, 5, 5), (0.5, 5, 3), (0.5, 4, 2), (0.01, 4, 1), ("all", 0, 1)],
)
def test_quorum_is_a_number_a_share_rounded_up_or_all(quorum, sites, needed):
    assert RoundContract(quorum=quorum).needed(sites) == needed


def test_round_without_quorum_is_given_up_at_the_deadline_with_reasons(clock):
    steps = {"a": [(1, "")], "b": [(NEVER, "")], "c": [(0, "column `x` is missing")]}

    with pytest.raises(TooFewClients) as error:
        play(clock, steps, quorum=2, deadline=50, retries=2)

    assert clock.now == pytest.approx(50)
    assert error.value.exit_code == 5
    assert set(error.value.excluded) == {"a", "b", "c"}
    assert error.value.excluded["c"] == "column `x` is missing"
    assert NO_REPLY in error.value.excluded["b"]


def test_round_ends_a_grace_after_its_quorum_became_impossible(clock):
    refused = (3, "column `x` is missing")
    steps = {"slow": [(400, "")], "first": [(4, "")], "second": [refused], "last": [(1, "")]}

    with pytest.raises(TooFewClients) as error:
        play(clock, steps, quorum="all", deadline=600, grace=10)

    assert clock.now == pytest.approx(13)
    assert error.value.excluded["second"] == "column `x` is missing"
    assert NO_REPLY in error.value.excluded["slow"]


def test_failed_site_is_asked_again_with_growing_pauses_while_others_train(clock):
    down = (0, "no site process answers")
    steps = {"slow": [(40, "")], "killed": [down, down, down, (2, "")]}

    found, script = play(clock, steps, retries=5, backoff=1, deadline=1000)

    assert found == {"slow": "", "killed": ""}
    tries = [at for at, site, _ in script.asked if site == "killed"]
    assert tries == pytest.approx([0, 1, 3, 7])  # 1, 2 and 4 s after each failure
    assert sum(site == "slow" for _, site, _ in script.asked) == 1
    assert clock.now == pytest.approx(40)


def test_retries_are_counted_and_the_last_error_is_kept(clock):
    names = ("first", "second", "third", "fourth")
    steps = {"a": [(1, "")], "b": [(0, f"{NO_PROCESS}: {name}") for name in names]}

    found, script = play(clock, steps, quorum=1, grace=100, retries=2, deadline=1000)

    assert found["b"].endswith("third")
    assert sum(site == "b" for _, site, _ in script.asked) == 3
    assert clock.now < 100  # nobody is left to wait for


def test_silent_site_is_asked_again_because_its_process_may_be_a_new_one(clock):
    found, script = play(clock, {"a": [(NEVER, ""), (1, "")]}, deadline=100)

    assert found == {"a": ""}
    assert [at for at, _, _ in script.asked] == pytest.approx([0, 25])


@pytest.mark.parametrize("error", [PAUSED, "column `torque` is missing"])
def test_site_that_reports_an_error_is_not_asked_again(clock, error):
    _, script = play(clock, {"a": [(1, "")], "b": [(0, error)]}, quorum=1, grace=50)

    assert sum(site == "b" for _, site, _ in script.asked) == 1
    assert clock.now == 1


def test_spares_replace_missing_sites_and_only_those(clock):
    """Two of four asked sites take part; preference goes by name, not by the order of arrival."""
    fast = {"a": [(4, "")], "b": [(3, "")], "c": [(2, "")], "d": [(1, "")]}
    spares = {"participants": 2, "oversampling": 2.0, "grace": 10}
    everyone, _ = play(clock, fast, **spares)
    without_a, _ = play(clock, fast | {"a": [(NEVER, "")]}, **spares)

    assert everyone == {"a": "", "b": "", "c": NOT_NEEDED, "d": NOT_NEEDED}
    assert (without_a["b"], without_a["c"], without_a["d"]) == ("", "", NOT_NEEDED)
    assert NO_REPLY in without_a["a"]


def test_without_spares_each_drawn_site_counts(clock):
    """Poisson sampling of differential privacy draws more sites than expected."""
    steps = {"a": [(1, "")], "b": [(2, "")], "c": [(60, "")]}

    found, _ = play(clock, steps, participants=2, grace=10)

    assert found == dict.fromkeys(steps, "")


@pytest.mark.parametrize("late", ["drop", "weight"])
def test_late_answer_belongs_to_its_own_round(clock, late):
    script = Script(clock, {"a": [(1, ""), (NEVER, "")], "b": [(8, ""), (1, "")]})
    wrapped = ContractTransport(
        transport=script,
        contract=RoundContract(quorum=1, grace=4, late=late, retries=0),
        participants=2,
        preference=lambda number: ("a", "b"),
    )
    rounds = []
    for number in (1, 2):
        requests = {site: Message(kind="train", round=number) for site in ("a", "b")}
        replies = wrapped.exchange(requests, seconds=NEVER)
        rounds.append([(one.site, one.message and one.message.round) for one in replies])

    also = [("b", 1)] if late == "weight" else []
    assert rounds == [[("a", 1), ("b", None)], [("a", None), ("b", 2), *also]]


def test_requests_outside_a_round_need_every_site_but_report_the_missing(clock):
    found, _ = play(clock, {"a": [(1, "")], "b": [(0, "broken")]}, kind="evaluate", retries=0)

    assert found == {"a": "", "b": "broken"}


@pytest.mark.parametrize("seed", range(30))
def test_no_schedule_waits_beyond_the_deadline_or_loses_an_answer_in_time(clock, seed):
    """Random failures: every answer that a naive loop sees by the end of the round is used."""
    draw = torch.Generator().manual_seed(seed)
    number = int(torch.randint(1, 6, (), generator=draw))
    sites = {
        f"s{place}": [
            (float(torch.rand((), generator=draw)) * 30, "")
            if float(torch.rand((), generator=draw)) < 0.5
            else (float(torch.rand((), generator=draw)) * 5, NO_PROCESS)
            for _ in range(4)
        ]
        for place in range(number)
    }
    try:
        found, script = play(clock, sites, quorum=1, grace=10, deadline=20, retries=3)
    except TooFewClients:
        assert clock.now <= 20 + 1e-6
        return
    assert clock.now <= 20 + 1e-6
    first = dict.fromkeys(sites, NEVER)  # when each site's first answer arrived
    tries = dict.fromkeys(sites, 0)
    for at, site, _ in script.asked:
        wait, error = sites[site][min(tries[site], 3)]
        tries[site] += 1
        if not error:
            first[site] = min(first[site], at + wait)
    end = min(20.0, min(first.values()) + 10)
    assert {s for s, error in found.items() if not error} == {
        s for s, at in first.items() if at <= end
    }
    assert max(tries.values()) <= 4


def test_run_starts_when_all_sites_are_present(clock):
    script = Script(clock, {"a": [(0, "")], "b": [(5, "")], "c": [(NEVER, "")]})

    wait_for_sites(RoundContract(), script, ("a", "b"))

    assert 5 <= clock.now < 6
    with pytest.raises(FederationError, match=r"(?s)not all sites.*2 of 3; missing: c"):
        wait_for_sites(RoundContract(start_seconds=60), script, ("a", "b", "c"))
    assert 60 <= clock.now < 70


@pytest.mark.parametrize(("rounds", "factor"), [(0, 1.0), (1, 2**-0.5), (3, 0.5)])
def test_staleness_factor_is_polynomial(rounds, factor):
    assert RoundContract().staleness_factor(rounds) == pytest.approx(factor)


def test_exclusions_say_who_decided_and_what_to_do():
    assert explain_exclusion(f"{NO_REPLY} (60 s)").decided_by == "contract"
    assert "fedkg site resume" in explain_exclusion(PAUSED).help
    assert explain_exclusion("its update has NaN in w (1 of 2 values)").decided_by == "server"
    assert explain_exclusion("column `x` is missing").decided_by == "site process"


def test_answer_to_a_request_that_was_sent_twice_counts_once(clock):
    """The site answers both copies; the second arrives in the next round and is no late update."""
    script = Script(clock, {"a": [(1, "")], "b": [(3, ""), (3, ""), (NEVER, "")]})
    transport = ContractTransport(
        transport=script,
        contract=RoundContract(quorum=1, grace=4, late="weight", retries=1, deadline=8),
        participants=2,
        preference=lambda number: ("a", "b"),
    )
    first = [
        (reply.site, reply.message.round)
        for reply in transport.exchange(
            {site: Message(kind="train", round=1) for site in ("a", "b")}, seconds=8
        )
        if reply.message is not None
    ]
    assert first == [("a", 1), ("b", 1)]
    assert len(script.asked) == 3  # b was asked again after a quarter of the deadline

    second = [
        (reply.site, reply.message.round)
        for reply in transport.exchange(
            {site: Message(kind="train", round=2) for site in ("a", "b")}, seconds=8
        )
        if reply.message is not None
    ]
    assert second == [("a", 2)]
