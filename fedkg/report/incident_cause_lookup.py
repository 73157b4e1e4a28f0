"""Candidate causes of incidents: what drives a site or signal, as a causal discovery found."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkg.errors import JobError, UsageError
from fedkg.jobs.folder import ENVIRONMENT, RESULTS, RunFolder

MAX_CAUSES = 5
"""Number of causes listed for a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateCause:
    """A client that drives another one, with the evidence.

    Attributes:
        driver, driven: names of clients.
        evidence: strength, lag and p-value in words.
        is_significant: whether the p-value, corrected for the number of pairs, is below the level
            of the discovery; False if it was not tested.
        p_value: the corrected p-value; NaN if not tested.
        strength: of the edge.
    """

    driver: str
    driven: str
    evidence: str
    is_significant: bool
    p_value: float = math.nan
    strength: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateCauses:
    """The edges of a run.

    Attributes:
        run: name of the run folder.
        edges: all edges, strongest evidence first.
        columns: the headers that each client measures; empty if the run does not state them.
    """

    run: str
    edges: tuple[CandidateCause, ...]
    columns: Mapping[str, frozenset[str]]

    def of(self, names: Iterable[str], headers: Collection[str]) -> list[CandidateCause]:
        """The causes of clients with one of these names, or that measure one of these columns."""
        named = set(names)
        driven = named & {edge.driven for edge in self.edges}
        driven |= named & set(self.columns)
        driven |= {client for client, own in self.columns.items() if own & set(headers)}
        return [edge for edge in self.edges if edge.driven in driven][:MAX_CAUSES]

    def knows(self, names: Iterable[str], headers: Collection[str]) -> bool:
        """Whether the run has a client with one of these names or columns."""
        clients = {edge.driven for edge in self.edges} | {edge.driver for edge in self.edges}
        return bool(
            set(names) & (clients | set(self.columns))
            or any(own & set(headers) for own in self.columns.values())
        )

    def to_json(self) -> dict[str, Any]:
        """The edges in their order, and the columns, for `from_json`."""
        shown = ("driver", "driven", "evidence", "is_significant")
        return {
            "run": self.run,
            "edges": [{name: getattr(edge, name) for name in shown} for edge in self.edges],
            "columns": {client: sorted(own) for client, own in self.columns.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> CandidateCauses:
        """The causes as the report of a run shows them: with the evidence only in words."""
        return cls(
            run=document["run"],
            edges=tuple(CandidateCause(**edge) for edge in document["edges"]),
            columns={client: frozenset(own) for client, own in document["columns"].items()},
        )


def read_causes(folder: Path) -> CandidateCauses:
    """Read the edges of a causal discovery, or of a training that found edges between its sites.

    Raises:
        UsageError: the folder is not a run folder, or its run found no edges.
        JobError: a file of the folder is damaged.
    """
    files = RunFolder(folder)
    if not files.exists():
        raise UsageError(
            f"{folder} is not a run folder",
            expected="the folder of a causal discovery (a job with `kind: causes`)",
            help="run one first: fedkg run examples/causes/job.yaml --out DIR",
        )
    environment = files.read_json(ENVIRONMENT)
    if environment.get("kind") == "causes":
        results, job = files.read_json(RESULTS), environment.get("job") or {}
        if not isinstance(results, dict) or "edges" not in results:
            raise JobError(
                f"{folder / RESULTS} is damaged: it contains no list of causes",
                help="repeat the discovery with another --out",
            )
        edges = [_tested(edge, results) for edge in results["edges"]]
        columns = {
            client: frozenset(headers) for client, headers in (job.get("clients") or {}).items()
        }
        columns = {name: columns.get(name, frozenset()) for name in results["clients"]}
    else:
        edges, columns = edges_of_sites(files.rows("causes.csv")), {}
        if not edges:
            raise UsageError(
                f"the run in {folder} found no causes",
                expected="a run of a job with `kind: causes`, or a training with `augment`",
                help="name the folder of a causal discovery, such as that of: fedkg run "
                "examples/causes/job.yaml --out DIR",
            )
    return CandidateCauses(
        run=folder.name, edges=tuple(sorted(edges, key=_strongest_first)), columns=columns
    )


def edges_of_sites(rows: Iterable[Mapping[str, str]]) -> list[CandidateCause]:
    """The edges in `causes.csv` of a training, each once: strengths without a test."""
    found: dict[tuple[str, str], CandidateCause] = {}
    for row in rows:
        strength = float(row["strength"] or 0)
        found.setdefault(
            (row["driver"], row["driven"]),
            CandidateCause(
                driver=row["driver"],
                driven=row["driven"],
                evidence=f"strength {strength:.3g}, {_steps(int(row['lag']), None)} later, not "
                "tested",
                is_significant=False,
                strength=strength,
            ),
        )
    return sorted(found.values(), key=_strongest_first)


def _strongest_first(edge: CandidateCause) -> tuple[bool, float, float]:
    tested = not math.isnan(edge.p_value)
    return not edge.is_significant, edge.p_value if tested else 1.0, -edge.strength


def _tested(edge: Mapping[str, Any], results: Mapping[str, Any]) -> CandidateCause:
    p_value = edge["adjusted"]
    sure = p_value is not None and p_value <= results["level"]
    verdict = (
        "not tested"
        if p_value is None
        else f"p = {p_value:.3f} corrected{'' if sure else ', not significant'}"
    )
    return CandidateCause(
        driver=edge["driver"],
        driven=edge["driven"],
        evidence=f"{verdict}, strength {edge['reference']:.3g}, "
        f"{_steps(edge['lag'], results.get('step'))} later",
        is_significant=sure,
        p_value=math.nan if p_value is None else p_value,
        strength=edge["reference"],
    )


def _steps(lag: int, step: float | None) -> str:
    """``2 steps (10 min)``."""
    text = f"{lag} step{'' if lag == 1 else 's'}"
    return text if not step else f"{text} ({duration_text(lag * step)})"


def duration_text(seconds: float) -> str:
    """``45 s``, ``55 min``, ``3.5 h``, ``2 days``."""
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"
