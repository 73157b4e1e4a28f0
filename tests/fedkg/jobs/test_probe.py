"""The server's probe: covering, reproducible, and from server rows alone."""

from __future__ import annotations

import numpy as np
import pytest

from fedkg.constraints import evaluate_bank
from fedkg.data import deal_names
from fedkg.data.ai4i import TORQUE, WEAR, generate
from fedkg.evaluation import table_values
from fedkg.jobs.experiment.server_probe_rows import probe_rows
from fedkg.jobs.schema.job import Scoring


@pytest.fixture
def server():
    frame = generate(1200, 6)
    return frame.with_texts(
        "machine",
        deal_names(1200, ["M1", "M2", "M3", "M4"], np.random.Generator(np.random.PCG64(0))),
    )


def test_a_plain_probe_is_server_rows_as_they_are(pack, server):
    probe = probe_rows(pack, server, Scoring(probe="plain", probe_rows=50), 0)
    assert probe.rows == 50
    assert set(probe.texts("UDI")) <= set(server.texts("UDI"))


def test_a_covering_probe_lets_every_bound_row_apply(pack, server):
    scoring = Scoring(probe_rows=20, rows_per_rule=3)
    probe = probe_rows(pack, server, scoring, 0)
    assert ((server.numbers(TORQUE) * server.numbers(WEAR)) > 11000).sum() >= 3
    values = table_values(pack.manifest.contract, probe.table()).values
    strain = evaluate_bank(pack.banks[0], values).fired.sum(axis=0)
    assert (strain >= 3).all()
    assert probe.rows <= 20 + 3 * 4 * 2


def test_a_probe_can_be_drawn_again_and_differs_by_seed(pack, server):
    scoring = Scoring(probe_rows=20)
    one, two, other = (probe_rows(pack, server, scoring, seed) for seed in (0, 0, 1))
    assert one.texts("UDI") == two.texts("UDI") != other.texts("UDI")


def test_rows_are_never_invented(pack, server):
    probe = probe_rows(pack, server, Scoring(probe_rows=20), 0)
    known = set(zip(server.texts("UDI"), server.texts(TORQUE), server.texts(WEAR), strict=True))
    assert (
        set(zip(probe.texts("UDI"), probe.texts(TORQUE), probe.texts(WEAR), strict=True)) <= known
    )


def test_labels_are_not_used(pack, server):
    turned = server.with_numbers("Machine failure", 1.0 - server.numbers("Machine failure"))
    one, two = (probe_rows(pack, frame, Scoring(probe_rows=20), 0) for frame in (server, turned))
    assert one.texts("UDI") == two.texts("UDI")
