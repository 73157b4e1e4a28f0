"""Check the steps of an algorithm and the tensors that they return: users write their own.

Letters: C clients of a stack, G models the server holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from typing_extensions import get_protocol_members

from fedkg._internal.user_code import describe_class
from fedkg.errors import JobError
from fedkg.federated.round_steps import (
    AfterRound,
    AggregationRule,
    BeforeRound,
    Differentiation,
    LocalUpdate,
    Outcome,
    PrivacyRule,
    SamplingRule,
    ServerStep,
    Setting,
    Term,
    WeightingRule,
)
from fedkg.models.model_protocols import Params

if TYPE_CHECKING:
    from fedkg.federated.algorithm import Algorithm

_PROTOCOLS = {
    "sampling": SamplingRule,
    "before": BeforeRound,
    "differentiation": Differentiation,
    "local": LocalUpdate,
    "privacy": PrivacyRule,
    "weighting": WeightingRule,
    "aggregate": AggregationRule,
    "server": ServerStep,
    "after": AfterRound,
}


def require_methods(algorithm: Algorithm) -> None:
    """Raise JobError if a step of an algorithm lacks a part of its protocol."""
    if algorithm.beside is not None:
        require_methods(algorithm.beside)
    steps = [(name, getattr(algorithm, name), _PROTOCOLS[name]) for name in _PROTOCOLS]
    for name, step, protocol in (*steps, *(("terms", term, Term) for term in algorithm.terms)):
        members = sorted(get_protocol_members(protocol))
        if not getattr(step, "by_chance", True):
            members.remove("randomness")
        lacking = [member for member in members if not hasattr(step, member)]
        if lacking:
            raise JobError(
                f"{describe_class(step)} cannot be `{name}` of an algorithm: it lacks"
                f" `{'`, `'.join(lacking)}`",
                expected=f"a {protocol.__name__}, with {', '.join(members)}",
                help=f"see fedkg.federated.round_steps.{protocol.__name__}",
            )


def require_shape(
    step: object, method: str, found: object, shape: Sequence[int], name: str = ""
) -> Tensor:
    """What a method of a step returned, a tensor of this shape.

    Args:
        name: of the tensor, if the method returns several.

    Raises:
        JobError: it is something else, or has another shape.
    """
    if not isinstance(found, Tensor) or found.shape != tuple(shape):
        received = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        of = f" for {name}" if name else ""
        raise _wrong(step, method, f"a tensor of shape {list(shape)}{of}", f"{received}")
    return found


def require_values(step: object, method: str, found: object, clients: Sequence[int]) -> Any:
    """What a term returned: a number for each client, or a constant, which counts for each
    (`Any`: a tensor or a number).

    Raises:
        JobError: it is something else, such as one number for all clients.
    """
    is_number = isinstance(found, int | float)
    if is_number or (isinstance(found, Tensor) and not found.ndim and not found.requires_grad):
        return found
    return require_shape(step, method, found, clients)


def require_shapes(
    step: object,
    method: str,
    found: object,
    shapes: Mapping[str, Sequence[int]],
    *,
    needed: Collection[str] = (),
    others: bool = False,
) -> None:
    """Raise JobError unless a method of a step returned tensors by name, of these shapes.

    Args:
        shapes: those of known names.
        needed: names that must be there.
        others: whether there may be tensors of other names, of any shape.
    """
    expected = f"tensors by name: {', '.join(shapes) or 'none'}"
    if not isinstance(found, Mapping):
        raise _wrong(step, method, expected, type(found).__name__)
    if not set(needed) <= found.keys() or not (others or found.keys() <= shapes.keys()):
        raise _wrong(step, method, expected, ", ".join(map(str, found)) or "none")
    for name, value in found.items():
        if name in shapes or not isinstance(value, Tensor):
            require_shape(step, method, value, shapes.get(name, ()), name)


def finish_local(
    algorithm: Algorithm, setting: Setting, variables: Params, carry: Params
) -> Outcome:
    """What clients send and remember after their local steps.

    Raises:
        JobError: the local update returns a wrong value for a variable or for what clients
            remember. It may leave out variables, and send others to an own aggregation rule. Sites
            check what they share against what they stated.
    """
    local = algorithm.local
    outcome = local.finish(setting, variables, carry)
    if not isinstance(outcome, Outcome):
        raise _wrong(local, "finish", "an Outcome", type(outcome).__name__)
    clients = len(setting.clients)
    known = {name: value.shape for name, value in setting.start.variables.items()}
    require_shapes(local, "finish", outcome.update, known, others=True)
    for name, value in outcome.update.items():  # also of other names
        require_shape(local, "finish", value, (clients, *value.shape[1:]), name)
    rows = {name: (clients, *value.shape[1:]) for name, value in setting.state.clients.items()}
    require_shapes(local, "finish", outcome.client_memory, rows)
    return algorithm.start.part(setting, outcome)


def apply_server(
    server: ServerStep, models: Params, update: Params, memory: Params
) -> tuple[Params, Params]:
    """The new models [G, ...] and memory of the server.

    Raises:
        JobError: the step returns something else than models of the same names and shapes, and
            its memory, tensors by name.
    """
    found: object = server.apply(models, update, memory)
    if not isinstance(found, tuple) or len(found) != 2:
        raise _wrong(server, "apply", "a pair: models, memory", type(found).__name__)
    shapes = {name: value.shape for name, value in models.items()}
    require_shapes(server, "apply", found[0], shapes, needed=shapes)
    require_shapes(server, "apply", found[1], {}, others=True)
    return found


def _wrong(step: object, method: str, expected: str, received: str) -> JobError:
    return JobError(
        f"{describe_class(step)}: `{method}` returns a wrong value",
        expected=expected,
        received=received,
        help=f"correct `{method}`; its protocol is in fedkg.federated.round_steps",
    )
