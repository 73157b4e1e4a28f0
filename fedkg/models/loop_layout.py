"""Description of a model as numbers, for the loop over a client's local steps.

Letters: L dense layers, B most samples of a minibatch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from fedkg.kernels.training import convolutions, dense_layers, sample_norms
from fedkg.models.convnet import ConvNet
from fedkg.models.mlp import MLP


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayout:
    """A model as numbers.

    Attributes:
        widths: input and output widths of the dense layers, L + 1.
        dropped: dropout rates before each of them, L.
        site: position of the layer with dropout site 0.
        bias: whether the dense layers have one.
        tanh: the activation.
        images: see `convolutions`; a single 0 without convolutions.
        seen: parameters of the convolutions.
        kept: workspace numbers per sample.
        spare: further workspace numbers of the convolutions.
    """

    widths: tuple[int, ...]
    dropped: tuple[float, ...]
    site: int
    bias: bool
    tanh: bool
    images: tuple[int, ...] = (0,)
    seen: int = 0
    kept: int = 0
    spare: int = 0

    def form(
        self,
        *,
        parameters: int,
        steps: int,
        batch: int,
        loss: int,
        pulled: bool,
        anchors: bool,
        drifting: bool,
        clipped: bool,
    ) -> list[int]:
        """The positions up to `dense_layers.WIDTHS` and the numbers from there on; `parameters` are
        those of the whole model.
        """
        found = [0] * dense_layers.WIDTHS
        found[dense_layers.PARAMETERS], found[dense_layers.SIZE], found[dense_layers.SEEN] = (
            parameters - self.seen,
            parameters,
            self.seen,
        )
        found[dense_layers.STEPS], found[dense_layers.BATCH], found[dense_layers.LAYERS] = (
            steps,
            batch,
            len(self.widths) - 1,
        )
        found[dense_layers.BIAS], found[dense_layers.TANH], found[dense_layers.LOSS] = (
            self.bias,
            self.tanh,
            loss,
        )
        found[dense_layers.PULLED], found[dense_layers.ANCHORS], found[dense_layers.DRIFTING] = (
            pulled,
            anchors,
            drifting,
        )
        found[dense_layers.ALL], found[dense_layers.WIDEST] = sum(self.widths), max(self.widths)
        found[dense_layers.SITE], found[dense_layers.INWARD], found[dense_layers.CLIPPED] = (
            self.site,
            self.seen > 0,
            clipped,
        )
        return [
            *found,
            *self.widths,
            *(min(round(share * (1 << 16)), (1 << 16) - 1) - (1 << 15) for share in self.dropped),
        ]

    def numbers(self, *, decay: float, weight: float, clip: float) -> list[float]:
        """The positions up to `dense_layers.SCALES` and the numbers from there on: the pull to 0,
        the weight of positive samples, the clip norm.
        """
        found = [0.0] * dense_layers.SCALES
        found[dense_layers.DECAY], found[dense_layers.WEIGHT], found[dense_layers.CLIP] = (
            decay,
            weight,
            clip,
        )
        return [*found, *(1.0 / (1.0 - share) for share in self.dropped)]


def layout_of(model: MLP | ConvNet) -> ModelLayout:
    """The layout of a model."""
    if isinstance(model, MLP):
        dropped = (0.0, *(model.dropout for _ in model.hidden))
        return ModelLayout(
            widths=model.widths,
            dropped=dropped,
            site=1,
            bias=model.bias,
            tanh=model.activation == "tanh",
        )
    layers, seen, kept, spare, most = [], 0, 0, 0, 0
    distances: list[int] = []
    first = convolutions.FIRST + len(model.convolutions) * convolutions.EACH
    for layer, (channels, high, wide), (_, down, across) in zip(
        model.convolutions, model.shapes[:-1], model.shapes[1:], strict=True
    ):
        high, wide, side = high + 2 * layer.padding, wide + 2 * layer.padding, layer.kernel
        size, apart = high * wide, (high - side + 1) * wide
        long = (side - 1) * (wide + 1) + size
        window = [row * wide + column for row in range(side) for column in range(side)]
        ahead = [channel * size + place for channel in range(channels) for place in window]
        behind = [output * long - place for output in range(layer.channels) for place in window]
        at = first + len(distances)
        shape = (
            channels,
            high,
            wide,
            side,
            layer.channels,
            layer.padding,
            layer.pool,
            down,
            across,
        )
        layers += [*shape, seen, kept, kept + channels * size, at, at + len(ahead)]
        distances += [*ahead, *behind]
        listed = 2 * channels * size + channels * side * side + 4 * apart + 4
        spare, most = (
            max(spare, layer.channels * (apart + long) + listed),
            max(most, layer.channels),
        )
        seen += layer.channels * (channels * side * side + 1)
        kept += channels * size + layer.channels * apart
    head = [len(model.convolutions), model.pooling == "mean", prod(model.image), kept]
    return ModelLayout(
        widths=model.widths,
        dropped=(model.dropout[0], *(model.dropout[1] for _ in model.hidden)),
        site=0,
        bias=True,
        tanh=model.activation == "tanh",
        images=(*head, *layers, *distances),
        seen=seen,
        kept=kept,
        spare=max(2, most) * convolutions.REPEATED + 3 * seen + max(spare, sample_norms.RUN),
    )
