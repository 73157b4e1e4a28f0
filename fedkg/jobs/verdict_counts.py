"""Counts of violated and evaluated bound rows in a round, for those who watch the training."""

from __future__ import annotations

import torch

from fedkg.federated import RoundRecord, ScoreOptions
from fedkg.federated.server.scoring import within_tolerance
from fedkg.jobs.events import Values
from fedkg.jobs.samples.trial import Trial


class VerdictCounts:
    """Counts the verdicts of each round of a trial, by site and by rule.

    A verdict belongs to a bound row and a site's model: violated if the share of the probe rows
    that violate it is beyond the tolerance, not evaluated if it applies to no probe row. Under
    differential privacy nothing is counted, because no ledger covers these counts.
    """

    def __init__(self, trial: Trial) -> None:
        scorer = trial.problem.scorer
        self._counts = scorer is not None and trial.config.job.privacy is None
        if scorer is None:
            return
        names = [name.partition("[")[0] for name in scorer.rows.names]
        self._rules = tuple(dict.fromkeys(names))
        place = {rule: number for number, rule in enumerate(self._rules)}
        self._index = torch.tensor([place[name] for name in names], dtype=torch.long)
        self._hard = scorer.rows.hard.cpu()
        self._options = getattr(trial.algorithm.weighting, "options", ScoreOptions())

    def count(self, record: RoundRecord) -> tuple[list[dict[str, int]], dict[str, Values]]:
        """`violated` and `evaluated` of each site of a round, in its order, and of each rule.

        The counts of a rule also have `hard` (1 or 0). If nothing was scored, a site has no
        counts. A rule without a verdict is left out.
        """
        if record.violated is None or not self._counts:
            return [{} for _ in record.clients], {}
        within = within_tolerance(record.violated, self._hard, self._options)
        verdicts = torch.stack([within == 0, ~within.isnan()])  # [2, K, M]
        by_rule = torch.zeros(2, len(self._rules), dtype=torch.long)
        by_rule.index_add_(1, self._index, verdicts.sum(1))
        hard = torch.zeros(len(self._rules), dtype=torch.bool)
        hard[self._index] = self._hard
        rules = zip(self._rules, *by_rule.tolist(), hard.tolist(), strict=True)
        return (
            [
                {"violated": v, "evaluated": e}
                for v, e in zip(*verdicts.sum(2).tolist(), strict=True)
            ],
            {
                rule: {"violated": violated, "evaluated": evaluated, "hard": int(one)}
                for rule, violated, evaluated, one in rules
                if evaluated
            },
        )
