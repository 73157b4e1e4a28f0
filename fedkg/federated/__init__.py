"""The federated runtime: a round is one pipeline, an algorithm a value that fills its joints, an
executor carries the local work out.
"""

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.algorithms import ALGORITHMS, fedavg, scfa
from fedkg.federated.client.task_losses import (
    LOSSES,
    BinaryCrossEntropy,
    CoxLoss,
    CrossEntropy,
    KnownSquaredError,
    SquaredError,
)
from fedkg.federated.clients_from_dataset import clients_of
from fedkg.federated.executors import WorkerPool
from fedkg.federated.problem import Clients, Problem
from fedkg.federated.round_record import RoundRecord
from fedkg.federated.server.pack_scorer import PackScorer
from fedkg.federated.server.scoring import ProbeScores, ScoredRows, ScoreOptions, Scorer
from fedkg.federated.settings import Own, Settings
from fedkg.federated.state import Choice, ServerState, from_tensors, to_tensors
from fedkg.federated.train import initial_state, train

__all__ = [
    "ALGORITHMS",
    "LOSSES",
    "Algorithm",
    "BinaryCrossEntropy",
    "Choice",
    "Clients",
    "CoxLoss",
    "CrossEntropy",
    "KnownSquaredError",
    "Own",
    "PackScorer",
    "ProbeScores",
    "Problem",
    "RoundRecord",
    "ScoreOptions",
    "ScoredRows",
    "Scorer",
    "ServerState",
    "Settings",
    "SquaredError",
    "WorkerPool",
    "clients_of",
    "fedavg",
    "from_tensors",
    "initial_state",
    "scfa",
    "to_tensors",
    "train",
]
