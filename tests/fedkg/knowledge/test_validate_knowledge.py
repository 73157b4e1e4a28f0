"""Packs with wrong knowledge models are rejected, with the model's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

import fedkg
from fedkg.errors import PackError
from fedkg.pack import Pack, Param, Reduce, Slot, read_pack
from fedkg.pack.knowledge_models import Clause, KnowledgeModel, Layer, Network

RULES = """
signal ash in % span 0 .. 40
label grade classes A, B, C
output quality in % span 0 .. 100
range knowledge r of grade  when ash > 12 % allow C  otherwise allow any
predict knowledge p of grade  when ash > 12 % predict C  otherwise predict A
range knowledge q of quality
  when ash > 12 % allow 0 .. 50 %
  when ash < 1 % allow any
  otherwise allow any
predict knowledge s of quality  when ash > 12 % predict 40 %  otherwise predict 90 %
"""


@pytest.fixture(scope="module")
def pack() -> Pack:
    return fedkg.compile(text=RULES)


Change = Callable[[KnowledgeModel], KnowledgeModel]


def clause(**fields: object) -> Change:
    """The first clause with these fields."""
    return lambda model: model.model_copy(
        update={"clauses": (model.clauses[0].model_copy(update=fields), *model.clauses[1:])}
    )


def field(**fields: object) -> Change:
    return lambda model: model.model_copy(update=fields)


def changed(pack: Pack, name: str, change: Change) -> Pack:
    models = tuple(
        change(model) if model.name == name else model for model in pack.manifest.knowledge
    )
    return replace(pack, manifest=pack.manifest.model_copy(update={"knowledge": models}))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("p", clause(predicted=None), "gives no answer"),
        ("s", clause(value=None), "gives no answer"),
        ("r", clause(classes=None), "gives no answer"),
        ("r", clause(classes=()), "no classes"),
        ("r", clause(classes=(1, 1)), "one twice"),
        ("r", clause(classes=(3,)), "a class that the model does not have"),
        ("r", clause(predicted=1), "gives classes and class"),
        ("r", clause(anything=True), "gives classes and anything"),
        ("q", clause(predicted=1), "gives interval and class"),
        ("q", clause(value=Param(index=0)), "gives interval and number"),
        ("q", clause(low=None, high=None, classes=(0,)), "gives classes, not interval"),
        ("p", clause(value=Param(index=0)), "gives class and number"),
        ("p", clause(predicted=None, classes=(0,)), "gives classes, not class"),
        ("s", clause(value=None, anything=True), "gives anything, not number"),
        ("s", field(otherwise=Clause(bank=0)), "gives no answer"),
        ("s", clause(value=Slot(index=9, role="input")), "reads what its condition does not have"),
        ("s", clause(value=Param(index=99)), "reads what its condition does not have"),
        ("s", clause(value=Slot(index=0, role="output")), "reads an output of the model"),
        (
            "s",
            clause(value=Reduce(op="sum", members=0, arg=Param(index=0), skip=False)),
            "ranges over members",
        ),
        ("s", clause(bank=99), "a condition that the pack does not contain"),
        ("q", field(span=(100.0, 0.0)), "a span although it has classes"),
        ("r", field(span=(0.0, 1.0)), "a span although it has classes"),
        ("r", field(classes=("A", "B", "C", "A")), "a class twice"),
        ("r", field(output=""), "names no output"),
        ("r", field(proven=("within",)), "lists a proven property that does not apply to it"),
        ("p", field(proven=("nonempty",)), "lists a proven property that does not apply to it"),
        ("p", field(name="r"), "occurs twice"),
    ],
)
def test_a_wrong_model_is_refused_by_its_name(
    pack: Pack, name: str, change: Change, words: str
) -> None:
    with pytest.raises(PackError, match="knowledge model `.*` .*" + words) as caught:
        read_pack(changed(pack, name, change).to_bytes())
    assert f"`{'r' if 'twice' in words and name == 'p' else name}`" in str(caught.value)


@pytest.mark.parametrize("bound", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_rejected_by_its_field(pack: Pack, bound: float) -> None:
    with pytest.raises(PackError, match=r"manifest field `knowledge.2.span.1` is wrong") as caught:
        read_pack(changed(pack, "q", field(span=(0.0, bound))).to_bytes())
    assert "Input should be a finite number" in str(caught.value)
    with pytest.raises(ValidationError, match="finite number"):
        Network.model_validate(
            {
                "bank": 0,
                "mean": (0.0,),
                "std": (1.0,),
                "layers": (Layer(weight="w", bias="b"),),
                "decision": "number",
                "scale": bound,
            }
        )


@pytest.mark.parametrize(
    ("name", "decision", "answers", "more", "words"),
    [
        ("p", "number", 1, {}, "decides by `number` among 3 classes"),
        ("p", "logit", 1, {}, "decides by `logit` among 3 classes"),
        ("s", "largest", 2, {}, "decides by `largest` among 0 classes"),
        ("p", "largest", 2, {}, "has a network with 2 outputs, not 3"),
        ("s", "number", 1, {"std": (0.0,)}, "mean or standard deviation"),
        ("s", "number", 1, {"mean": ()}, "different numbers of inputs"),
    ],
)
def test_a_wrong_network_is_rejected(
    pack: Pack, name: str, decision: str, answers: int, more: dict[str, object], words: str
) -> None:
    bank = next(
        i
        for i, found in enumerate(pack.conditions)
        if found.rows == 1 and found.slots.shape[1] == 1
    )
    network = Network.model_validate(
        {
            "bank": bank,
            "mean": (0.0,),
            "std": (1.0,),
            "layers": (Layer(weight="w", bias="b"),),
            "decision": decision,
            **more,
        }
    )
    made = changed(pack, name, field(clauses=(), otherwise=None, network=network))
    with pytest.raises(PackError, match=words):
        read_pack(
            replace(made, arrays={"w": np.ones((answers, 1)), "b": np.zeros(answers)}).to_bytes()
        )


def test_weights_that_are_no_numbers_and_a_network_beside_clauses_are_rejected(pack: Pack) -> None:
    bank = next(
        i
        for i, found in enumerate(pack.conditions)
        if found.rows == 1 and found.slots.shape[1] == 1
    )
    network = Network(
        bank=bank, mean=(0.0,), std=(1.0,), layers=(Layer(weight="w", bias="b"),), decision="number"
    )
    alone = changed(pack, "s", field(clauses=(), otherwise=None, network=network))
    good = {"w": np.ones((1, 1)), "b": np.zeros(1)}
    assert (
        read_pack(replace(alone, arrays=good).to_bytes()).manifest.knowledge[3].network == network
    )
    with pytest.raises(PackError, match="weights that are not finite numbers"):
        read_pack(replace(alone, arrays=good | {"b": np.array([np.nan])}).to_bytes())
    with pytest.raises(PackError, match="both clauses and a network"):
        read_pack(replace(changed(pack, "s", field(network=network)), arrays=good).to_bytes())
