"""Which choices contradict a promise of privacy, and which are free under it."""

from __future__ import annotations

from typing import Any

import pytest

from fedkg.compatibility import AlgorithmChoices, find_contradictions

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"unit": "example", "exchange": "data"}, "nothing left that clipping and noise could protect"),
    ({"unit": "client", "exchange": "none"}, "no sum in which a client could hide"),
    ({"unit": "example", "models": 3}, "that choice is not noised"),
    (
        {"unit": "example", "models": 3, "chosen_by": "property"},
        "by which the server puts them into clusters",
    ),
    (
        {"unit": "client", "models": 3, "chosen_by": "property", "evenly": True},
        "what one client can change has no bound",
    ),
    (
        {"unit": "client", "server_trains": True, "chosen_by": "property"},
        "the server trains clusters on samples that clients send",
    ),
    (
        {"unit": "example", "server_trains": True},
        "the server trains clusters on samples that clients send",
    ),
    ({"unit": "client", "pooled": True}, "mined in the data of all clients together"),
    ({"unit": "example", "taught": True}, "properties mined in all samples of a client"),
    (
        {"unit": "client", "aggregate": "trimmed_mean"},
        "of medians, Krum and FLTrust no such bound is known",
    ),
    (
        {"unit": "client", "aggregate": "fltrust"},
        "of medians, Krum and FLTrust no such bound is known",
    ),
    (
        {"unit": "client", "blocks": True, "local": "blocks", "aggregate": "blocks"},
        "no sum in which it could hide",
    ),
    (
        {"unit": "client", "protected": True, "local": "scaffold"},
        "clipping and noise protect the update alone",
    ),
    ({"unit": "example", "half": True}, "each sample is clipped on its own"),
    ({"rounded": True, "local": "scaffnew"}, "add up to a drift"),
]


@pytest.mark.parametrize(("choices", "said"), REFUSED)
def test_what_goes_past_the_noise_is_refused(choices: dict[str, Any], said: str) -> None:
    found = find_contradictions(AlgorithmChoices(**choices))
    assert len(found) == 1
    assert said in found[0].reason
    assert found[0].help


@pytest.mark.parametrize(
    "choices",
    [
        {"unit": "example", "by_rules": True},
        {"unit": "example", "aggregate": "fltrust"},
        {"unit": "example", "aggregate": "trimmed_mean", "private": True},
        {"unit": "example", "local": "scaffold"},
        {"unit": "example", "blocks": True, "local": "blocks", "aggregate": "blocks"},
        {"unit": "example", "exchange": "none"},
        {"unit": "example", "rounded": True},
        {
            "unit": "client",
            "protected": True,
            "by_rules": True,
            "adds": False,
            "rounded": True,
            "half": True,
        },
        {"unit": "client", "protected": True, "taught": True, "personal": True, "private": True},
        {"unit": "client", "protected": True, "models": 3},
        {
            "unit": "client",
            "protected": True,
            "models": 3,
            "chosen_by": "property",
            "taught": True,
            "by_rules": True,
        },
        {
            "unit": "example",
            "models": 3,
            "chosen_by": "property",
            "on_samples": False,
            "evenly": True,
            "by_rules": True,
        },
        {"unit": "example", "pooled": True},
    ],
)
def test_what_is_made_of_noised_sums_is_free(choices: dict[str, Any]) -> None:
    assert find_contradictions(AlgorithmChoices(**choices)) == ()
