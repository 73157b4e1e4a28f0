"""Counts of violated and evaluated bound rows in a round, for those who watch the training."""

from __future__ import annotations

import numpy as np

from fedkg.federated import RoundRecord, ScoreOptions
from fedkg.federated.server.scoring import tolerances
from fedkg.jobs.events import Values
from fedkg.jobs.experiment.trial import Trial


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
        self._index = np.array([place[name] for name in names], dtype=np.intp)
        hard = scorer.rows.hard.cpu()
        self._hard = np.zeros(len(self._rules), dtype=np.int64)
        self._hard[self._index] = hard.numpy()
        options = getattr(trial.algorithm.weighting, "options", ScoreOptions())
        self._tolerances = tolerances(hard, options).numpy()

    def count(self, record: RoundRecord) -> tuple[list[dict[str, int]], dict[str, Values]]:
        """`violated` and `evaluated` of each site of a round, in its order, and of each rule.

        The counts of a rule also have `hard` (1 or 0). If nothing was scored, a site has no
        counts. A rule without a verdict is left out.
        """
        if record.violated is None or not self._counts:
            return [{} for _ in record.clients], {}
        shares = record.violated.numpy()  # [K, M], NaN for no verdict
        violated, evaluated = shares > self._tolerances, shares == shares
        by_rule = (
            np.bincount(self._index, verdicts.sum(0), len(self._rules)).astype(int).tolist()
            for verdicts in (violated, evaluated)
        )
        by_site = zip(violated.sum(1).tolist(), evaluated.sum(1).tolist(), strict=True)
        rules = zip(self._rules, *by_rule, self._hard.tolist(), strict=True)
        return (
            [{"violated": some, "evaluated": every} for some, every in by_site],
            {
                rule: {"violated": some, "evaluated": every, "hard": hard}
                for rule, some, every, hard in rules
                if every
            },
        )
