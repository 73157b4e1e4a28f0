"""Knowledge models: what is known of an output before anything is trained.

A range model gives for each sample the classes, or the interval, in which the true answer lies; a
prediction model gives an answer (Fan et al. 2022, section 3: R-KM and P-KM). Both are lists of
clauses; their conditions are banks among the pack's conditions.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fedkg.pack.contract import Node
from fedkg.pack.formulas import Term


class Clause(Node):
    """A statement about the output of the samples for which a condition holds.

    Attributes:
        bank: position of the condition among the pack's condition banks; each of its rows is a
            separate condition.
        classes: the allowed classes, by position among the model's; None if the clause does not
            allow classes.
        low: lower end of the allowed interval, over the bank's slots and parameters, in the model's
            unit; None for no end.
        high: upper end of the allowed interval, likewise; None for no end.
        predicted: the predicted class, by position among the model's; None if the clause does not
            predict a class.
        value: the predicted number, over the bank's slots and parameters, in the model's unit; None
            if the clause does not predict a number.
        anything: whether the clause allows everything; then the five fields before are None.
        file: file of the statement.
        line: line of the statement.
    """

    bank: int
    classes: tuple[int, ...] | None = None
    low: Term | None = None
    high: Term | None = None
    predicted: int | None = None
    value: Term | None = None
    anything: bool = False
    file: str = ""
    line: int = 0


class Layer(Node):
    """One step of a network: the array names of ``x @ weight.T + bias``, then the activation."""

    weight: str
    bias: str
    activation: Literal["none", "relu", "tanh", "sigmoid", "leaky_relu", "gelu"] = "none"


class Network(Node):
    """An earlier model: dense layers over columns of the contract.

    Attributes:
        bank: position of a condition bank of one row, with slots for the first layer's inputs, in
            order.
        mean: for each input the number that is subtracted from it.
        std: for each input the number that the difference is divided by.
        layers: the dense layers, in order.
        decision: how the last layer's outputs become an answer: the largest is the class, one is a
            probability or its logit (two classes), or one is the number itself, times `scale` plus
            `offset`.
    """

    bank: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    layers: tuple[Layer, ...] = Field(min_length=1)
    decision: Literal["largest", "probability", "logit", "number"]
    scale: float = 1.0
    offset: float = 0.0


class KnowledgeModel(Node):
    """A range or prediction model of one output.

    Attributes:
        output: name of a label or an output.
        column: the header under which tables have the true values of the output.
        classes: the classes of a label, in order; () for a number.
        unit: unit of the number; "" for none.
        span: smallest and largest value of the number, in `unit`.
        clauses: in order. Ranges that hold at once intersect; of predictions the first that holds
            wins.
        otherwise: what holds where every condition fails; None: anything, or no prediction.
        network: the earlier model that gives the answers; `clauses` is then empty.
        proven: what could be shown for every sample within the declared spans: ``nonempty`` (a
            range model never allows nothing, nor do all of the same output together), ``within`` (a
            prediction lies in the ranges of the same output; assumption 5.1). What is not proven is
            checked on data.
    """

    name: str
    kind: Literal["range", "predict"]
    output: str
    column: str = ""
    classes: tuple[str, ...] = ()
    unit: str = ""
    span: tuple[float, float] | None = None
    scope: Literal["public", "server", "client"] = "public"
    clauses: tuple[Clause, ...] = ()
    otherwise: Clause | None = None
    network: Network | None = None
    proven: tuple[Literal["nonempty", "within"], ...] = ()
    text: str = ""
    file: str = ""
    line: int = 0
