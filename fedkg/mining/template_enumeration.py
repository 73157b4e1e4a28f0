"""Template-free mining: enumerate templates and windows, and keep the most informative properties
for their size.

Source: An, Johnson and Ma 2024, table 1, row 8, which does not specify the enumeration, or how to
compare properties of different templates. Here: the inferences of a pack, with open windows from a
grid, and the information of a property: the improbability that a trace with the same values in
another order satisfies it. The smooth metric of TeLEX, which is best if every bound is satisfied by
about one deviation, compares parameters of one template; between templates it prefers those with
`eventually`, which nearly always have such a step.

Letters: C clients, S traces of each, T steps, F features, P parameters, N reordered traces of each
client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout
from fedkg.errors import HorizonError, KnowledgeError
from fedkg.mining.level_selection import Pick, least
from fedkg.mining.mining_arguments import check_pack, check_pick, check_traces
from fedkg.mining.tightest_parameters import MiningResult, mine, verdicts
from fedkg.pack import Pack
from fedkg.pack.formula_text import formula_text, row_names
from fedkg.pack.formulas import Temporal, Until, subformulas
from fedkg.pack.parameter_mining_tasks import Inference

StepRange = tuple[int, int]
"""The first and last step, counted from 0."""

ONE_SIGNAL_TEMPLATES = {
    "operational_range": (
        "operational_range({x}, ?low, ?high, ?begin, ?end)",
        "?low, ?high, ?begin, ?end",
    ),
    "existence": ("existence({x}, ?low, ?high, ?begin, ?end)", "?low, ?high, ?begin, ?end"),
    "extremes": ("extremes({x}, ?high, ?low, ?begin, ?end)", "?high, ?low, ?begin, ?end"),
    "until": ("until({x}, ?first, ?goal, ?begin, ?end)", "?goal, ?first, ?begin, ?end"),
    "temporal_implication": (
        "temporal_implication({x}, ?trigger, ?answer, ?begin, ?end, ?soonest, ?latest)",
        "?trigger, ?answer, ?begin, ?end, ?soonest, ?latest",
    ),
    "multiple_eventualities": (
        "multiple_eventualities({x}, ?a_1, ?begin_1, ?end_1, ?a_2, ?begin_2, ?end_2)",
        "?a_1, ?a_2, ?begin_1, ?end_1, ?begin_2, ?end_2",
    ),
    "always_soon_above": (
        "always_soon_above({x}, ?least, ?begin, ?end, ?latest)",
        "?least, ?begin, ?end, ?latest",
    ),
    "always_soon_below": (
        "always_soon_below({x}, ?most, ?begin, ?end, ?latest)",
        "?most, ?begin, ?end, ?latest",
    ),
    "soon_long_above": (
        "soon_long_above({x}, ?least, ?begin, ?end, ?length)",
        "?least, ?begin, ?end, ?length",
    ),
    "soon_long_below": (
        "soon_long_below({x}, ?most, ?begin, ?end, ?length)",
        "?most, ?begin, ?end, ?length",
    ),
}
"""The templates of one signal: their calls, and the parameters to mine."""

TWO_SIGNAL_TEMPLATES = {
    "intra_task": ("intra_task({x}, {y}, ?least, ?begin, ?end)", "?least, ?begin, ?end"),
    "nested_intra_task": (
        "nested_intra_task({x}, {y}, ?trigger, ?answer, ?begin, ?end, ?soonest, ?latest)",
        "?trigger, ?answer, ?begin, ?end, ?soonest, ?latest",
    ),
}
"""The templates of two signals, in both orders."""

NESTED_TEMPLATES = ("always_soon_above", "always_soon_below", "soon_long_above", "soon_long_below")
"""Templates from `templates.template_free`; each of the others is in a file of its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One property of a client's traces.

    Attributes:
        name: of the inference.
        text: the formula, with its values in source units.
        values: of its parameters, by name; ends of windows in steps.
        tightness: its information in bits: minus the logarithm of the share of reordered traces
            that also satisfy it.
        size: number of comparisons and connectives.
        score: tightness / size.
        satisfied: share of the client's traces that satisfy it; 1 unless a quantile of them was
            requested.
    """

    name: str
    text: str
    values: Mapping[str, float]
    tightness: float
    size: int
    score: float
    satisfied: float


def enumerate_inferences(
    signals: Sequence[str],
    *,
    templates: Sequence[str] = (*ONE_SIGNAL_TEMPLATES, *TWO_SIGNAL_TEMPLATES),
) -> str:
    """Statements of the rule language with these templates, for each signal and each pair of
    signals; their numbers and windows are open.

    Append them to a text with the timeline and the declarations of the signals:
    ``fedkg.compile(text=declarations + enumerate_inferences(["x"]))``. A difference (`intra_task`)
    needs signals with comparable units; otherwise exclude its template.

    Raises:
        KnowledgeError: a template that is not in `ONE_SIGNAL_TEMPLATES` or `TWO_SIGNAL_TEMPLATES`.
    """
    unknown = next(
        (
            name
            for name in templates
            if name not in ONE_SIGNAL_TEMPLATES and name not in TWO_SIGNAL_TEMPLATES
        ),
        None,
    )
    if unknown is not None:
        raise KnowledgeError(
            f"unknown template `{unknown}`",
            expected=", ".join((*ONE_SIGNAL_TEMPLATES, *TWO_SIGNAL_TEMPLATES)),
        )
    files = sorted(
        {f"templates.{'template_free' if name in NESTED_TEMPLATES else name}" for name in templates}
    )
    lines = [f"use rules {', '.join(files)}"]
    for name in templates:
        if name in ONE_SIGNAL_TEMPLATES:
            call, found = ONE_SIGNAL_TEMPLATES[name]
            lines += [
                f"infer {name}_{x} per client find {found} in {call.format(x=x)}" for x in signals
            ]
        else:
            call, found = TWO_SIGNAL_TEMPLATES[name]
            lines += [
                f"infer {name}_{x}_{y} per client find {found} in {call.format(x=x, y=y)}"
                for x, y in permutations(signals, 2)
            ]
    return "\n".join(lines) + "\n"


def mine_properties(
    pack: Pack,
    x: Tensor,
    *,
    layout: InputLayout,
    windows: Sequence[StepRange],
    generator: torch.Generator,
    inside: Tensor | None = None,
    pick: Pick = least,
    best: int = 10,
    bits: float = 0.5,
    reordered: int = 255,
) -> list[list[Property]]:
    """For each client, the most informative properties for their size, best first.

    Tries every inference of the pack with every choice of open windows from the grid, and mines its
    other parameters. Skips properties with a parameter that the data does not determine, and those
    with too little information. Of the properties of one inference, keeps the best choice of
    windows.

    Args:
        pack: compiled rules with inferences with open windows, such as those of
            `enumerate_inferences`; others are tried as they are.
        x: as in `fedkg.mining.mine`.
        layout: as in `fedkg.mining.mine`.
        windows: the grid, [first, last] in steps. A window with one fixed end takes those with that
            end.
        generator: of the orders; seed it for reproducible results.
        inside: as in `fedkg.mining.mine`.
        pick: as in `fedkg.mining.mine`, but not private: the properties are compared on the data.
        best: largest number of properties of each client.
        bits: smallest information of a property. Values are the tightest of S traces, so about 1 in
            S of other traces violates each by chance: with few traces, little is informative by
            accident.
        reordered: N; a property has at most log2(N + 1) bits.

    Raises:
        LayoutError: the traces do not fit the layout.
        KnowledgeError: a private pick; no windows; one that ends before it begins; none that fits
            the traces; a pack without inferences; as `fedkg.mining.mine`.
    """
    check_pack(pack)
    check_traces(x, layout, inside)
    check_pick(pick)
    if pick.noisy:
        raise KnowledgeError(
            "mine_properties cannot be private, because it compares properties on the data itself",
            help="use pick=least or pick=quantile(...); for private parameters use "
            "fedkg.mining.mine",
        )
    if not pack.manifest.inferences or not windows or reordered < 1 or best < 1:
        raise KnowledgeError(
            "there is nothing to enumerate",
            expected="inferences in the pack, at least one window, and best and reordered above 0",
            received=f"{len(pack.manifest.inferences)} inferences, {len(windows)} windows, best "
            f"{best}, reordered {reordered}",
        )
    wrong = next((window for window in windows if not 0 <= window[0] <= window[1]), None)
    if wrong is not None:
        raise KnowledgeError(
            f"({wrong[0]}, {wrong[1]}) is not a window",
            expected="(first, last) in steps, counted from 0, with first <= last",
            help=f"write ({wrong[1]}, {wrong[0]})" if 0 <= wrong[1] < wrong[0] else "",
        )
    given = x.unsqueeze(0) if x.ndim == 3 else x
    present = (
        torch.ones(given.shape[:2], dtype=torch.bool)
        if inside is None
        else inside.reshape(given.shape[:2]).cpu()
    )
    other, there = _reordered(given, present, reordered, generator)
    found: list[list[Property]] = [[] for _ in range(given.shape[0])]
    tried = 0
    for inference in pack.manifest.inferences:
        of_inference: list[dict[str, Property]] = [{} for _ in found]
        for fixed in _choices(pack, inference, windows):
            try:
                mined = mine(
                    pack, inference, given, layout=layout, inside=inside, pick=pick, fixed=fixed
                )
            except HorizonError:
                continue
            tried += 1
            holds, usable = verdicts(
                pack, inference, mined.values, other, layout=layout, inside=there
            )
            for client, one in enumerate(
                _properties(pack, inference, mined, holds.sum(-1), usable.sum(-1))
            ):
                if one is not None and one.tightness >= bits:
                    of_inference[client][one.text] = one
        for kept, properties in zip(found, of_inference, strict=True):
            kept += sorted(properties.values(), key=_rank)[:1]
    if not tried:
        raise KnowledgeError(
            "no window of the grid fits the traces",
            received=f"{given.shape[2]} steps",
            help="mine in longer traces, or use shorter windows",
        )
    return [sorted(properties, key=_rank)[:best] for properties in found]


def _rank(one: Property) -> tuple[float, int, str]:
    return -one.score, one.size, one.text


def _properties(
    pack: Pack, inference: Inference, mined: MiningResult, kept: Tensor, of: Tensor
) -> Iterator[Property | None]:
    """The property of each client, from the number of its reordered traces that satisfy it; None if
    not determined.
    """
    bank = pack.conditions[inference.condition]
    size = sum(1 for _ in subformulas(bank.skeleton))
    names = row_names(pack.manifest.contract, bank, 0)
    bits = -torch.log2((kept + 1) / (of + 1))
    for client, values in enumerate(mined.values.tolist()):
        tight = float(bits[client])
        if not bool(mined.determined[client].all()) or not bool(mined.fits[client]):
            yield None
            continue
        params = list(names.params)
        for parameter, value in zip(inference.parameters, values, strict=True):
            params[parameter.param] = f"{value:.0f}" if parameter.integer else f"{value:.6g}"
        yield Property(
            name=inference.name,
            text=formula_text(bank.skeleton, replace(names, params=params)),
            values=dict(zip(mined.names, values, strict=True)),
            tightness=tight,
            size=size,
            score=tight / size,
            satisfied=float(mined.satisfied[client]),
        )


def _choices(
    pack: Pack, inference: Inference, windows: Sequence[StepRange]
) -> Iterator[dict[str, float]]:
    """Values of the open ends of an inference's windows, by parameter: each window one of the
    grid."""
    bank = pack.conditions[inference.condition]
    open_ends = {
        parameter.param: parameter.name for parameter in inference.parameters if parameter.integer
    }
    pairs = {
        (part.low, part.high)
        for part in subformulas(bank.skeleton)
        if isinstance(part, Temporal | Until)
    }
    spots = sorted(pair for pair in pairs if open_ends.keys() & set(pair))
    seen: set[tuple[tuple[str, float], ...]] = set()
    for choice in product(windows, repeat=len(spots)):
        fixed: dict[str, float] = {}
        fits = True
        for pair, window in zip(spots, choice, strict=True):
            for param, step in zip(pair, window, strict=True):
                if param in open_ends:
                    fits &= fixed.setdefault(open_ends[param], float(step)) == step
                else:
                    fits &= float(bank.params[0, param]) == step
        if fits and (key := tuple(sorted(fixed.items()))) not in seen:
            seen.add(key)
            yield fixed


def _reordered(
    x: Tensor, present: Tensor, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """N traces of each client with shuffled steps, each feature separately: [C, N, T, F]; and a
    mask, bool [C, N].
    """
    clients, _, steps, features = x.shape
    order = (
        torch.rand((clients, count, steps, features), generator=generator).argsort(2).to(x.device)
    )
    number = present.sum(-1)
    places = torch.argsort(~present, dim=-1, stable=True)  # existing traces come first
    turn = torch.arange(count) % number.clamp(min=1).unsqueeze(-1)
    chosen = places.gather(1, turn).to(x.device)
    traces = x.gather(1, chosen[..., None, None].expand(clients, count, steps, features))
    return traces.gather(2, order), (number > 0).unsqueeze(-1).expand(clients, count).to(x.device)
