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

from fedkg.federated.model.constrained_outputs import CERTAIN, Informed, Trust, check_trust
from fedkg.models.model_protocols import Model, ModelWrapper
from fedkg.models.random_streams import Noise

TINY = 1e-7
"""Distance from 0 and 1 of a trust in the formula for a share between them; the ends have their
own formulas."""

UNKNOWN = 1e30
"""What a column says where nothing is known; a number of this size or more, whatever its sign."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Narrow(ModelWrapper):
    """A model that reads only the first columns of its samples.

    Args:
        model: the model that reads these columns.
        width: F, how many columns it reads.
    """

    width: int

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`."""
        return self.model.apply(params, x[..., : self.width], noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTrust:
    """The trust of the site that each row belongs to, as its last column says.

    Args:
        shares: the trust of rows of no site (position 0 in the column), then that of each site.
    """

    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        for share in self.shares:
            check_trust(share)

    def __call__(self, rows: Tensor) -> Tensor:
        """The trust in the predictions for rows [..., F], [...]."""
        return rows.new_tensor(self.shares)[rows[..., -1].round().to(torch.int64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedColumns:
    """The allowed classes of rows [B, F], bool [B, K], from K columns from `first` on."""

    first: int
    classes: int

    def __call__(self, rows: Tensor) -> Tensor:
        """See `Informed.range`."""
        return rows[..., self.first : self.first + self.classes] > 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedColumn:
    """The predicted class of rows [B, F], int64 [B], from the column that has it plus 1."""

    place: int

    def __call__(self, rows: Tensor) -> Tensor:
        """See `Informed.prediction`."""
        return rows[..., self.place].round().to(torch.int64) - 1


def informed(model: Model, width: int, classes: int, trust: Trust) -> Informed:
    """A classifier around which samples tell what is allowed and what is predicted.

    Args:
        model: of the first `width` features, answering one logit a class.
        classes: K; after the features come K columns that are 1 where a class is allowed, and one
            with the number of the predicted class
            plus 1, 0 where nothing is predicted. A `SiteTrust` reads one more column.
        trust: in 0 .. 1, as in `Informed`.
    """
    return Informed(
        model=Narrow(model=model, width=width),
        range=AllowedColumns(first=width, classes=classes),
        prediction=PredictedColumn(place=width + classes),
        trust=trust,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounded(ModelWrapper):
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

    width: int
    numbers: int = 1
    windows: bool = False
    trust: Trust = 0.3

    def __post_init__(self) -> None:
        check_trust(self.trust)

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; x [C, B, F + 3 O] or [C, B, T, F + 3 O], or without C, shared."""
        answer = self.model.apply(params, x[..., : self.width], noise)
        clients, batch = answer.shape[:2]
        last = x[..., -1, :] if self.windows else x
        said = last[..., self.width : self.width + 3 * self.numbers]
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
        trust = (
            self.trust(last).expand(clients, batch)[..., None, None]
            if callable(self.trust)
            else self.trust
        )
        drawn = (1 - trust) * kept + trust * torch.where(believed, predicted, 0.0)
        return torch.where(believed, drawn, kept).view(answer.shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundedChance(ModelWrapper):
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

    width: int
    windows: bool = False
    trust: Trust = 0.3

    def __post_init__(self) -> None:
        check_trust(self.trust)

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; x [C, B, F + 3] or [C, B, T, F + 3], or without C, shared.

        Answers [C, B, 1].
        """
        answer = self.model.apply(params, x[..., : self.width], noise)
        last = x[..., -1, :] if self.windows else x
        said = last[..., self.width : self.width + 3].expand(*answer.shape[:2], 3)
        low, high, predicted = (value.unsqueeze(-1) for value in said.unbind(-1))
        sound = (low <= high) & (high >= 0) & (low <= 1)
        ends = [torch.logit(end.clamp(0.0, 1.0)).clamp(-CERTAIN, CERTAIN) for end in (low, high)]
        kept = torch.where(sound, torch.minimum(torch.maximum(answer, ends[0]), ends[1]), answer)
        if not callable(self.trust) and not self.trust:
            return kept
        believed = (
            (predicted >= 0)
            & (predicted <= 1)
            & (~sound | ((predicted >= low) & (predicted <= high)))
        )
        chance = torch.where(believed, predicted, 0.5)
        certain = torch.logit(chance).clamp(-CERTAIN, CERTAIN)
        if callable(self.trust):
            share = self.trust(last).to(kept.dtype).expand(answer.shape[:2]).unsqueeze(-1)
            mixed = self._mix(kept, chance, share.clamp(TINY, 1 - TINY))
            mixed = torch.where(share == 1, certain, mixed)
            return torch.where(believed & (share > 0), mixed, kept)
        if self.trust == 1:
            # the answer counts nothing, and a prediction that is certain would make its gradient 0
            # times infinity
            return torch.where(believed, certain, kept)
        return torch.where(believed, self._mix(kept, chance, kept.new_tensor(self.trust)), kept)

    @staticmethod
    def _mix(kept: Tensor, chance: Tensor, share: Tensor) -> Tensor:
        """The logit of ``(1 - share) sigmoid(kept) + share chance`` for shares between 0 and 1."""
        yes = torch.logaddexp(
            torch.log1p(-share) + functional.logsigmoid(kept), share.log() + chance.log()
        )
        no = torch.logaddexp(
            torch.log1p(-share) + functional.logsigmoid(-kept), share.log() + torch.log1p(-chance)
        )
        return (yes - no).clamp(-CERTAIN, CERTAIN)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laid(ModelWrapper):
    """Wraps a model of windows (or images), so that its samples are rows that contain one step
    after the other. Rules that read rows need this form.

    Args:
        model: the model, for samples [T, F] (or any other shape).
        shape: the shape of one sample.
    """

    shape: tuple[int, ...]

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`."""
        return self.model.apply(params, x.reshape(*x.shape[:-1], *self.shape), noise)
