"""Templates that grow: one that grows too large gives a diagnostic and no crash."""

from __future__ import annotations

import pytest

from fedkg_compiler import compile_rules

SUM = " + ".join(["a"] * 120)


def codes(text: str) -> list[str]:
    return [
        problem.code
        for problem in compile_rules(text=f"timeline step 1 s\nsignal a\n{text}").diagnostics
    ]


def chain(length: int, body: str) -> str:
    """Templates that each follow the next one."""
    links = "".join(f"template t{i}(x) = {body.format(f't{i + 1}')}\n" for i in range(length))
    return f"{links}template t{length}(x) = x <= 3\nrule r require follows t0(a)\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            (
                f"template t(x, y) = always [0, 3] x + {SUM} <= y\nrule r require follows t({SUM},"
                " 3)\n"
            ),
            [],
        ),
        (
            (
                f"template t(x, y) = always [0, 3] x + {SUM} + {SUM} <= y\nrule r require follows"
                f" t({SUM}, 3)\n"
            ),
            ["FKG034"],
        ),
        (chain(5, "not follows {}(x + x)"), []),
        (chain(40, "follows {}(x + x)"), ["FKG261"]),
        (chain(300, "not follows {}(x)"), ["FKG261"]),
    ],
    ids=["long sums", "longer sums", "five deep", "doubling", "deep"],
)
def test_what_is_too_large_is_reported(text: str, said: list[str]) -> None:
    assert [code for code in codes(text) if code < "FKG500"] == said
