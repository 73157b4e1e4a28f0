"""Inferences: templates with parameters estimated from data, per client, per cluster, or per
run.
"""

from __future__ import annotations

from typing import Literal

from fedkg.pack.contract import Node

Direction = Literal["up", "down", "none"]


class MinedParameter(Node):
    """One number that is found: the tightest that the traces still satisfy.

    Attributes:
        name: of the variable after `find`, without its question mark.
        param: its place among the parameters of the condition's skeleton. In the bank it is NaN;
            the end of a window is open there (0 for the first step, -1 for the last).
        direction: in which direction satisfaction improves, everything else held: ``up`` (a larger
            value is easier), ``down``, or ``none`` where the formula does not tell; then a value
            that is found by halving need not be the tightest (source: An, Johnson and Ma 2024,
            section 3; monotone directions of parametric signal temporal logic).
        span: between which values it is looked for, in `unit`: the declared span of what it is
            compared with; None where there is none, and the data tells.
        unit: of the value; "" where it has none, or counts steps.
        integer: it is a number of steps.
    """

    name: str
    param: int
    direction: Direction
    span: tuple[float, float] | None = None
    unit: str = ""
    integer: bool = False


class Inference(Node):
    """A template with the parameters to estimate, and the traces to estimate them from.

    Attributes:
        name: name of the inference.
        per: the traces that the parameters are estimated from: those of each ``client``, of all
            members of each ``cluster``, of the whole ``run``.
        template: name of the template.
        text: the call of the template as written.
        condition: position of the template's formula in the pack's conditions; that bank has one
            row.
        parameters: the parameters in the order in which they are estimated; each has its loosest
            value until then.
    """

    name: str
    per: Literal["client", "cluster", "run"]
    scope: Literal["public", "server", "client"] = "public"
    template: str
    text: str = ""
    condition: int
    parameters: tuple[MinedParameter, ...]
