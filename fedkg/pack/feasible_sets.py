"""Sets: where parameters or predictions of each client must lie."""

from __future__ import annotations

from typing import Literal

from fedkg.pack.contract import Node

Shape = Literal[
    "box",
    "halfspace",
    "affine",
    "l1_ball",
    "l2_ball",
    "linf_ball",
    "simplex",
    "monotone",
    "nonnegative",
]

ARGUMENTS: dict[Shape, tuple[str, ...]] = {
    "box": ("low", "high"),
    "halfspace": ("bound",),
    "affine": ("bound",),
    "l1_ball": ("radius", "center"),
    "l2_ball": ("radius", "center"),
    "linf_ball": ("radius", "center"),
    "simplex": ("total",),
    "monotone": (),
    "nonnegative": (),
}
"""Each shape with its named numbers, in their order. `halfspace` and `affine` have the coefficients
of their vector before them."""


class ClientSet(Node):
    """The numbers of one client.

    Attributes:
        client: name of the client; "" for every client.
        iri: node of the client in the graph; "" for none.
        numbers: one number for each of the set's `arguments`; None for a number that the job gives.
    """

    client: str = ""
    iri: str = ""
    numbers: tuple[float | None, ...] = ()


class KeptSet(Node):
    """A set that something is kept in. With ``v`` for what is kept:

    | shape | set |
    |---|---|
    | box | low <= v_i <= high |
    | halfspace | sum of c_i v_i <= bound |
    | affine | sum of c_i v_i = bound |
    | l1_ball, l2_ball, linf_ball | norm of (v - center) <= radius |
    | simplex | v_i >= 0, sum of v_i = total |
    | monotone | v_1 <= v_2 <= ... |
    | nonnegative | v_i >= 0 |

    Attributes:
        on: whether parameters of the model are kept in it, or what it predicts.
        target: the dotted name of one parameter tensor (``head.weight``), the name of one output or
            label, or "" for all.
        arguments: the names of the numbers: ``c1``, ``c2``, ... of a halfspace or an affine set
            first.
        unit: unit of the numbers; "" for none. Numbers of a set of parameters never have one.
        clients: one entry for each client, or a single one for all.
        text: the statement as written.
        file: name of the statement's file without folders.
        line: line of the statement in `file`.
    """

    name: str
    on: Literal["parameters", "predictions"]
    target: str = ""
    shape: Shape
    arguments: tuple[str, ...] = ()
    unit: str = ""
    clients: tuple[ClientSet, ...]
    scope: Literal["public", "server", "client"] = "public"
    text: str = ""
    file: str = ""
    line: int = 0

    def numbers_of(self, client: str) -> dict[str, float | None] | None:
        """The numbers of a client, by its name or its node, under the names of the arguments.

        None where the set says nothing of it.
        """
        entry = next(
            (
                one
                for one in self.clients
                if client in (one.client, one.iri) or not (one.client or one.iri)
            ),
            None,
        )
        return None if entry is None else dict(zip(self.arguments, entry.numbers, strict=True))
