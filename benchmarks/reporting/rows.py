"""Rows of the results: medians of both sides, the ratio turn by turn, and its spread.

A benchmark prints a JSON list of such rows as its last line; `run_all.py` makes tables of them.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence

from fedkg.errors import describe_install

Row = dict[str, object]

# Benchmarks measure what a long run does: compiled loops from the first call. Those that measure
# the start of a run set `auto`, the default, again.
os.environ.setdefault("FEDKG_KERNELS", "on")


def ratios(ours: Sequence[float], peer: Sequence[float]) -> list[float]:
    """How many times as long as ours the peer took, turn by turn."""
    return [other / own for own, other in zip(ours, peer, strict=True)]


def format_spread(values: Sequence[float]) -> str:
    """The smallest and the largest of the values, and their number."""
    return f"{min(values):.3g} .. {max(values):.3g}, {len(values)} turns"


def round_digits(value: float) -> float:
    """The value with four significant digits."""
    return float(f"{value:.4g}")


def compare(
    claim: str,
    ours: Sequence[float],
    peer: Sequence[float],
    peer_name: str,
    *,
    target: float | None = None,
    floor: float | None = None,
) -> Row:
    """Compare ours with a peer that took the same turns.

    Args:
        claim: what is measured, with its unit.
        ours, peer: one value for each turn; less is better.
        peer_name: the library or program that `peer` measures.
        target: the least ratio that is claimed; None: no claim.
        floor: the least time that any implementation needs, in the unit of `ours`.

    Returns:
        The row: medians, the median ratio peer / ours, and the spread of that ratio.
    """
    found = ratios(ours, peer)
    ratio = statistics.median(found)
    return {
        "claim": claim,
        "ours": round_digits(statistics.median(ours)),
        "peer": round_digits(statistics.median(peer)),
        "peer_name": peer_name,
        "ratio": round_digits(ratio),
        "spread": format_spread(found),
        "target": None if target is None else round_digits(target),
        "holds": target is None or ratio >= target,
        "floor": None if floor is None else round_digits(floor),
    }


def limit(claim: str, ours: Sequence[float], most: float, *, floor: float | None = None) -> Row:
    """Compare ours with a fixed limit instead of a peer. The ratio is limit / ours."""
    peer = [most] * len(ours)
    return compare(claim, ours, peer, "(a limit, not a peer)", target=1.0, floor=floor)


def without_peer(
    claim: str,
    reason: str,
    peer_name: str,
    *,
    ours: Sequence[float] = (),
    target: float | None = None,
    floor: float | None = None,
) -> Row:
    """A row without a ratio, because the peer failed or is not installed.

    Args:
        reason: "failed: ..." or "not run: needs PACKAGE".
    """
    return {
        "claim": claim,
        "ours": round_digits(statistics.median(ours)) if ours else None,
        "peer": None,
        "peer_name": peer_name,
        "ratio": None,
        "reason": reason,
        "spread": None,
        "target": target,
        "holds": False,
        "floor": None if floor is None else round_digits(floor),
    }


def missing(package: str) -> str:
    """The reason of a row that lacks its peer."""
    return f"not run: needs {package} ({describe_install('bench')})"
