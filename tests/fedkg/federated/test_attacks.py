"""Simulated attacks: each against what it should send, in all executors, and resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from federations import FunctionScorer, classes, identical, largest_difference, rows
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedkg.algorithm_compatibility import ATTACKS, AttackKind
from fedkg.errors import JobError
from fedkg.exclusion_reasons import NO_REPLY
from fedkg.federated import (
    ALGORITHMS,
    BinaryCrossEntropy,
    Clients,
    Problem,
    Settings,
    SquaredError,
    WorkerPool,
    fedavg,
    from_tensors,
    initial_state,
    to_tensors,
    train,
)
from fedkg.federated.algorithms import centralised, local_only, median, pcfedavg
from fedkg.federated.attacks import LEVELS, SCALE, Attack
from fedkg.federated.executors import Stacked, Updates, Work
from fedkg.federated.problem import pool
from fedkg.federated.round import run_round
from fedkg.federated.round_record import RoundRecord
from fedkg.federated.server.scoring import Weighed
from fedkg.federated.state import ServerState
from fedkg.models import MLP, Params

SIZES = (14, 9, 22, 5, 17)
KINDS = tuple(ATTACKS)
SETTINGS = Settings(
    rounds=4, participation=0.8, local_epochs=2, batch=8, learning_rate=0.1, executor="sequential"
)


def settings_for(kind: AttackKind) -> Settings:
    """The settings under which an attack changes something."""
    return replace(SETTINGS, scores_at_sites=ATTACKS[kind] == "score")


def detection(attack: Attack | None = None, hidden: tuple[int, ...] = (6,)) -> Problem:
    """Five sites of unequal size that predict 0 or 1, and a rule: at most half of the answers of
    the first ten inputs are below 0.5.
    """
    generator = torch.Generator().manual_seed(3)
    xs = tuple(torch.randn(size, 3, generator=generator, dtype=torch.float64) for size in SIZES)
    ys = tuple((x[:, 0] > 0).double() for x in xs)
    model = MLP(inputs=3, hidden=hidden, outputs=1)
    probe = torch.cat(xs)[:10]

    def violated(params: Params) -> Tensor:
        low = (model.apply(params, probe).squeeze(-1) < 0).double().mean(1, keepdim=True)
        return (low > 0.5).double()

    return Problem(
        model=model,
        loss=BinaryCrossEntropy(),
        clients=Clients(names=tuple(f"site_{i}" for i in range(5)), x=xs, y=ys),
        scorer=FunctionScorer(rows=rows(1), violation=violated),
        attack=attack,
    )


def rounds(
    problem: Problem, settings: Settings = SETTINGS, **options: object
) -> list[tuple[ServerState, RoundRecord]]:
    return list(train(problem, fedavg(), settings, **options))


def honest(problem: Problem) -> Problem:
    return replace(problem, attack=None)


def one_round(attack: Attack, problem: Problem | None = None) -> tuple[Params, Params, Params]:
    """The updates of the only client in one round: with the attack, honest, and its start."""
    problem = replace(problem or detection(), attack=attack)
    only = replace(
        problem,
        clients=Clients(names=("site_0",), x=problem.clients.x[:1], y=problem.clients.y[:1]),
    )
    settings = replace(SETTINGS, rounds=1, participation=1.0)
    start = only.model.init(settings.seed, torch.float64)
    [(attacked, _)], [(clean, _)] = rounds(only, settings), rounds(honest(only), settings)
    return (
        {name: attacked.params[name] - start[name] for name in start},
        {name: clean.params[name] - start[name] for name in start},
        start,
    )


BY = ("site_0",)


@pytest.mark.parametrize(
    ("kind", "factor", "times"),
    [
        ("scaled_update", None, SCALE),
        ("scaled_update", 3.0, 3.0),
        ("sign_flipped_update", None, -1.0),
        ("sign_flipped_update", 2.5, -2.5),
    ],
)
def test_a_changed_update_is_a_multiple_of_the_honest_one(
    kind: AttackKind, factor: float | None, times: float
) -> None:
    sent, clean, _ = one_round(Attack(kind=kind, clients=BY, factor=factor))
    for name, value in clean.items():
        torch.testing.assert_close(sent[name], times * value)


@pytest.mark.parametrize("kind", ["constant_model", "rule_satisfying_model"])
@pytest.mark.parametrize("hidden", [(6,), ()])
def test_a_poisoned_model_answers_one_constant(kind: AttackKind, hidden: tuple[int, ...]) -> None:
    """Here the rule demands answers above 0.5, so both attacks answer the largest number."""
    problem = detection(hidden=hidden)
    sent, _, start = one_round(Attack(kind=kind, clients=BY), problem)
    model = {name: (start[name] + sent[name]).unsqueeze(0) for name in sent}
    answers = problem.model.apply(model, torch.randn(50, 3, dtype=torch.float64))
    torch.testing.assert_close(answers, torch.full_like(answers, LEVELS[-1]))


def test_a_rule_satisfying_model_has_full_validity() -> None:
    """A rule that forbids large answers makes it answer another constant than `constant_model`."""
    problem = detection()
    assert problem.scorer is not None
    inner = problem.model

    def violated(params: Params) -> Tensor:
        answers = inner.apply(params, torch.zeros(1, 3, dtype=torch.float64))[..., 0]
        return torch.stack([answers > 2.0, answers < 0.5], -1).double().flatten(1)

    problem = replace(problem, scorer=FunctionScorer(rows=rows(2), violation=violated))
    attack = Attack(kind="rule_satisfying_model", clients=("site_2",))
    for _, record in rounds(replace(problem, attack=attack)):
        assert record.validity is not None
        for name, valid in zip(record.clients, record.validity, strict=True):
            assert name != "site_2" or valid == 1.0


def test_constant_models_of_classes_prefer_one_class() -> None:
    problem = classes(SIZES, outputs=4)
    sent, _, start = one_round(Attack(kind="constant_model", clients=BY), problem)
    model = {name: (start[name] + sent[name]).unsqueeze(0) for name in sent}
    answers = problem.model.apply(model, torch.randn(50, 6, dtype=torch.float64))
    assert set(answers.argmax(-1).flatten().tolist()) == {3}


def test_nan_is_rejected_by_name() -> None:
    for _, record in rounds(detection(Attack(kind="nan_update", clients=("site_3",)))):
        expected = {"site_3"} & set(record.clients)
        assert set(record.excluded) == expected == set(record.attackers)
        assert all("NaN" in reason for reason in record.excluded.values())


@pytest.mark.parametrize(("make", "last"), [(detection, 1), (lambda: classes(SIZES), 3)])
@pytest.mark.parametrize("place", [0, 2])
def test_flipped_labels_are_those_of_a_problem_with_flipped_labels(
    make: Callable[[], Problem], last: int, place: int
) -> None:
    attack = Attack(kind="flipped_labels", clients=(f"site_{place}",))
    problem = replace(make(), attack=attack)
    wrong = list(problem.clients.y)
    wrong[place] = last - wrong[place]
    other = replace(honest(problem), clients=replace(problem.clients, y=tuple(wrong)))
    for (state, _), (expected, _) in zip(rounds(problem), rounds(other), strict=True):
        assert identical(state.models, expected.models)


def test_flipped_numbers_change_their_sign_and_constants_need_classes() -> None:
    problem = replace(detection(), loss=SquaredError())
    attack = Attack(kind="flipped_labels", clients=("site_1",))
    wrong = list(problem.clients.y)
    wrong[1] = -wrong[1]
    other = replace(problem, clients=replace(problem.clients, y=tuple(wrong)))
    for (state, _), (expected, _) in zip(
        rounds(replace(problem, attack=attack)), rounds(other), strict=True
    ):
        assert identical(state.models, expected.models)
    with pytest.raises(JobError, match="needs classes"):
        rounds(replace(problem, attack=replace(attack, kind="constant_label")))


def test_a_replayed_update_is_the_last_one_before_the_attack() -> None:
    """Alone in its federation, the attacker's update is the change of the model."""
    settings = replace(SETTINGS, rounds=6, participation=1.0)
    problem = detection()
    only = replace(
        problem,
        clients=Clients(names=("site_0",), x=problem.clients.x[:1], y=problem.clients.y[:1]),
        attack=Attack(kind="replayed_update", clients=BY, first_round=4),
    )
    found = rounds(only, settings)
    for (state, _), (expected, _) in zip(found[:3], rounds(honest(only), settings), strict=False):
        assert identical(state.models, expected.models)
    for name, value in found[2][0].params.items():
        third = value - found[1][0].params[name]
        for later in (3, 4, 5):
            step = found[later][0].params[name] - found[later - 1][0].params[name]
            torch.testing.assert_close(step, third)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if ATTACKS[kind] != "score"])
def test_an_attack_begins_in_its_round(kind: AttackKind) -> None:
    problem = detection(Attack(kind=kind, clients=("site_0", "site_4"), first_round=3))
    attacked, clean = rounds(problem), rounds(honest(problem))
    for place, ((state, record), (expected, _)) in enumerate(zip(attacked, clean, strict=True), 1):
        assert identical(state.models, expected.models) == (place < 3)
        assert record.attackers == tuple(
            name for name in record.clients if place >= 3 and name in ("site_0", "site_4")
        )
    notes = attacked[0][1].notes
    assert f"{kind} from round 3 on by site_0, site_4" in notes


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerPool]:
    with WorkerPool(2) as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_executors_send_the_same(kind: AttackKind, workers: WorkerPool) -> None:
    problem = detection(Attack(kind=kind, share=0.4, first_round=2))
    expected = rounds(problem, settings_for(kind))
    for executor in ("stacked", "processes"):
        settings = replace(settings_for(kind), executor=executor, chunk=2)
        found = rounds(problem, settings, crew=workers)
        for (state, record), (same, was) in zip(found, expected, strict=True):
            assert largest_difference(state.models, same.models) < 1e-12
            assert (record.attackers, record.excluded) == (was.attackers, was.excluded)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [1, 3])
def test_an_attack_resumes_to_the_bit(kind: AttackKind, stop: int, tmp_path: Path) -> None:
    problem = detection(Attack(kind=kind, share=0.4, first_round=3))
    settings = settings_for(kind)
    whole = rounds(problem, settings)
    tensors, document = to_tensors(whole[stop - 1][0])
    save_file(tensors, tmp_path / "state.safetensors")
    saved = from_tensors(
        load_file(tmp_path / "state.safetensors"), json.loads(json.dumps(document))
    )
    rest = rounds(problem, settings, state=saved)
    assert len(rest) == len(whole) - stop
    for (state, record), (expected, was) in zip(rest, whole[stop:], strict=True):
        assert identical(state.models, expected.models)
        assert (record.alpha, record.attackers) == (was.alpha, was.attackers)


def test_the_seed_chooses_attackers_and_larger_shares_contain_smaller_ones() -> None:
    names = tuple(f"site {i}" for i in range(20))
    for seed in range(5):
        found = [
            set(Attack(kind="nan_update", share=share).attackers(names, seed))
            for share in (0.0, 0.01, 0.1, 0.2, 0.4)
        ]
        assert [len(one) for one in found] == [0, 1, 2, 4, 8]
        assert all(less <= more for less, more in pairwise(found))
    chosen = {Attack(kind="nan_update", share=0.1).attackers(names, seed) for seed in range(5)}
    assert len(chosen) > 1


def test_an_inflated_score_is_rejected_if_the_server_scores() -> None:
    with pytest.raises(JobError, match="`inflated_score` changes scores that sites tell"):
        rounds(detection(Attack(kind="inflated_score", share=0.4)))


@pytest.mark.parametrize("algorithm", [local_only(), centralised()], ids=lambda one: one.name)
def test_where_no_update_is_sent_none_can_be_changed(algorithm) -> None:
    wrong = detection(Attack(kind="scaled_update", share=0.2))
    with pytest.raises(JobError, match="no update is sent"):
        next(train(wrong, algorithm, SETTINGS))
    labels = detection(Attack(kind="flipped_labels", share=0.4))
    [*_, (state, _)] = train(labels, algorithm, SETTINGS)
    [*_, (clean, _)] = train(honest(labels), algorithm, SETTINGS)
    if algorithm.pooled:
        assert not identical(state.models, clean.models)


def test_agents_send_no_single_model() -> None:
    with pytest.raises(JobError, match="send the models of all agents"):
        next(
            train(
                detection(Attack(kind="constant_model", share=0.2)),
                pcfedavg(),
                replace(SETTINGS, participation=1.0),
            )
        )


def test_the_median_withstands_what_fedavg_does_not() -> None:
    attack = Attack(kind="sign_flipped_update", clients=("site_2",), factor=20.0)
    problem = detection(attack)
    settings = replace(SETTINGS, participation=1.0)
    [*_, (clean, _)] = train(honest(problem), fedavg(), settings)
    [*_, (mean, _)] = train(problem, fedavg(), settings)
    [*_, (middle, _)] = train(problem, median(), settings)
    near = largest_difference(middle.models, clean.models)
    assert 3 * near < largest_difference(mean.models, clean.models)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "unknown"}, "unknown"),
        ({"share": 1.5}, r"0 \.\. 1"),
        ({"share": 0.2, "clients": ("site_0",)}, "leave one of the two out"),
        ({"first_round": 0}, "at least 1"),
        ({"factor": -1.0}, "must be a finite number above 0"),
        ({"factor": math.inf}, "must be a finite number above 0"),
    ],
)
def test_wrong_arguments_are_named(changes: dict[str, object], said: str) -> None:
    with pytest.raises(JobError, match=said):
        Attack(**{"kind": "nan_update", **changes})


def test_attackers_must_exist_and_rules_must_be_there() -> None:
    with pytest.raises(JobError, match="names clients that do not exist"):
        rounds(detection(Attack(kind="nan_update", clients=("nowhere",))))
    with pytest.raises(JobError, match="j and 2 more\n"):
        Attack(kind="nan_update", clients=("nowhere",)).attackers("abcdefghijkl", 0)
    problem = replace(detection(Attack(kind="rule_satisfying_model", share=0.2)), scorer=None)
    with pytest.raises(JobError, match="needs rules"):
        rounds(problem)


@pytest.mark.parametrize("aggregate", ["krum", "multi_krum"])
@pytest.mark.parametrize(
    ("rejected", "kept"),
    [
        ((), False),
        (("site_0",), False),  # one of the two assumed attackers: six updates withstand the other
        (("site_0", "site_3"), False),
        (("site_0", "site_3", "site_5"), True),  # more than assumed: no proof is left
    ],
)
def test_krum_counts_again_after_unusable_updates(
    aggregate: str, rejected: tuple[str, ...], kept: bool
) -> None:
    """A client that sends NaN is one of the attackers that Krum assumes, so that it cannot stop the
    training; the rest must be enough for the attackers that are left. Six usable updates are too
    few for two attackers.
    """
    generator = torch.Generator().manual_seed(1)
    sizes = (14, 9, 22, 5, 17, 8, 11)
    xs = tuple(torch.randn(size, 3, generator=generator, dtype=torch.float64) for size in sizes)
    problem = replace(
        detection(Attack(kind="nan_update", clients=rejected)),
        clients=Clients(
            names=tuple(f"site_{i}" for i in range(7)),
            x=xs,
            y=tuple((x[:, 0] > 0).double() for x in xs),
        ),
    )
    settings = replace(SETTINGS, rounds=1, participation=1.0)
    start = problem.model.init(settings.seed, torch.float64)
    [(state, record)] = train(problem, ALGORITHMS[aggregate](attackers=2), settings)
    same = all(torch.equal(state.params[name], value) for name, value in start.items())
    assert same == kept == any("the model is unchanged" in note for note in record.notes)
    left = 7 - len(rejected)
    attackers = 2 - len(rejected)
    if not kept:  # the chosen ones, by the formula of the paper with the attackers that are left
        updates = honest_updates(problem, settings, start)
        usable = [k for k in range(7) if f"site_{k}" not in rejected]
        apart = {
            i: sum(
                sorted(float((updates[i] - updates[j]).square().sum()) for j in usable if j != i)[
                    : left - attackers - 2
                ]
            )
            for i in usable
        }
        count = 1 if aggregate == "krum" else left - attackers
        best = set(sorted(usable, key=lambda i: apart[i])[:count])
        assert record.alpha == pytest.approx([(k in best) / count for k in range(7)])


@dataclass(frozen=True)
class Silent:
    """An executor whose first clients do not answer."""

    absent: int

    def train(
        self, work: Work, state: ServerState, clients: Tensor, *, limit: int | None = None
    ) -> Iterator[Updates]:
        reasons = {int(client): NO_REPLY for client in clients[: self.absent]}
        for updates in Stacked(chunk=9).train(work, state, clients[self.absent :]):
            yield replace(updates, rejected=reasons)


@pytest.mark.parametrize(
    ("attackers", "absent", "kept"),
    [
        (1, 2, False),  # five answered, and one of them attacks: 2 + 3
        (1, 3, True),
        (2, 1, True),  # six answered, and both attackers may be among them: seven are needed
        (2, 0, False),
    ],
)
def test_krum_expects_all_attackers_among_those_who_answered(
    attackers: int, absent: int, kept: bool
) -> None:
    """A site that is silent may be honest, unlike one that sends NaN."""
    generator = torch.Generator().manual_seed(1)
    xs = tuple(
        torch.randn(size, 3, generator=generator, dtype=torch.float64)
        for size in (14, 9, 22, 5, 17, 8, 11)
    )
    data = Clients(
        names=tuple(f"site_{i}" for i in range(7)),
        x=xs,
        y=tuple((x[:, 0] > 0).double() for x in xs),
    )
    problem = replace(detection(), clients=data)
    algorithm, settings = ALGORITHMS["multi_krum"](attackers=attackers), replace(SETTINGS, rounds=1)
    settings = replace(settings, participation=1.0)
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(data))
    start = initial_state(problem, algorithm, settings)
    state, record = run_round(work, Silent(absent), start)
    assert len(record.excluded) == absent
    assert identical(state.models, start.models) == kept
    assert any("the model is unchanged" in note for note in record.notes) == kept


@dataclass(frozen=True)
class OnlyOne:
    """Gives all weight to the client with this share of the samples, to see its update."""

    share: float
    on_all_invalid = "skip"
    needs_scores = False

    def weigh(self, samples: Tensor, scores: object, rows: object) -> Weighed:
        return Weighed(((samples - self.share).abs() < 1e-9).double(), None)


def honest_updates(problem: Problem, settings: Settings, start: Params) -> list[Tensor]:
    """The honest update of each client: the change of the model if only this client counts."""
    found = []
    stacked = replace(settings, executor="stacked")
    for samples in problem.clients.samples:
        share = samples / sum(problem.clients.samples)
        algorithm = replace(fedavg(), weighting=OnlyOne(share))
        [(state, _)] = train(replace(problem, attack=None), algorithm, stacked)
        found.append(torch.cat([(state.params[n] - v).flatten() for n, v in start.items()]))
    return found
