"""Models that read knowledge from extra columns: knowledge is evaluated once per data set and
appended to the samples.

Letters: C clients of a stack, B batch, T steps of a window, F features, K classes, P steps of a
forecast, O numbers of each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fedkg.errors import KnowledgeError
from fedkg.federated.model.constrained_outputs import CERTAIN, Informed
from fedkg.models.model_protocols import Model, Params, PartitionedModel
from fedkg.models.random_streams import Noise

UNKNOWN = 1e30
"""What a column says where nothing is known; a number of this size or more, whatever its sign."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Narrow:
    """A model that reads only the first columns of its samples.

    Args:
        model: the model that reads these columns.
        width: F, how many columns it reads.
    """

    model: Model
    width: int

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`: those of the model inside."""
        return (
            self.model.parts
            if isinstance(self.model, PartitionedModel)
            else {"body": ("",), "head": ()}
        )

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`."""
        return self.model.init(seed, dtype)

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`."""
        return self.model.apply(params, x[..., : self.width], noise)


def informed(model: Model, width: int, classes: int, trust: float) -> Informed:
    """A classifier around which samples tell what is allowed and what is predicted.

    Args:
        model: of the first `width` features, answering one logit a class.
        classes: K; after the features come K columns that are 1 where a class is allowed, and one
            with the number of the predicted class
            plus 1, 0 where nothing is predicted.
        trust: in 0 .. 1, as in `Informed`.
    """
    return Informed(
        model=Narrow(model=model, width=width),
        range=lambda rows: rows[..., width : width + classes] > 0.5,
        prediction=lambda rows: rows[..., width + classes].round().to(torch.int64) - 1,
        trust=trust,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounded:
    """A regression model with answers inside the interval, and close to the number, that the
    knowledge predicts.

    It applies definition 5.1 of Fan et al. 2022, which is about the distribution of an answer, to
    the answer itself: it moves the answer to the nearest end of the interval, and mixes it with the
    predicted number: ``(1 - trust) clamp(y, low, high) + trust g``. It ignores knowledge that
    contradicts itself: an empty interval, or a predicted number outside the interval. An answer
    outside its interval has no gradient.

    Args:
        model: the model of the first `width` columns.
        width: F. After the features, each sample has for each predicted number its lower bound,
            upper bound and predicted value, in the scale of the answers, or `UNKNOWN`.
        numbers: O, the numbers of each step.
        windows: whether samples are windows. The last step then contains the knowledge for all
            steps of the forecast.
        trust: the weight of the predicted numbers, in 0 .. 1.

    Raises:
        KnowledgeError: a trust outside of 0 .. 1.
    """

    model: Model
    width: int
    numbers: int = 1
    windows: bool = False
    trust: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.trust <= 1:
            raise KnowledgeError(
                "the trust in predictions must be a number in 0 .. 1", received=str(self.trust)
            )

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`: those of the model inside."""
        return Narrow(model=self.model, width=self.width).parts

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`."""
        return self.model.init(seed, dtype)

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; x [C, B, F + 3 O] or [C, B, T, F + 3 O], or without C, shared."""
        answer = self.model.apply(params, x[..., : self.width], noise)
        clients, batch = answer.shape[:2]
        said = x[..., -1, self.width :] if self.windows else x[..., self.width :]
        known = said.expand(clients, batch, 3 * self.numbers).reshape(
            clients, batch, 1, self.numbers, 3
        )
        low, high, predicted = known.unbind(-1)
        sound = low <= high
        steps = answer.view(clients, batch, -1, self.numbers)
        kept = torch.where(sound, torch.minimum(torch.maximum(steps, low), high), steps)
        believed = (predicted.abs() < UNKNOWN) & (
            ~sound | ((predicted >= low) & (predicted <= high))
        )
        drawn = (1 - self.trust) * kept + self.trust * torch.where(believed, predicted, 0.0)
        return torch.where(believed, drawn, kept).view(answer.shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundedChance:
    """A model of one probability (its answer is the logit) inside the interval, and close to the
    probability, that the knowledge predicts.

    The probability is ``(1 - trust) clamp(p, low, high) + trust g``. fedkg computes it in logits,
    so it is correct at 0 and 1. Like `Bounded`, the model ignores knowledge that contradicts
    itself. A certain probability has the logit `CERTAIN` or its negative. An answer outside its
    interval has no gradient.

    Args:
        model: the model of the first `width` columns.
        width: F. After the features, each sample has the lower bound, upper bound and predicted
            value of the probability, or `UNKNOWN`.
        windows: whether samples are windows. The last step then contains the knowledge.
        trust: the weight of the predicted probability, in 0 .. 1.

    Raises:
        KnowledgeError: a trust outside of 0 .. 1.
    """

    model: Model
    width: int
    windows: bool = False
    trust: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.trust <= 1:
            raise KnowledgeError(
                "the trust in predictions must be a number in 0 .. 1", received=str(self.trust)
            )

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`: those of the model inside."""
        return Narrow(model=self.model, width=self.width).parts

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`."""
        return self.model.init(seed, dtype)

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; x [C, B, F + 3] or [C, B, T, F + 3], or without C, shared.

        Answers [C, B, 1].
        """
        answer = self.model.apply(params, x[..., : self.width], noise)
        said = (x[..., -1, self.width :] if self.windows else x[..., self.width :]).expand(
            *answer.shape[:2], 3
        )
        low, high, predicted = (value.unsqueeze(-1) for value in said.unbind(-1))
        sound = (low <= high) & (high >= 0) & (low <= 1)
        ends = [torch.logit(end.clamp(0.0, 1.0)).clamp(-CERTAIN, CERTAIN) for end in (low, high)]
        kept = torch.where(sound, torch.minimum(torch.maximum(answer, ends[0]), ends[1]), answer)
        if not self.trust:
            return kept
        believed = (
            (predicted >= 0)
            & (predicted <= 1)
            & (~sound | ((predicted >= low) & (predicted <= high)))
        )
        share, chance = kept.new_tensor(self.trust), torch.where(believed, predicted, 0.5)
        if self.trust == 1:
            # the answer counts nothing, and a prediction that is certain would make its gradient 0
            # times infinity
            return torch.where(believed, torch.logit(chance).clamp(-CERTAIN, CERTAIN), kept)
        yes = torch.logaddexp(
            torch.log1p(-share) + functional.logsigmoid(kept), share.log() + chance.log()
        )
        no = torch.logaddexp(
            torch.log1p(-share) + functional.logsigmoid(-kept), share.log() + torch.log1p(-chance)
        )
        return torch.where(believed, (yes - no).clamp(-CERTAIN, CERTAIN), kept)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laid:
    """Wraps a model of windows (or images), so that its samples are rows that contain one step
    after the other. Rules that read rows need this form.

    Args:
        model: the model, for samples [T, F] (or any other shape).
        shape: the shape of one sample.
    """

    model: Model
    shape: tuple[int, ...]

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`: those of the model inside."""
        return (
            self.model.parts
            if isinstance(self.model, PartitionedModel)
            else {"body": ("",), "head": ()}
        )

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`."""
        return self.model.init(seed, dtype)

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`."""
        return self.model.apply(params, x.reshape(*x.shape[:-1], *self.shape), noise)
