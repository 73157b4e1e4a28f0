"""The results of a causal discovery as sentences, tables and the document for the report.

Letters: M clients, E epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedkg.granger.edge_significance import adjusted
from fedkg.granger.learn import convergence_of
from fedkg.granger.protocol import traffic
from fedkg.jobs.causes.discovery import Discovery
from fedkg.jobs.causes.job_file import CausesJob
from fedkg.jobs.causes.learning import rates_of
from fedkg.learned_knowledge_records import Precedence
from fedkg.pack.causes import CauseRecord


def describe_discovery(job: CausesJob, found: Discovery) -> tuple[str, ...]:
    """The findings in sentences."""
    sure = [
        edge for edge in found.edges if edge.adjusted is not None and edge.adjusted <= job.level
    ]
    made = [
        f"{edge.driver} drives {edge.driven} (strength {edge.strength:.3g}, p = "
        f"{edge.adjusted:.3f} corrected)."
        for edge in sure[:8]
    ]
    if len(sure) > 8:
        made.append(f"{len(sure) - 8} more edges are in edges.csv.")
    if not sure:
        made.append(f"No edge is significant at {job.level:g}.")
    alone = np.argwhere(adjusted(found.measured_p_values) <= job.level).tolist()
    noisy = len(
        {(m, n) for m, n in alone}
        - {(found.index_of(edge.driven), found.index_of(edge.driver)) for edge in sure}
    )
    if noisy:
        made.append(
            "Edges that are significant without allowing for measurement noise, and not "
            f"with it: {noisy}."
        )
    weak = [
        reading
        for reading in found.readings
        if reading.kept < 0.5
        and any((e.driver, e.driven) == (reading.driver, reading.driven) for e in sure)
    ]
    made += [f"{reading.text()}." for reading in weak[:4]]
    if found.truth is not None:
        names = [client.name for client in found.series.clients]
        true = {(names[n], names[m]) for m, n in np.argwhere(found.truth).tolist()}
        told = {(edge.driver, edge.driven) for edge in sure}
        made.append(
            f"The discovery found {len(true & told)} of {len(true)} true edges of the "
            f"generated plant, and {len(told - true)} others."
        )
    if found.centralised_p_values is not None:
        corrected = adjusted(found.centralised_p_values)
        told_there = int((corrected <= job.level).sum())
        both = sum(
            bool(corrected[found.index_of(edge.driven), found.index_of(edge.driver)] <= job.level)
            for edge in sure
        )
        made.append(
            f"A VAR on pooled measurements finds {told_there} of "
            f"{int(np.isfinite(corrected).sum())} pairs at {job.level:g}, "
            f"including {both} of these {len(sure)}."
        )
    sent = traffic(found.series)
    made.append(
        f"A step sends {8 * sent.up} bytes up and {8 * sent.down} down, plus "
        f"{8 * sent.once:,} once for the clients' dynamics; pooling all measurements "
        f"would send {8 * sent.centralised} per step."
    )
    return tuple(made)


def edge_rows(found: Discovery) -> list[dict[str, Any]]:
    """Rows of `edges.csv`. `Any`: text, numbers, or None for untested values."""
    read = {(one.driver, one.driven): one for one in found.readings}
    place = {client.name: number for number, client in enumerate(found.series.clients)}
    central = (
        None
        if found.centralised_p_values is None
        else (found.centralised_p_values, adjusted(found.centralised_p_values))
    )
    rows = []
    for edge in found.edges:
        m, n, one = place[edge.driven], place[edge.driver], read[edge.driver, edge.driven]
        said = edge.precedence
        rows.append(
            {
                "driver": edge.driver,
                "driven": edge.driven,
                "strength": edge.strength,
                "reference": float(found.reference[m, n]),
                "innovation": float(found.innovation[m, n]),
                "lag": edge.lag,
                "p_value": edge.p_value,
                "adjusted": edge.adjusted,
                "p_measured": _finite_or_none(found.measured_p_values[m, n]),
                "p_noise": _finite_or_none(found.noise_p_values[m, n]),
                "central_p": None if central is None else float(central[0][m, n]),
                "central_adjusted": None if central is None else float(central[1][m, n]),
                "kept": one.kept,
                "read": one.read,
                "taken": one.taken,
                "leads": "" if said is None else said.leads,
                "follows": "" if said is None else said.follows,
            }
        )
    return rows


def loss_rows(found: Discovery) -> list[dict[str, Any]]:
    """Rows of `losses.csv`. `Any`: numbers."""
    names = [client.name for client in found.series.clients]
    return [
        {
            "epoch": number + 1,
            "server": float(server),
            **{name: float(own) for name, own in zip(names, client, strict=True)},
        }
        for number, (client, server) in enumerate(
            zip(found.learnt.client_loss, found.learnt.server_loss, strict=True)
        )
    ]


def discovery_document(
    job: CausesJob,
    found: Discovery,
    causes: Sequence[CauseRecord],
    step: float | None,
    rows: Sequence[Mapping[str, Any]],
    said: Sequence[str],
) -> dict[str, Any]:
    """The content of `results.json`, from which the report is made. `Any`: JSON."""
    names = [client.name for client in found.series.clients]
    sure = {
        (edge.driver, edge.driven)
        for edge in found.edges
        if edge.adjusted is not None and edge.adjusted <= job.level
    }
    return {
        "title": job.title or job.name,
        "sentences": said,
        "notes": found.notes,
        "clients": {
            client.name: {
                "states": len(client.transition),
                "measurements": len(client.emission),
                "lags": found.series.order(m),
            }
            for m, client in enumerate(found.series.clients)
        },
        "edges": list(rows),
        "reached": {
            name: [
                {"client": r.client, "first": r.first, "peak": r.peak, "size": r.size} for r in one
            ]
            for name, one in found.reachable.items()
        },
        "readings": [one.text() for one in found.readings if (one.driver, one.driven) in sure],
        "held": dict(zip((*names, "server"), found.held_out_losses, strict=True))
        if found.held_out_losses
        else {},
        "convergence": convergence_table(job, found),
        "prior": [
            f"{cause.name}: {drive.driver} drives {drive.driven}"
            for cause in causes
            for drive in cause.drives
        ],
        "precedences": [
            _describe_precedence(edge.precedence)
            for edge in found.edges
            if edge.precedence is not None
        ],
        "central": found.centralised_p_values is not None,
        "level": job.level,
        "step": step,
    }


def convergence_table(job: CausesJob, found: Discovery) -> list[dict[str, Any]]:
    """rho(H), |I - H|, mu, L and the final losses of each client. `Any`: a name and numbers.

    The figures of the recursion are None for clients with too many unknowns, and for sites that
    keep their measurements.
    """
    rates = rates_of(job.learning)
    made = []
    for m, client in enumerate(found.series.clients):
        # a server does not know the measurements of its sites: they are 0 there
        here = bool(client.measurements.any())
        known = convergence_of(found.series, rates, m) if here else None
        figures = (
            dict.fromkeys(("radius", "distance", "convexity", "smoothness"))
            if known is None
            else asdict(known)
        )
        losses = np.atleast_2d(found.learnt.client_loss)
        made.append({"client": client.name, **figures, "loss": float(losses[-1, m])})
    return made


def _finite_or_none(value: float) -> float | None:
    """A number, or None if it is not finite."""
    return float(value) if np.isfinite(value) else None


def _describe_precedence(said: Precedence) -> str:
    verb = "rises" if said.answer > 0 else "falls"
    steps = f"{said.within} step{'s' if said.within > 1 else ''}"
    return (
        f"When {said.leads} rises by {said.rise:.4g} in one step, {said.follows} {verb} "
        f"by {abs(said.answer):.4g} within {steps}: "
        f"{said.kept:.0%} of {said.cases:,} cases, compared with {said.chance:.0%} of all steps."
    )
