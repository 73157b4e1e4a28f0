"""Answers that satisfy the hard rules, wherever a run evaluates models.

Training and SCFA's scores see the answers of the model itself: the paper's hard flags change
weights (specification section 3.1). The answers that
a run reports satisfy the hard rules.

Letters: N rows, F features, H outputs, K classes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedkg.constraints import ConstraintModule
from fedkg.constraints.binding.layout import InputLayout, OutputLayout
from fedkg.constraints.binding.model_run_inputs import Keys
from fedkg.constraints.engine.skeleton_properties import reads_output
from fedkg.constraints.module import ConstraintWarning
from fedkg.federated.model.constrained_outputs import EXCLUDED, finite_logits
from fedkg.jobs.rules_only_baseline import certain_classes
from fedkg.pack import Pack


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HardRules:
    """The hard rules about a model's answers to single rows.

    Attributes:
        module: these rules alone, over the layout of inputs and raw outputs.
        names: of these rules.
        not_enforced: those of them that are not linear in the answer or compare answers.
        classes: K if the answer is one of K classes, otherwise 0.
    """

    module: ConstraintModule
    names: tuple[str, ...]
    not_enforced: tuple[str, ...]
    classes: int = 0

    @property
    def enforced(self) -> tuple[str, ...]:
        """The rules that every answer satisfies."""
        return tuple(name for name in self.names if name not in self.not_enforced)

    def satisfy(self, x: Tensor, answers: Tensor, keys: Keys) -> Tensor:
        """The nearest answers that satisfy the rules; among classes, a class that violates one has
        probability 0, unless every class does.

        Args:
            x: inputs of the model, [N, F].
            answers: raw outputs of the model, [N, H].
            keys: codes [N] of each category that the rules read.
        """
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstraintWarning)
            if not self.classes:
                return finite_logits(self.module.project(x, answers, keys=keys).to(answers.dtype))
            excluded = torch.stack(
                [
                    self.module(
                        x, one.expand(len(self.module.plan.runs), len(x), -1), keys=keys
                    ).violated.any(1)
                    for one in certain_classes(self.classes).to(answers)
                ],
                dim=1,
            )
        excluded &= ~excluded.all(1, keepdim=True)
        return torch.where(excluded, EXCLUDED, answers)


def hard_rules(
    pack: Pack, x: InputLayout, y: OutputLayout | InputLayout, classes: int = 0
) -> HardRules | None:
    """The pack's hard rules about outputs over a layout; None if there are none.

    Raises:
        LayoutError: they read something that the layout lacks.
    """
    records = pack.manifest.rules
    hard = [place for place, record in enumerate(records) if record.hard]
    kept, skeletons = [], []
    for bank, skeleton in zip(pack.banks, pack.manifest.skeletons, strict=True):
        rows = np.flatnonzero(np.isin(bank.rule, hard))
        if len(rows) and reads_output(bank.skeleton):
            kept.append(bank.take(rows))
            skeletons.append(skeleton)
    if not kept:
        return None
    manifest = pack.manifest.model_copy(update={"skeletons": tuple(skeletons)})
    module = ConstraintModule(replace(pack, manifest=manifest, banks=tuple(kept)), x=x, y=y)
    names = dict.fromkeys(records[rule].name for bank in kept for rule in bank.rule.tolist())
    rest = _beyond_rows(module) if classes else module.not_projected
    return HardRules(module=module, names=tuple(names), not_enforced=rest, classes=classes)


def _beyond_rows(module: ConstraintModule) -> tuple[str, ...]:
    """The rules that compare the answers to several rows or inputs."""
    plan, records = module.plan, module.pack.manifest.rules
    beyond = set(plan.across_rows)
    for planned, bank in zip(plan.banks, module.pack.banks, strict=True):
        compared = np.array([plan.output_reads[i].run != 0 for i in planned.output_index.ravel()])
        rows = compared.reshape(planned.output_index.shape).any(axis=0)
        beyond |= set(bank.rule[rows].tolist())
    return tuple(records[rule].name for rule in sorted(beyond))
