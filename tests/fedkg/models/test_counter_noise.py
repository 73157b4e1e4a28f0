from __future__ import annotations

import pytest
import torch

from fedkg.models.random_streams import GOLDEN, Noise, fold, mix, root, uniform

MASK = (1 << 64) - 1


def reference(z: int) -> int:
    """SplitMix64's finaliser on Python integers."""
    z &= MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    z ^= z >> 31
    return z - (1 << 64) if z >> 63 else z


def test_mix_is_splitmix64_on_every_kind_of_integer() -> None:
    values = [0, 1, -1, 2**63 - 1, -(2**63), GOLDEN, 12345678901234567]
    assert mix(torch.tensor(values)).tolist() == [reference(value) for value in values]


def test_the_stream_of_seed_zero_is_the_published_one() -> None:
    # First outputs of SplitMix64 with state 0, as in its reference implementation.
    stream = fold(torch.zeros((), dtype=torch.int64), torch.arange(3))
    assert [value & MASK for value in stream.tolist()] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


def test_fold_with_a_number_and_with_a_tensor_agree() -> None:
    key = root(7, 1, 2)
    assert [int(fold(key, word)) for word in range(5)] == fold(key, torch.arange(5)).tolist()


def test_roots_differ_by_seed_and_by_path() -> None:
    found = {
        int(root(*path))
        for path in [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 1), (0, 1, 0), (-1,)]
    }
    assert len(found) == 8


def test_uniform_numbers_are_uniform() -> None:
    draw = uniform(root(3), (100_000,))
    assert float(draw.min()) >= 0.0
    assert float(draw.max()) < 1.0
    assert float(draw.mean()) == pytest.approx(0.5, abs=0.005)
    counts = torch.histc(draw, bins=20, min=0, max=1)
    assert (
        float(((counts - 5000) ** 2 / 5000).sum()) < 45
    )  # chi-square, 19 degrees of freedom, far tail


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share(rate: float) -> None:
    keep_mask = Noise(root(1, 2) + torch.arange(20), 3).keep_mask(0, (20, 100, 50), rate)
    assert float(keep_mask.double().mean()) == pytest.approx(1 - rate, abs=0.005)


def test_dropout_depends_on_client_step_and_site_and_not_on_the_stack() -> None:
    keys = fold(root(5), torch.arange(4))
    whole = Noise(keys, 2).keep_mask(1, (4, 10, 8), 0.5)
    assert torch.equal(Noise(keys[2:3], 2).keep_mask(1, (1, 10, 8), 0.5)[0], whole[2])
    assert torch.equal(Noise(keys, 2).keep_mask(1, (4, 6, 8), 0.5), whole[:, :6])
    for other in (
        Noise(keys, 3).keep_mask(1, (4, 10, 8), 0.5),
        Noise(keys, 2).keep_mask(0, (4, 10, 8), 0.5),
        whole.roll(1, 0),
    ):
        assert 0.3 < float((other == whole).double().mean()) < 0.7


def test_hardly_anything_is_kept_at_the_highest_rate() -> None:
    assert (
        float(Noise(root(0).view(1), 0).keep_mask(0, (1, 300, 300), 1 - 1e-9).double().mean())
        < 1e-3
    )


def test_no_dropout_keeps_everything() -> None:
    assert bool(Noise(root(0).view(1), 0).keep_mask(0, (1, 50, 50), 0.0).all())
