"""A small part of `make fuzz`: the first recorded seed, and with `slow` fresh seeds."""

from __future__ import annotations

import json
import random
from types import ModuleType

import fuzz_queries
import fuzz_shapes
import pytest

BOTH = pytest.mark.parametrize("fuzzer", [fuzz_queries, fuzz_shapes], ids=["queries", "shapes"])


@pytest.mark.slow
@BOTH
def test_the_first_recorded_batch_is_as_recorded(fuzzer: ModuleType) -> None:
    record = json.loads(fuzzer.RECORD.read_text())
    counts = fuzzer.run(iter((record["first"],)))
    assert counts.cases > 0
    assert counts.different == []
    assert set(counts.refused) <= set(record["refused"])


@BOTH
def test_no_recorded_case_differs(fuzzer: ModuleType) -> None:
    assert json.loads(fuzzer.RECORD.read_text())["different"] == 0


@pytest.mark.slow
@BOTH
def test_fresh_seeds_find_what_the_other_engine_finds(fuzzer: ModuleType) -> None:
    seeds = [random.SystemRandom().randrange(10**6, 10**9) for _ in range(2)]
    counts = fuzzer.run(iter(seeds))
    assert counts.different == [], seeds
