"""The constants of SCFA's theorems as the paper defines them, from gradients.

Letters: K clients, P parameters, B minibatches, I iterates.
"""

from __future__ import annotations

from torch import Tensor


def heterogeneity(gradients: Tensor, share: Tensor | None = None) -> float:
    """D^2 = mean over clients of ``|grad F_k - grad F|^2``, from full gradients [K, P] at one
    point.

    Args:
        share: n_k / n [K], in which grad F is the mean of theirs; None: clients of equal size.
    """
    whole = gradients.mean(0) if share is None else share.to(gradients.dtype) @ gradients
    return float((gradients - whole).square().sum(1).mean())


def constrained_heterogeneity(gradients: Tensor, alpha: Tensor) -> float:
    """D_c^2 = ``sum_k alpha_k |grad F_k - sum_i alpha_i grad F_i|^2``, with SCFA's weights alpha
    [K].
    """
    weights = alpha.to(gradients.dtype)
    return float(weights @ (gradients - weights @ gradients).square().sum(1))


def reduction(gradients: Tensor, alpha: Tensor, share: Tensor | None = None) -> float:
    """gamma = 1 - D_c^2 / D^2; 0 when the clients do not differ."""
    whole = heterogeneity(gradients, share)
    return 1.0 - constrained_heterogeneity(gradients, alpha) / whole if whole > 0 else 0.0


def smoothness(points: Tensor, gradients: Tensor) -> float:
    """A lower bound of L: the largest ``|grad F(w) - grad F(w')| / |w - w'|`` over consecutive
    iterates, both [I, P].
    """
    steps = (points[1:] - points[:-1]).norm(dim=1)
    turns = (gradients[1:] - gradients[:-1]).norm(dim=1)
    moved = steps > 0
    return float((turns[moved] / steps[moved]).max()) if bool(moved.any()) else 0.0


def gradient_variance(gradients: Tensor) -> float:
    """sigma^2 = mean over minibatches of ``|g_b - mean g|^2``, from minibatch gradients [B, P] at
    one point.
    """
    return float((gradients - gradients.mean(0)).square().sum(1).mean())


def gradient_bound(gradients: Tensor, valid: Tensor) -> float:
    """L_c: the largest gradient norm over iterates [I, P] at which all constraints hold (valid:
    bool [I]); 0 without any.
    """
    return float(gradients[valid].norm(dim=1).max()) if bool(valid.any()) else 0.0
