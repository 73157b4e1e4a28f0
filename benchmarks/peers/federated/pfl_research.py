"""pfl-research's simulation on the workload: `python pfl_research.py FOLDER`, or by torchrun.

Source: Apple; Granqvist and others, 2024.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any

import numpy as np
import torch
from contender_protocol import Asked
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch_workload import Workload


class Rounds(TrainingProcessCallback):
    """Begins each round on request."""

    def __init__(self, asked: Asked | None) -> None:
        self._asked = asked

    def on_train_begin(self, *, model: Any) -> Any:
        if self._asked is not None:
            self._asked.wait()
        return super().on_train_begin(model=model)

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> Any:
        if self._asked is not None:
            self._asked.done()
            self._asked.wait()
        return super().after_central_iteration(
            aggregate_metrics, model, central_iteration=central_iteration
        )


def main() -> None:
    torch.set_num_threads(1)
    work = Workload(sys.argv[1])
    net: Any = work.network()

    def loss(self: Any, x: Any, y: Any, eval: bool = False) -> Any:
        self.train(not eval)
        return work.loss(self(x), y)

    def metrics(self: Any, x: Any, y: Any, eval: bool = True) -> Any:
        with torch.no_grad():
            return {"loss": Weighted(loss(self, x, y, eval).item() * len(y), len(y))}

    net.loss, net.metrics = types.MethodType(loss, net), types.MethodType(metrics, net)
    model = PyTorchModel(
        model=net,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(net.parameters(), 1.0),
    )
    first = os.environ.get("RANK", "0") == "0"
    asked = Asked(work.folder, lambda: work.probe(net)) if first else None
    order = iter(np.concatenate([*work.cohorts, *work.cohorts]).tolist())
    federation = FederatedDataset(
        lambda client: Dataset(
            raw_data=[torch.from_numpy(work.x[client]), torch.from_numpy(work.y[client])],
            user_id=str(client),
        ),
        lambda: next(order),
    )
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=len(work.cohorts),
            evaluation_frequency=10**9,
            train_cohort_size=len(work.cohorts[0]),
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(
            training_data=federation, val_data=None, postprocessors=[WeightByUser()]
        ),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_learning_rate=work.rate, local_num_epochs=1, local_batch_size=work.batch
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=1000),
        callbacks=[Rounds(asked)],
    )


if __name__ == "__main__":
    main()
