"""All papers by name."""

from __future__ import annotations

from dataclasses import replace

from fedkg.papers import fedstl, granger, knowledge, pcfedavg, scfa, together
from fedkg.papers.scfa_rule_families import FAMILY_SLOPES
from fedkg.papers.study import Paper

_SCFA = replace(scfa.PAPER, studies=(*scfa.PAPER.studies, FAMILY_SLOPES))

PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (
        _SCFA,
        *(module.PAPER for module in (pcfedavg, fedstl, granger, knowledge, together)),
    )
}
