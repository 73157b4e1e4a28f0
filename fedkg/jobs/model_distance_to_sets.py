"""Distances between the sites' models and the parameter sets of the rules. K sites."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fedkg.federated.pcfedavg.agent_sets import AgentSets, kept_sets
from fedkg.federated.pcfedavg.convergence_bounds import ZERO
from fedkg.jobs.folder import Row
from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.models import Params
from fedkg.pack import Pack


def trial_sets(section: Algorithm, pack: Pack, sites: Sequence[str]) -> AgentSets | None:
    """The parameter sets of a trial's sites.

    None if its algorithm uses none or the rules define none.
    """
    given = section.agents.given if section.agents else section.sets.given if section.sets else None
    return None if given is None else kept_sets(pack, sites, given)


def set_distance_rows(
    trial: str, names: Sequence[str], models: Sequence[Params], sets: AgentSets | None
) -> list[Row]:
    """Rows of `sets.csv`: distance to the sets, and the share of parameters that are 0.

    Args:
        models: one model that all K sites share, or one per site.
    """
    rows = (
        set_distance_row(trial, name, site, models[min(site, len(models) - 1)], sets)
        for site, name in enumerate(names)
    )
    return [row for row in rows if row is not None]


def set_distance_row(
    trial: str, name: str, site: int, params: Params, sets: AgentSets | None
) -> Row | None:
    """The row of `sets.csv` of the model of one site; None without sets.

    Args:
        site: position of the site.
    """
    if sets is None:
        return None
    stack = {key: value.double().unsqueeze(0) for key, value in params.items()}
    flat = torch.cat([value.flatten() for value in stack.values()])
    return {
        "trial": trial,
        "client": name,
        "distance": float(sets.distance2(stack, torch.tensor([site])).sqrt()),
        "sparsity": float((flat.abs() < ZERO).double().mean()),
    }
