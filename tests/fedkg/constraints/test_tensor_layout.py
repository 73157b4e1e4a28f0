"""Layouts describe tensors and reject contradictions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from fedkg.constraints import OutputLayout, columns, logit, probability, scores
from fedkg.constraints.binding.layout import outputs_of
from fedkg.errors import LayoutError


@pytest.mark.parametrize(
    "numbers", [[1.0, 2.0], (1, 2), np.array([1.0, 2.0], np.float32), torch.tensor([1.0, 2.0])]
)
def test_scalings_come_as_lists_arrays_or_tensors(numbers: Any) -> None:
    layout = columns(["a", "b"], mean=numbers, std=numbers)
    assert layout.mean == layout.std == (1.0, 2.0)


def test_one_number_stands_for_all() -> None:
    assert columns(["a", "b"], mean=0, std=2).std == (2.0, 2.0)
    assert columns(["a", "b"], mean=0, std=2).mean == (0.0, 0.0)
    assert columns(["a"]).mean is None


@pytest.mark.parametrize(
    ("there", "lacking", "neutral"), [("mean", "std", "1.0"), ("std", "mean", "0.0")]
)
def test_half_a_scaling_is_rejected(there: str, lacking: str, neutral: str) -> None:
    with pytest.raises(LayoutError, match=f"has a {there} and no {lacking}") as caught:
        columns(["a"], **{there: [3.0]})
    assert caught.value.help.endswith(f"or {lacking}={neutral} if they were not")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: columns("torque"), r"columns\(\['torque'\]\)"),
        (lambda: columns(["a", "a"]), "twice"),
        (lambda: columns(["a", "b"], mean=[1.0]), "2 numbers"),
        (lambda: columns(["a"], std=[0.0]), "std of `a`"),
        (lambda: columns(["a"], std=[-1.0]), "std of `a`"),
        (lambda: columns(["a"], mean=[float("nan")]), "mean of `a`"),
        (lambda: columns(["a"], mean=["x"]), "must be numbers"),
        (lambda: scores("grade", "ABC"), "list of classes"),
        (lambda: outputs_of("failure"), "probability"),  # type: ignore[arg-type]
        (lambda: outputs_of(7), "probability"),  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_rejected(make: Any, words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        make()


def test_output_layouts_join_in_order() -> None:
    joined = (
        columns(["density"], mean=[2.0], std=1)
        + probability("failure")
        + logit("trip")
        + scores("grade", ["A", "B"])
    )
    assert [(entry.kind, entry.name, entry.category) for entry in joined.entries] == [
        ("value", "density", ""),
        ("probability", "failure", ""),
        ("logit", "trip", ""),
        ("score", "grade", "A"),
        ("score", "grade", "B"),
    ]
    assert (
        outputs_of(
            (
                columns(["density"], mean=[2.0], std=1),
                probability("failure"),
                logit("trip"),
                scores("grade", ["A", "B"]),
            )
        )
        == joined
    )
    assert len(outputs_of(None)) == len(OutputLayout()) == 0


def test_the_interpreter_and_layouts_load_without_torch() -> None:
    script = (
        "import sys; from fedkg.constraints import evaluate_bank, columns; sys.exit('torch' in"
        " sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_torch_names_ask_for_the_extra_where_torch_is_missing() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import fedkg.constraints\n"
        "from fedkg.errors import MissingExtra\n"
        "try: fedkg.constraints.ConstraintModule\n"
        "except MissingExtra as error: assert '.[torch]' in str(error)\n"
        "else: sys.exit(3)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
