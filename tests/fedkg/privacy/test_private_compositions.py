"""Choices that contradict a privacy guarantee, and choices that cost none."""

from __future__ import annotations

from typing import Any

import pytest

from fedkg.algorithm_compatibility import AlgorithmChoices, find_contradictions

REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"privacy_unit": "example", "exchange": "data"},
        "nothing left that clipping and noise could protect",
    ),
    ({"privacy_unit": "client", "exchange": "none"}, "no sum in which a client could hide"),
    ({"privacy_unit": "example", "model_count": 3}, "that choice is not noised"),
    (
        {"privacy_unit": "example", "model_count": 3, "clustered_by": "property"},
        "by which the server assigns clusters",
    ),
    (
        {
            "privacy_unit": "client",
            "model_count": 3,
            "clustered_by": "property",
            "equal_clusters": True,
        },
        "the influence of one client has no bound",
    ),
    (
        {"privacy_unit": "client", "server_trains": True, "clustered_by": "property"},
        "the server trains clusters on samples that clients send",
    ),
    (
        {"privacy_unit": "example", "server_trains": True},
        "the server trains clusters on samples that clients send",
    ),
    (
        {"privacy_unit": "client", "pooled_property": True},
        "mined in the data of all clients together",
    ),
    (
        {"privacy_unit": "example", "property_training": True},
        "properties mined in all samples of a client",
    ),
    (
        {"privacy_unit": "client", "aggregate": "trimmed_mean"},
        "medians, Krum and FLTrust have no known bound",
    ),
    (
        {"privacy_unit": "client", "aggregate": "fltrust"},
        "medians, Krum and FLTrust have no known bound",
    ),
    (
        {"privacy_unit": "client", "agent_blocks": True, "local": "blocks", "aggregate": "blocks"},
        "no sum in which it could hide",
    ),
    (
        {"privacy_unit": "client", "protected_updates": True, "local": "scaffold"},
        "clipping and noise protect the update alone",
    ),
    ({"privacy_unit": "example", "mixed_precision": True}, "each sample is clipped separately"),
    ({"compressed_updates": True, "local": "scaffnew"}, "add up to a drift"),
]


@pytest.mark.parametrize(("choices", "said"), REFUSED)
def test_what_goes_past_the_noise_is_rejected(choices: dict[str, Any], said: str) -> None:
    found = find_contradictions(AlgorithmChoices(**choices))
    assert len(found) == 1
    assert said in found[0].reason
    assert found[0].help


@pytest.mark.parametrize(
    "choices",
    [
        {"privacy_unit": "example", "rule_weighting": True},
        {"privacy_unit": "example", "aggregate": "fltrust"},
        {"privacy_unit": "example", "aggregate": "trimmed_mean", "private_layers": True},
        {"privacy_unit": "example", "local": "scaffold"},
        {"privacy_unit": "example", "agent_blocks": True, "local": "blocks", "aggregate": "blocks"},
        {"privacy_unit": "example", "exchange": "none"},
        {"privacy_unit": "example", "compressed_updates": True},
        {
            "privacy_unit": "client",
            "protected_updates": True,
            "rule_weighting": True,
            "plain_server_step": False,
            "compressed_updates": True,
            "mixed_precision": True,
        },
        {
            "privacy_unit": "client",
            "protected_updates": True,
            "property_training": True,
            "personal_models": True,
            "private_layers": True,
        },
        {"privacy_unit": "client", "protected_updates": True, "model_count": 3},
        {
            "privacy_unit": "client",
            "protected_updates": True,
            "model_count": 3,
            "clustered_by": "property",
            "property_training": True,
            "rule_weighting": True,
        },
        {
            "privacy_unit": "example",
            "model_count": 3,
            "clustered_by": "property",
            "clusters_by_client_samples": False,
            "equal_clusters": True,
            "rule_weighting": True,
        },
        {"privacy_unit": "example", "pooled_property": True},
    ],
)
def test_what_is_made_of_noised_sums_is_free(choices: dict[str, Any]) -> None:
    assert find_contradictions(AlgorithmChoices(**choices)) == ()
