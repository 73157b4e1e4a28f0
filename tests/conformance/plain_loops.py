"""Federated algorithms as naive loops, each written from its paper, without product code.

Every loop takes a `Federation`, the initial models [G, P] and the cohort of each round, and returns
the rounds. Where the product departs from a paper, its documentation and a comment in the loop say
so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from plain_rules import Rules, validity

from fedkg.federated.conformance import Array, Federation, Round

Cohorts = Sequence[Sequence[int]]
Extra = Callable[[Array], Array]
Pull = Callable[[int, int, Array], Array]
"""A term to add to the gradient in round 1, 2, ... at a client at w [P]."""
Walk = Callable[[Federation, int, int, Array, Extra | None], Array]
"""Local training of a client from w."""
Send = Callable[[int, int, Array, Array], Array]
"""What a client sends in round 1, 2, ... instead of its honest update [P] of the model [P]."""
Project = Callable[[int, Array], Array]
"""The nearest point of a client's set."""


def descend(f: Federation, number: int, k: int, w: Array, extra: Extra | None = None) -> Array:
    """Local gradient descent of client k from w; extra: a term to add to the gradient."""
    for x, y in f.minibatches(number, k):
        g = f.gradient(w, x, y)
        w = w - f.rate_of(number, k) * (g if extra is None else g + extra(w))
    return w


def honest(number: int, k: int, w: Array, update: Array) -> Array:
    """The honest update."""
    return update


def attack(kind: str, attackers: Sequence[int], first: int, model: Array) -> Send:
    """Attacks on updates from round `first` on; `model` [P] is what a poisoned update leads to."""
    last: dict[int, Array] = {}

    def send(number: int, k: int, w: Array, update: Array) -> Array:
        if k not in attackers:
            return update
        if kind == "replayed_update":  # the last honest update before the attack, or else the first
            if number < first or k not in last:
                last[k] = update
            return last[k]
        if number < first:
            return update
        changed = {"scaled_update": 10 * update, "sign_flipped_update": -update}
        return changed.get(kind, model - w)

    return send


def _updates(
    f: Federation, number: int, cohort: Sequence[int], w: Array, send: Send
) -> list[Array]:
    """What the clients of a round send."""
    return [send(number, k, w, descend(f, number, k, w) - w) for k in cohort]


def momentum_descent(momentum: float, decay: float) -> Walk:
    """Heavy-ball gradient descent with weight decay; the velocity begins at 0 in every round."""

    def walk(f: Federation, number: int, k: int, w: Array, extra: Extra | None) -> Array:
        velocity = np.zeros_like(w)
        for x, y in f.minibatches(number, k):
            g = f.gradient(w, x, y) + (0 if extra is None else extra(w))
            velocity = momentum * velocity + g + decay * w
            w = w - f.rate_of(number, k) * velocity
        return w

    return walk


def adam(beta1: float, beta2: float, tau: float) -> Walk:
    """Kingma and Ba 2015, algorithm 1, restarted in every round."""

    def walk(f: Federation, number: int, k: int, w: Array, extra: Extra | None) -> Array:
        m = v = np.zeros_like(w)
        for t, (x, y) in enumerate(f.minibatches(number, k), 1):
            g = f.gradient(w, x, y) + (0 if extra is None else extra(w))
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
            w = w - f.rate_of(number, k) * m_hat / (np.sqrt(v_hat) + tau)
        return w

    return walk


def by_samples(f: Federation, cohort: Sequence[int]) -> dict[int, float]:
    """n_k / n over the cohort."""
    n = sum(f.sizes[k] for k in cohort)
    return {k: f.sizes[k] / n for k in cohort}


def fedavg(
    f: Federation,
    models: Array,
    cohorts: Cohorts,
    mu: float = 0.0,
    pull: Pull | None = None,
    walk: Walk = descend,
    send: Send = honest,
) -> list[Round]:
    """McMahan et al. 2017, algorithm 1; with mu above 0 FedProx (Li et al. 2020, algorithm 2)."""
    [w], rounds = models, []
    for number, cohort in enumerate(cohorts, 1):
        alpha, received, ends = by_samples(f, cohort), w, {}
        for k in cohort:

            def extra(v: Array, number: int = number, k: int = k, r: Array = received) -> Array:
                return mu * (v - r) + (0 if pull is None else pull(number, k, v))

            update = walk(f, number, k, received, extra) - received
            ends[k] = received + send(number, k, received, update)
        w = received + sum(alpha[k] * (ends[k] - received) for k in cohort)
        rounds.append(Round(models=w[None], alpha=alpha))
    return rounds


def local_only(f: Federation, models: Array, cohorts: Cohorts) -> list[Round]:
    """Every client continues with its own model; nothing is sent."""
    own, rounds = {k: models[0].copy() for k in range(len(f.x))}, []
    for number, cohort in enumerate(cohorts, 1):
        for k in cohort:
            own[k] = descend(f, number, k, own[k])
        rounds.append(Round(models=models, alpha=by_samples(f, cohort), own=dict(own)))
    return rounds


class AllInvalid(Exception):
    """No update of a round has any weight, and SCFA is configured to stop there."""


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """SCFA's options (specification, sections 3.1, 3.2 and P16); the defaults are the paper's."""

    combine: str = "mean"
    beta: float = 1.0
    graded: bool = False
    hard_tolerance: float = 0.0
    soft_tolerance: float = 0.05
    on_all_invalid: str = "skip"
    relative: bool = False

    def score(self, rules: Rules, shares: Array) -> float:
        """s_k of a model that violates the constraints on these shares of the rows, [M].

        NaN: not evaluated.
        """
        kept = shares <= np.where(rules.hard, self.hard_tolerance, self.soft_tolerance)
        v = np.where(np.isnan(shares), np.nan, 1 - shares if self.graded else kept)
        if self.combine == "mean":
            s = validity(v, rules.weight)
        else:
            of_family = [
                validity(v[rules.family == one], rules.weight[rules.family == one])
                for one in np.unique(rules.family)
            ]
            known = [one for one in of_family if not np.isnan(one)]
            s = float(np.prod(known) if self.combine == "product" else min(known, default=1.0))
            s = float("nan") if not known else s
        return float(s**self.beta)

    def factor(self, rules: Rules, end: Array, w: Array) -> float:
        """The score of a client's model, 1 if it has none; relative: divided by that of the current
        model w, at most 1.
        """
        s, now = (self.score(rules, rules.shares(one)) for one in (end, w))
        s, now = (1.0 if np.isnan(one) else one for one in (s, now))
        if not self.relative:
            return s
        return min(1.0, s / now) if now > 0 else 1.0


def scfa(
    f: Federation,
    models: Array,
    cohorts: Cohorts,
    rules: Rules,
    scoring: Scoring,
    *,
    mu: float = 0.0,
    walk: Walk = descend,
    step: Callable[[Array, Array], Array] = lambda w, update: w + update,
) -> list[Round]:
    """Arafat, SCFA, algorithm 1. A client without an evaluated constraint counts by n_k.

    Args:
        mu, walk, step: the proximal term, the local optimiser, the server's step.
    """
    [w], rounds = models, []
    for number, cohort in enumerate(cohorts, 1):
        ends = {k: walk(f, number, k, w, lambda v, received=w: mu * (v - received)) for k in cohort}
        raw = {k: f.sizes[k] * scoring.factor(rules, ends[k], w) for k in cohort}
        if sum(raw.values()) == 0:
            if scoring.on_all_invalid == "error":
                raise AllInvalid
            if scoring.on_all_invalid == "fedavg":
                raw = {k: float(f.sizes[k]) for k in cohort}
        total = sum(raw.values())
        alpha = {k: one / total if total else 0.0 for k, one in raw.items()}
        if total:
            w = step(w, sum(alpha[k] * (ends[k] - w) for k in cohort))
        rounds.append(Round(models=w[None], alpha=alpha))
    return rounds


def pcfedavg(
    f: Federation,
    models: Array,
    cohorts: Cohorts,
    project: Project,
    strength: Sequence[float],
    penalty: Callable[[int], float],
    step: Callable[[int], float],
) -> tuple[list[Round], list[Array]]:
    """PC-FedAvg: section 2 of the specification, and the mean of the server's blocks so far.

    Args:
        models: the blocks x_1 .. x_m at the start.
        project: onto X_i.
        strength: lambda_i of each agent.
        penalty, step: rho_r and gamma_r of round 1, 2, ...
    """
    blocks, m = models.copy(), len(f.x)
    rounds, means, total = [], [], np.zeros_like(models)
    for number, cohort in enumerate(cohorts, 1):
        sent = []
        for i in range(m):
            x = blocks.copy()
            for rows, y in f.minibatches(number, i):
                z = x.mean(0)
                g, e = f.gradient(z, rows, y), x[i] - z
                move = np.repeat((g / m - strength[i] / m * e)[None], m, 0)
                outside = penalty(number) * (x[i] - project(i, x[i]))
                move[i] = g / m + strength[i] * (1 - 1 / m) * e + outside
                x = x - step(number) * move
            sent.append(x)
        blocks = np.mean(sent, 0)
        total = total + blocks
        means.append(total / number)
        rounds.append(Round(models=blocks, alpha=dict.fromkeys(cohort, 1 / m)))
    return rounds, means


def fedopt(
    f: Federation,
    models: Array,
    cohorts: Cohorts,
    kind: str,
    rate: float,
    beta1: float,
    beta2: float,
    tau: float,
) -> list[Round]:
    """Reddi et al. 2021, algorithm 2: FedAdagrad, FedYogi, FedAdam.

    The mean of updates is weighted by samples, as in FedAvg.
    """
    [w], rounds = models, []
    m, v = np.zeros_like(w), np.full_like(w, tau**2)
    for number, cohort in enumerate(cohorts, 1):
        alpha = by_samples(f, cohort)
        d = sum(alpha[k] * (descend(f, number, k, w) - w) for k in cohort)
        m = beta1 * m + (1 - beta1) * d
        if kind == "adagrad":
            v = v + d**2
        elif kind == "yogi":
            v = v - (1 - beta2) * d**2 * np.sign(v - d**2)
        else:
            v = beta2 * v + (1 - beta2) * d**2
        w = w + rate * m / (np.sqrt(v) + tau)
        rounds.append(Round(models=w[None], alpha=alpha))
    return rounds


def scaffold(
    f: Federation, models: Array, cohorts: Cohorts, rate: float, pull: Pull | None = None
) -> list[Round]:
    """Karimireddy et al. 2020, algorithm 1, option II.

    Means are weighted by samples; the paper has 1 / |S| and 1 / N.
    """
    [x], rounds = models, []
    c, own = np.zeros_like(x), {k: np.zeros_like(x) for k in range(len(f.x))}
    share = {k: f.sizes[k] / sum(f.sizes) for k in own}
    for number, cohort in enumerate(cohorts, 1):
        alpha, update, change = by_samples(f, cohort), np.zeros_like(x), np.zeros_like(x)
        for k in cohort:

            def extra(v: Array, number: int = number, k: int = k, c: Array = c) -> Array:
                return c - own[k] + (0 if pull is None else pull(number, k, v))

            y = descend(f, number, k, x, extra)
            steps, step = len(f.minibatches(number, k)), f.rate_of(number, k)
            new = own[k] - c + (x - y) / (steps * step)
            update += alpha[k] * (y - x)
            change += share[k] * (new - own[k])
            own[k] = new
        x, c = x + rate * update, c + change
        rounds.append(Round(models=x[None], alpha=alpha))
    return rounds


def scaffnew(f: Federation, models: Array, cohorts: Cohorts) -> list[Round]:
    """Mishchenko et al. 2022, algorithm 2.

    The number of steps S between two averages is fixed, so p = 1 / S.
    """
    [x], rounds = models, []
    h = {k: np.zeros_like(x) for k in range(len(f.x))}
    for number, cohort in enumerate(cohorts, 1):
        alpha = by_samples(f, cohort)
        ends = {k: descend(f, number, k, x, lambda v, pull=-h[k]: pull) for k in cohort}
        x = x + sum(alpha[k] * (ends[k] - x) for k in cohort)
        for k in cohort:
            steps, step = len(f.minibatches(number, k)), f.rate_of(number, k)
            h[k] = h[k] + (x - ends[k]) / (steps * step)
        rounds.append(Round(models=x[None], alpha=alpha))
    return rounds


def fedrep(f: Federation, models: Array, cohorts: Cohorts, first: float) -> list[Round]:
    """Collins et al. 2021, algorithm 1.

    A share of the local steps trains the head alone, the others the body; the head stays at the
    client.
    """
    [w], rounds, head = models, [], f.head
    own = {k: w.copy() for k in range(len(f.x))}
    for number, cohort in enumerate(cohorts, 1):
        alpha, update = by_samples(f, cohort), np.zeros_like(w)
        for k in cohort:
            v = np.where(head, own[k], w)
            batches = f.minibatches(number, k)
            heads = int(first * len(batches) + 0.5)
            for step, (x, y) in enumerate(batches):
                moved = head if step < heads else ~head
                v = v - f.rate_of(number, k) * np.where(moved, f.gradient(v, x, y), 0)
            own[k] = v
            update += alpha[k] * np.where(head, 0, v - w)
        w = w + update
        used = {k: np.where(head, own[k], w) for k in own}
        rounds.append(Round(models=w[None], alpha=alpha, own=used))
    return rounds


def ditto(f: Federation, models: Array, cohorts: Cohorts, strength: float) -> list[Round]:
    """Li et al. 2021, algorithm 1: FedAvg, and personal models pulled to the received model."""
    [w], own = models, {k: models[0].copy() for k in range(len(f.x))}
    rounds = []
    for number, (cohort, after) in enumerate(
        zip(cohorts, fedavg(f, models, cohorts), strict=True), 1
    ):
        for k in cohort:
            own[k] = descend(f, number, k, own[k], lambda v, r=w: strength * (v - r))
        [w] = after.models
        rounds.append(Round(models=after.models, alpha=after.alpha, own=dict(own)))
    return rounds


def ifca(f: Federation, models: Array, cohorts: Cohorts) -> list[Round]:
    """Ghosh et al. 2020, algorithm 1 with model averaging.

    Each client trains the model with the least loss on its rows.
    """
    w, rounds = models.copy(), []
    for number, cohort in enumerate(cohorts, 1):
        best = {
            k: int(np.argmin([f.losses(one, f.x[k], f.y[k]).mean() for one in w])) for k in cohort
        }
        new = w.copy()
        for j in set(best.values()):
            alpha = by_samples(f, [k for k in cohort if best[k] == j])
            new[j] = w[j] + sum(a * (descend(f, number, k, w[j]) - w[j]) for k, a in alpha.items())
        w = new
        rounds.append(Round(models=w.copy(), alpha=by_samples(f, cohort)))
    return rounds


@dataclass(frozen=True)
class Property:
    """The parameters that a template finds in traces [S, T], and its nearest trace.

    Windows have two steps and follow each other without overlap.

    Attributes:
        mine: the tight parameters (table 1).
        nearest: the satisfying traces nearest to some [B, T] in L1.
    """

    mine: Callable[[Array], Array]
    nearest: Callable[[Array, Array], Array]

    def away(self, found: Array, traces: Array) -> Array:
        """y - y*, [B, T]."""
        return traces - self.nearest(found, traces)


def _windows(steps: int) -> list[slice]:
    return [slice(first, first + 2) for first in range(0, steps, 2)]


def _ranges(y: Array) -> Array:
    """Row 1: the least and the greatest value of each window, [2, T]."""
    low, high = np.zeros(y.shape[1]), np.zeros(y.shape[1])
    for w in _windows(y.shape[1]):
        low[w], high[w] = y[:, w].min(), y[:, w].max()
    return np.stack([low, high])


def _raised(found: Array, traces: Array) -> Array:
    """Row 7: the largest value of each window is raised to the required one."""
    result = traces.copy()
    for place, w in enumerate(_windows(traces.shape[1])):
        for row in result:
            t = w.start + int(np.argmax(row[w]))
            row[t] = max(row[t], found[place])
    return result


CAP = 0.8


def capped_at(cap: float) -> Property:
    """Row 1 together with the expert's rule y <= cap.

    The rule is left out if it contradicts the mined one.
    """

    def nearest(found: Array, traces: Array) -> Array:
        low, high = found
        return np.clip(traces, low, high if (low > cap).any() else np.minimum(high, cap))

    return Property(mine=_ranges, nearest=nearest)


RANGES = Property(mine=_ranges, nearest=lambda found, traces: np.clip(traces, *found))
CAPPED = capped_at(CAP)
EVENTUALITIES = Property(
    mine=lambda y: np.array([y[:, w].max(1).min() for w in _windows(y.shape[1])]), nearest=_raised
)


def _clustered(losses: Array, way: str) -> list[int]:
    """Algorithm 1: assign the least remaining loss while its cluster has room.

    Ties go to the first cluster and client.
    """
    clusters, clients = losses.shape
    if way == "argmin":
        return [int(column.argmin()) for column in losses.T]
    room, found = [-(-clients // clusters)] * clusters, {}
    while len(found) < clients:
        left = [
            (losses[j, i], j, i)
            for j in range(clusters)
            for i in range(clients)
            if i not in found and room[j]
        ]
        _, j, i = min(left)
        found[i], room[j] = j, room[j] - 1
    return [found[i] for i in range(clients)]


def fedstl(
    f: Federation,
    models: Array,
    cohorts: Cohorts,
    template: Property,
    shared: Sequence[Sequence[int]],
    *,
    private: bool,
    weight: float,
    epochs: int,
    rate: float | None,
    every: int,
    way: str,
) -> tuple[list[Round], list[dict[int, int]]]:
    """An, Johnson and Ma 2024, algorithms 1 and 2, and the cluster of each client after each round.

    Clusters average by samples. If heads are private, the server has a separate head and trains it
    with the cluster's body.

    Args:
        shared: the samples of each client that the server sees.
        private: whether the head stays at its client.
        weight: lambda.
        epochs: kappa.
        rate: eta_j, None for the clients'.
        every: m.
        way: how clusters are assigned.
    """
    w, rounds, history = models.copy(), [], []
    kept = f.head if private else np.zeros(f.parameters, dtype=bool)
    own = {k: models[0].copy() for k in range(len(f.x))}
    whole = {k: template.mine(f.y[k]) for k in own}
    sample = {k: template.mine(f.y[k][list(shared[k])]) for k in own}
    cluster: dict[int, int] = {}

    def loss(j: int, k: int) -> float:
        """L_p of client k's property on the forecasts of cluster j's model."""
        forecast = f.outputs_at(w[j], f.x[k][list(shared[k])])
        return float(np.abs(template.away(sample[k], forecast)).mean())

    def step(v: Array, x: Array, y: Array, found: Array) -> Array:
        """The gradient of F = L + lambda L_p, equations (2) and (4)."""
        away = template.away(found, f.outputs_at(v, x))
        return f.gradient(v, x, y, weight * np.sign(away) / away.shape[1])

    for number, cohort in enumerate(cohorts, 1):
        asked = [k for k in cohort if (number - 1) % every == 0 or k not in cluster]
        if asked and len(w) > 1:
            table = np.array([[loss(j, k) for k in asked] for j in range(len(w))])
            greedy = way if (number - 1) % every == 0 else "argmin"
            cluster |= dict(zip(asked, _clustered(table, greedy), strict=True))
        sent = {}
        for k in cohort:
            v = np.where(kept, own[k], w[cluster.get(k, 0)])
            for x, y in f.minibatches(number, k):
                v = v - f.rate_of(number, k) * step(v, x, y, whole[k])
            sent[k] = own[k] = v
        active = sorted({cluster.get(k, 0) for k in cohort})
        for j in active:
            alpha = by_samples(f, [k for k in cohort if cluster.get(k, 0) == j])
            w[j] = np.where(kept, w[j], sum(a * sent[k] for k, a in alpha.items()))
        for place, j in enumerate(active):
            members = [k for k in cohort if cluster.get(k, 0) == j]
            x = np.concatenate([f.x[k][list(shared[k])] for k in members])
            y = np.concatenate([f.y[k][list(shared[k])] for k in members])
            pace = f.rate_of(number, -1) if rate is None else rate
            for rows in f.cluster_minibatches(number, place, len(x), epochs) if epochs else ():
                w[j] = w[j] - pace * step(w[j], x[rows], y[rows], template.mine(y))
        rounds.append(Round(models=w.copy(), alpha=by_samples(f, cohort), own=dict(own)))
        history.append(dict(cluster))
    return rounds, history


def _equal(cohort: Sequence[int]) -> dict[int, float]:
    return {k: 1 / len(cohort) for k in cohort}


def trimmed_mean(
    f: Federation, models: Array, cohorts: Cohorts, trim: float, send: Send = honest
) -> list[Round]:
    """Yin et al. 2018, definition 2; a trim of 1/2 is the median of definition 1."""
    [w], rounds = models, []
    for number, cohort in enumerate(cohorts, 1):
        updates = _updates(f, number, cohort, w, send)
        update = np.zeros_like(w)
        for place in range(len(w)):
            values = sorted(u[place] for u in updates)
            cut = min(int(trim * len(values) + 1e-9), (len(values) - 1) // 2)
            left = values[cut : len(values) - cut]
            update[place] = sum(left) / len(left)
        w = w + update
        rounds.append(Round(models=w[None], alpha=_equal(cohort)))
    return rounds


def robust_scfa(
    f: Federation,
    models: Array,
    cohorts: Cohorts,
    rules: Rules,
    scoring: Scoring,
    robust: str,
    attackers: int = 0,
    keep: int | None = None,
    send: Send = honest,
) -> list[Round]:
    """Robust SCFA, which is fedkg's own: ``w + sum_k a_k s_k u_k`` with the shares a_k and the
    updates u_k of `robust`, ``krum`` (with keep: multi-Krum) or ``fltrust``.
    """
    [w], rounds = models, []
    for number, cohort in enumerate(cohorts, 1):
        updates = _updates(f, number, cohort, w, send)
        scores = [scoring.factor(rules, w + u, w) for u in updates]
        if sum(scores) == 0:
            if scoring.on_all_invalid == "error":
                raise AllInvalid
            scores = [float(scoring.on_all_invalid == "fedavg")] * len(cohort)
        if robust == "krum":
            nearest = max(1, len(cohort) - attackers - 2)
            apart = [
                sum(sorted(((u - v) ** 2).sum() for j, v in enumerate(updates) if j != i)[:nearest])
                for i, u in enumerate(updates)
            ]
            kept = min(len(cohort), max(1, len(cohort) - attackers) if keep is None else keep)
            best = sorted(range(len(cohort)), key=lambda i: apart[i])[:kept]
            shares = [1 / kept if i in best else 0.0 for i in range(len(cohort))]
        else:
            v = w
            for x, y in f.server_minibatches(number):
                v = v - f.rate_of(number, -1) * f.gradient(v, x, y)
            lengths = [np.linalg.norm(u) for u in updates]
            length = np.linalg.norm(v - w)
            trust = [
                max(0.0, u @ (v - w) / (own * length))
                for u, own in zip(updates, lengths, strict=True)
            ]
            shares = [one / sum(trust) if sum(trust) else 0.0 for one in trust]
            updates = [u * length / own for u, own in zip(updates, lengths, strict=True)]
        alpha = {k: a * s for k, a, s in zip(cohort, shares, scores, strict=True)}
        w = w + sum(alpha[k] * u for k, u in zip(cohort, updates, strict=True))
        rounds.append(Round(models=w[None], alpha=alpha))
    return rounds


def krum(
    f: Federation,
    models: Array,
    cohorts: Cohorts,
    attackers: int,
    keep: int | None,
    send: Send = honest,
) -> list[Round]:
    """Blanchard et al. 2017, section 4: scores by the K - f - 2 nearest others.

    The best `keep` are averaged (None: K - f).
    """
    [w], rounds = models, []
    for number, cohort in enumerate(cohorts, 1):
        updates = _updates(f, number, cohort, w, send)
        count = len(updates)
        nearest = max(1, count - attackers - 2)
        scores = []
        for i, u in enumerate(updates):
            away = sorted(((u - v) ** 2).sum() for j, v in enumerate(updates) if j != i)
            scores.append(sum(away[:nearest]))
        kept = min(count, max(1, count - attackers) if keep is None else keep)
        best = sorted(range(count), key=lambda i: scores[i])[:kept]
        w = w + sum(updates[i] for i in best) / kept
        alpha = {k: (1 / kept if i in best else 0.0) for i, k in enumerate(cohort)}
        rounds.append(Round(models=w[None], alpha=alpha))
    return rounds


def fltrust(f: Federation, models: Array, cohorts: Cohorts, send: Send = honest) -> list[Round]:
    """Cao et al. 2021, algorithm 2.

    Updates are rescaled to the length of the server's and weighted by the positive part of their
    cosine to it.
    """
    [w], rounds = models, []
    for number, cohort in enumerate(cohorts, 1):
        v = w
        for x, y in f.server_minibatches(number):
            v = v - f.rate_of(number, -1) * f.gradient(v, x, y)
        own = v - w
        trust, total = {}, np.zeros_like(w)
        for k in cohort:
            u = send(number, k, w, descend(f, number, k, w) - w)
            cosine = u @ own / (np.linalg.norm(u) * np.linalg.norm(own))
            trust[k] = max(0.0, cosine)
            total += trust[k] * np.linalg.norm(own) / np.linalg.norm(u) * u
        whole = sum(trust.values())
        if whole > 0:
            w = w + total / whole
        alpha = {k: (one / whole if whole > 0 else 0.0) for k, one in trust.items()}
        rounds.append(Round(models=w[None], alpha=alpha))
    return rounds
