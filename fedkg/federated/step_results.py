"""Check the steps of an algorithm and the tensors that they return: users write their own.

Letters: C clients of a stack, G models the server holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor
from typing_extensions import get_protocol_members

from fedkg._internal.user_code import describe_class
from fedkg.errors import JobError
from fedkg.federated.round_steps import (
    AfterRound,
    AggregationRule,
    BeforeRound,
    Differentiation,
    GroupingRule,
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
    "grouping": GroupingRule,
    "aggregate": AggregationRule,
    "server": ServerStep,
    "after": AfterRound,
}


def require_methods(algorithm: Algorithm) -> None:
    """Raise JobError if a step of an algorithm lacks a part of its protocol."""
    steps = [(name, getattr(algorithm, name), _PROTOCOLS[name]) for name in _PROTOCOLS]
    for name, step, protocol in (*steps, *(("terms", term, Term) for term in algorithm.terms)):
        members = sorted(get_protocol_members(protocol))
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


def require_shapes(
    step: object,
    method: str,
    found: object,
    shapes: Mapping[str, Sequence[int]],
    *,
    some: bool = False,
) -> None:
    """Raise JobError unless a method of a step returned a tensor of each of these names and shapes.

    Args:
        some: whether it may leave out names.
    """
    expected = f"tensors by name: {', '.join(shapes) or 'none'}"
    if not isinstance(found, Mapping):
        raise _wrong(step, method, expected, type(found).__name__)
    if found.keys() - shapes.keys() or (shapes.keys() - found.keys() and not some):
        raise _wrong(step, method, expected, ", ".join(map(str, found)) or "none")
    for name, value in found.items():
        require_shape(step, method, value, shapes[name], name)


def finish_local(
    algorithm: Algorithm, setting: Setting, variables: Params, carry: Params
) -> Outcome:
    """What clients send and remember after their local steps.

    Raises:
        JobError: the local update returns something else than a tensor for each variable, and rows
            of what clients remember. Sites check what they share against what they stated.
    """
    local = algorithm.local
    outcome = local.finish(setting, variables, carry)
    if not isinstance(outcome, Outcome):
        raise _wrong(local, "finish", "an Outcome", type(outcome).__name__)
    sent = {name: value.shape for name, value in setting.start.variables.items()}
    require_shapes(local, "finish", outcome.update, sent)
    rows = {
        name: (len(setting.clients), *value.shape[1:])
        for name, value in setting.state.clients.items()
    }
    require_shapes(local, "finish", outcome.client_memory, rows, some=True)
    return algorithm.start.part(setting, outcome)


def apply_server(
    server: ServerStep, models: Params, update: Params, memory: Params
) -> tuple[Params, Params]:
    """The new models [G, ...] and memory of the server.

    Raises:
        JobError: the step returns something else than models and memory of the same names and
            shapes.
    """
    found: object = server.apply(models, update, memory)
    if not isinstance(found, tuple) or len(found) != 2:
        raise _wrong(server, "apply", "a pair: models, memory", type(found).__name__)
    for part, before in zip(found, (models, memory), strict=True):
        shapes = {name: value.shape for name, value in before.items()}
        require_shapes(server, "apply", part, shapes)
    return found


def _wrong(step: object, method: str, expected: str, received: str) -> JobError:
    return JobError(
        f"{describe_class(step)}: `{method}` returns a wrong value",
        expected=expected,
        received=received,
        help=f"correct `{method}`; its protocol is in fedkg.federated.round_steps",
    )
