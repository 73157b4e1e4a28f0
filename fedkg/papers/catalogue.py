"""All papers by name."""

from __future__ import annotations

from fedkg.papers import fedstl, granger, knowledge, pcfedavg, scfa, together
from fedkg.papers.study import Paper

PAPERS: dict[str, Paper] = {
    module.PAPER.name: module.PAPER
    for module in (scfa, pcfedavg, fedstl, granger, knowledge, together)
}
