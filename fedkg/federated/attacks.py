"""Simulated attacks: what some clients send instead of an honest update.

The server's steps do not know who attacks. An attack changes the data or the updates of its
clients, between the executor and the server, so that all executors give the same numbers.

Letters: N clients in all, A attackers, C clients of a stack, H outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedkg._internal.safe_text import list_first
from fedkg.algorithm_compatibility import ATTACKS, AttackKind, Attacks, count_attackers
from fedkg.errors import JobError
from fedkg.federated.client.task_losses import BinaryCrossEntropy, CoxLoss, CrossEntropy
from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.client_state_store import equal_rows
from fedkg.federated.randomness import ATTACK, cohort
from fedkg.federated.server.scoring import ScoreOptions, kept_share
from fedkg.models.model_protocols import Model, Params

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Updates
    from fedkg.federated.problem import Problem
    from fedkg.federated.state import ServerState

SCALE = 10.0
"""Factor of `scaled_update`, as in the model replacement of Bagdasaryan et al. 2020, which needs a
factor of the order of the number of clients."""

LEVELS = (-8.0, -3.0, -1.0, 0.0, 1.0, 3.0, 8.0)
"""Constant raw outputs that a poisoned model may answer, as logits or standardised numbers: a
logit of 8 is a probability of 0.9997."""

SENT_IN = "attack/round"
"""In `ServerState.clients`: the round of the update that a client replays; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An attack by some clients, from a round on.

    Args:
        kind: ``flipped_labels`` trains on swapped labels (class y of 0 .. L becomes L - y, a
            standardised number changes its sign), ``constant_label`` on the last class alone.
            ``scaled_update`` and ``sign_flipped_update`` change the honest update.
            ``replayed_update`` sends the client's last update before `first_round` again and again
            (its first one, if it was never sampled before). ``nan_update`` sends NaN.
            ``constant_model`` sends an update to a model that answers the last class, or the
            largest number, for all inputs; ``rule_satisfying_model`` to the constant model that
            satisfies most constraints on the server's probe: a worst case, because the attacker
            knows the probe. ``inflated_score`` sends the honest update, and claims that it
            satisfies all rules; it needs `Settings.scores_at_sites`.
        share: share of the N clients that attack, at least one client if above 0. The seed of the
            training chooses them; a larger share contains the attackers of a smaller one.
        clients: names of the attackers, instead of a share.
        first_round: the first round of the attack, from 1.
        factor: factor of the update that is sent; None: `SCALE` for ``scaled_update``, else 1.

    Raises:
        JobError: an argument is out of its range.
    """

    kind: AttackKind
    share: float = 0.0
    clients: tuple[str, ...] = ()
    first_round: int = 1
    factor: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ATTACKS:
            raise JobError(
                "`kind` of an attack has an unknown value",
                expected=", ".join(ATTACKS),
                received=str(self.kind),
            )
        if not 0 <= self.share <= 1:
            raise JobError(
                "`share` of an attack, the share of clients that attack, is out of range",
                expected="0 .. 1",
                received=str(self.share),
            )
        if self.share and self.clients:
            raise JobError(
                "an attack has both `share` and `clients`, and each of them chooses the attackers",
                received=f"share {self.share:g}, and clients {', '.join(self.clients)}",
                help="leave one of the two out",
            )
        if self.first_round < 1:
            raise JobError(
                "`first_round` of an attack must be at least 1", received=str(self.first_round)
            )
        if self.factor is not None and not (math.isfinite(self.factor) and self.factor > 0):
            raise JobError(
                "`factor` of an attack must be a finite number above 0", received=str(self.factor)
            )

    @property
    def changes(self) -> Attacks:
        """What the attackers change; an attack on labels sends honest updates of them."""
        return ATTACKS[self.kind]

    def count(self, population: int) -> int:
        """The number of attackers among N clients."""
        return len(set(self.clients)) or count_attackers(self.share, population)

    def attackers(self, names: Sequence[str], seed: int) -> tuple[int, ...]:
        """Positions of the attackers among all clients, ascending.

        Raises:
            JobError: `clients` has a name that is not in `names`.
        """
        if self.clients:
            unknown = sorted(set(self.clients) - set(names))
            if unknown:
                raise JobError(
                    "the attack names clients that do not exist",
                    expected=list_first(names, 10),
                    received=", ".join(unknown),
                    help="correct the names; in a job file they are in `simulation.attacks.sites`",
                )
            return tuple(place for place, name in enumerate(names) if name in self.clients)
        size = self.count(len(names))
        return tuple(cohort(seed, 0, len(names), size, purpose=ATTACK).tolist()) if size else ()

    def initial_memory(self, models: Params, population: int) -> Params:
        """What a replay remembers of each client, each [N, ...]: its update, and the round of it;
        nothing for other attacks.
        """
        if self.kind != "replayed_update":
            return {}
        first = next(iter(models.values()))
        return equal_rows(
            {SENT_IN: torch.zeros(1, dtype=torch.int64, device=first.device)}
            | {f"attack/{name}": torch.zeros_like(value[:1]) for name, value in models.items()},
            population,
        )

    def with_wrong_labels(self, problem: Problem, seed: int) -> Problem:
        """The problem in which the attackers have wrong labels; for attacks by labels.

        Raises:
            JobError: ``constant_label``, and the clients predict numbers.
        """
        ys = list(problem.clients.y)
        for place in self.attackers(problem.clients.names, seed):
            ys[place] = self._wrong(problem, ys[place])
        return replace(problem, clients=replace(problem.clients, y=tuple(ys)))

    def _wrong(self, problem: Problem, y: Tensor) -> Tensor:
        match problem.loss:
            case BinaryCrossEntropy():
                last = 1
            case CrossEntropy():
                last = max(int(one.max()) for one in problem.clients.y)
            case CoxLoss():
                raise JobError(
                    f"the attack `{self.kind}` changes labels, and survival data has none",
                    help="choose an attack that changes updates, such as `sign_flipped_update`",
                )
            case _ if self.kind == "flipped_labels":
                return -y
            case _:
                raise JobError(
                    "the attack `constant_label` needs classes, and the clients predict numbers",
                    help="choose `flipped_labels`, which changes the sign of standardised numbers",
                )
        return wrong_labels(y, self.kind, last)


def wrong_labels(y: Tensor, kind: AttackKind, last: int) -> Tensor:
    """Labels of 0 .. last, each wrong, of the type of `y`: ``last - y`` if flipped, else `last`."""
    return last - y if kind == "flipped_labels" else torch.full_like(y, last)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attackers:
    """The clients that attack in a training.

    Attributes:
        attack: what they do.
        clients: bool [N], who they are.
        model: the model [...] that they send; None for attacks that send no fixed model.
    """

    attack: Attack
    clients: Tensor
    model: Params | None = None

    def active(self, round: int, clients: Tensor) -> Tensor:
        """bool [C], which of these clients attack in a round."""
        return self.clients[clients] & (round >= self.attack.first_round)

    def change(self, state: ServerState, stacks: Iterator[Updates]) -> Iterator[Updates]:
        """The stacks of a round with what the attackers send instead."""
        if self.attack.changes in ("labels", "score"):
            return stacks
        return (self._changed(state, updates) for updates in stacks)

    def change_scores(self, state: ServerState, stacks: Iterator[Updates]) -> Iterator[Updates]:
        """The stacks of a round, where attackers by ``inflated_score`` claim to satisfy every
        constraint that is evaluated.
        """
        for updates in stacks:
            told = updates.violation
            if self.attack.changes == "score" and told is not None:
                active = self.active(state.round + 1, updates.clients)[:, None]
                claimed = torch.where(active & ~told.isnan(), torch.zeros_like(told), told)
                updates = replace(updates, violation=claimed)
            yield updates

    def _changed(self, state: ServerState, updates: Updates) -> Updates:
        active = self.active(state.round + 1, updates.clients)
        memory = {}
        if self.attack.kind == "replayed_update":
            memory = self._remembered(state, updates, active)
        elif not bool(active.any()):
            return updates
        factor = self.attack.factor
        if factor is None:
            factor = SCALE if self.attack.kind == "scaled_update" else 1.0
        return replace(
            updates,
            update={
                name: torch.where(
                    per_client(active, value), factor * self._sent(name, updates, memory), value
                )
                for name, value in updates.update.items()
            },
            client_memory=updates.client_memory | memory,
        )

    def _sent(self, name: str, updates: Updates, memory: Params) -> Tensor:
        """What the clients [C, ...] would send of a parameter if all of them attacked."""
        honest = updates.update[name]
        match self.attack.kind:
            case "sign_flipped_update":
                return -honest
            case "nan_update":
                return torch.full_like(honest, torch.nan)
            case "replayed_update":
                return memory[f"attack/{name}"]
            case "scaled_update":
                return honest
            case _:
                assert self.model is not None
                return self.model[name] - updates.start[name]

    def _remembered(self, state: ServerState, updates: Updates, active: Tensor) -> Params:
        """The memory of a stack after its round: of clients that do not attack yet, and of
        attackers without an update to replay, the update of this round.
        """
        sent_in = state.clients[SENT_IN][updates.clients]
        new = self.clients[updates.clients] & (~active | (sent_in == 0))
        found = {SENT_IN: torch.where(new, state.round + 1, sent_in)}
        for name, value in updates.update.items():
            before = state.clients[f"attack/{name}"][updates.clients]
            found[f"attack/{name}"] = torch.where(per_client(new, value), value, before)
        return found


def attackers_of(problem: Problem, seed: int) -> Attackers | None:
    """The attackers of a training; None without an attack.

    Raises:
        JobError: an attacker is not a client; the model cannot answer a constant; or the attack
            needs rules, and the problem has none.
    """
    attack = problem.attack
    if attack is None:
        return None
    names, device = problem.clients.names, problem.clients.x[0].device
    places = attack.attackers(names, seed)
    clients = torch.zeros(len(names), dtype=torch.bool, device=device)
    clients[list(places)] = True
    model = None
    if places and attack.kind in ("constant_model", "rule_satisfying_model"):
        candidates = constant_models(problem)
        best = len(next(iter(candidates.values()))) - 1
        if attack.kind == "rule_satisfying_model":
            best = _most_valid(problem, candidates)
        model = {name: value[best] for name, value in candidates.items()}
    return Attackers(attack=attack, clients=clients, model=model)


def constant_models(problem: Problem) -> Params:
    """Models [H or L, ...] with one answer for all inputs.

    For classes, model h prefers class h by the largest of `LEVELS`; otherwise model l answers
    level l in all outputs. With all parameters 0 a model answers a constant, and for an input of 0
    only the last biases have a gradient: a step along it changes the constant.

    Raises:
        JobError: the answer does not depend on any parameter at 0.
    """
    x = torch.zeros_like(problem.clients.x[0][:1])
    first = problem.model.init(0, x.dtype)
    zero = {name: torch.zeros_like(value, device=x.device) for name, value in first.items()}
    outputs = _answer(problem.model, zero, x).numel()
    classes = isinstance(problem.loss, CrossEntropy)
    wanted = (
        [(LEVELS[-1], torch.arange(outputs, device=x.device) == h) for h in range(outputs)]
        if classes
        else [(level, torch.ones(outputs, dtype=torch.bool, device=x.device)) for level in LEVELS]
    )
    return _stacked([_constant(problem.model, zero, x, *one) for one in wanted])


def _constant(model: Model, zero: Params, x: Tensor, level: float, chosen: Tensor) -> Params:
    """The model that answers `level` in the outputs bool [H], and as at 0 in the others."""
    params = {name: value.clone() for name, value in zero.items()}
    for place in chosen.nonzero().flatten().tolist():
        with torch.enable_grad():
            free = {name: value.clone().requires_grad_() for name, value in zero.items()}
            answer = _answer(model, free, x).flatten()[place]
            found = torch.autograd.grad(answer, list(free.values()), allow_unused=True)
        slopes = {name: slope for name, slope in zip(free, found, strict=True) if slope is not None}
        length = sum(float(slope.double().square().sum()) for slope in slopes.values())
        if not length > 0:
            raise JobError(
                "the attack sends a model with constant outputs, and this model cannot have such "
                "outputs",
                help="choose another attack, such as `sign_flipped_update`",
            )
        for name, slope in slopes.items():
            params[name] += (level - float(answer.detach())) / length * slope
    return params


def _answer(model: Model, params: Params, x: Tensor) -> Tensor:
    """The raw outputs of one model [...] for one sample."""
    return model.apply({name: value.unsqueeze(0) for name, value in params.items()}, x)


def _stacked(models: list[Params]) -> Params:
    return {name: torch.stack([one[name] for one in models]) for name in models[0]}


def _most_valid(problem: Problem, models: Params) -> int:
    """The position of the model with the highest validity, then the fewest violations; of equal
    ones the last.
    """
    scorer = problem.scorer
    if scorer is None or not scorer.rows.count:
        raise JobError(
            "the attack `rule_satisfying_model` needs rules about outputs of the model",
            help="add rules, or choose another attack, such as `constant_model`",
        )
    scores = scorer.score(models)
    valid = kept_share(scores.violation, scorer.rows, ScoreOptions()).nan_to_num(1.0).tolist()
    less = (-scores.violation.double().nanmean(1)).nan_to_num(0.0).tolist()
    return max(range(len(valid)), key=lambda place: (valid[place], less[place], place))
