"""Paths through the code do not become longer: lower a limit when a change shortens its path."""

from __future__ import annotations

from tests.structure.paths import measure

LIMITS = {
    "compile a rule with one comparison, text to bank": 31,
    "SHACL shape to verdict": 70,
    "job file to report": 271,
    "one round: updates to the new global model": 54,
}
"""The most source files that each action may run through."""


def test_actions_run_through_at_most_the_files_of_their_limits() -> None:
    found = {action: len(files) for action, files in measure().items()}
    assert found.keys() == LIMITS.keys()
    assert {action: n for action, n in found.items() if n > LIMITS[action]} == {}
    assert min(found.values()) > 10, "the measurement sees no calls"
