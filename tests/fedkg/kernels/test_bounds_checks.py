"""With bounds checks, compiled code reports each access outside its arrays; other results are the
same to the bit.
"""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.federated import Clients, CrossEntropy, Problem, Settings, fedavg, train
from fedkg.federated.client import compiled_steps
from fedkg.kernels import checked_memory_access, kernel_compilation
from fedkg.kernels.checked_memory_access import add_checks, address
from fedkg.kernels.compiled_loop_policy import checks_bounds
from fedkg.kernels.loop_language import Floats, Ints, floats_at, loop
from fedkg.kernels.loop_library import Library
from fedkg.kernels.scratch import scratch_space
from fedkg.kernels.training.matrix_products import multiply
from fedkg.models import MLP


def forget_settings() -> None:
    """Forget what the process has compiled with the previous setting."""
    checks_bounds.cache_clear()
    compiled_steps.loops.cache_clear()
    kernel_compilation.cache_folder.cache_clear()


def with_setting(setting: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FEDKG_KERNELS", setting)
    forget_settings()
    yield
    monkeypatch.undo()
    forget_settings()


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from with_setting("check", monkeypatch)


@loop
def moved(out: Floats, x: Floats, n: int, by: int) -> None:
    for i in range(n):
        out[i] = x[i + by]


@loop
def moved_parts(out: Floats, x: Floats, n: int, by: int) -> None:
    for i in range(n):
        out[i:][0] = x[i:][by]


@loop
def first_of(out: Floats, frame: Ints) -> None:
    out[0] = floats_at(frame[0])[0]


ENTRIES = (moved, moved_parts, first_of, multiply)


@pytest.fixture(scope="module", params=[True, False], ids=["float32", "float64"])
def library(request: pytest.FixtureRequest) -> tuple[Library, Library, type]:
    """Loops with checks and without, and their dtype."""
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for setting in ("check", "on"):
            patch.setenv("FEDKG_KERNELS", setting)
            checks_bounds.cache_clear()
            found.append(Library(ENTRIES, single=request.param))
    checks_bounds.cache_clear()
    return found[0], found[1], np.float32 if request.param else np.float64


def numbers(count: int, dtype: type) -> NDArray[np.floating]:
    return np.random.default_rng(count).normal(size=count).astype(dtype)


@pytest.mark.parametrize("name", ["moved", "moved_parts"])
@pytest.mark.usefixtures("checked")
def test_reads_and_writes_outside_are_reported(
    name: str, library: tuple[Library, Library, type]
) -> None:
    dtype = library[2]
    run = getattr(library[0], name)
    x, out, short = numbers(8, dtype), np.zeros(8, dtype), np.zeros(7, dtype)
    size = x.itemsize
    run(address(out), address(x), 8, 0)
    assert out.tolist() == x.tolist()
    end = (
        rf"`{name}` accesses {size} bytes at address {x.ctypes.data + 8 * size:#x}, to {size} bytes"
    )
    with pytest.raises(IndexError, match=rf"{end} behind the end of the array of {8 * size} bytes"):
        run(address(out), address(x), 8, 1)
    with pytest.raises(IndexError, match=f"{size} bytes before the start of the array"):
        run(address(out), address(x), 8, -1)
    with pytest.raises(IndexError, match=f"to {size} bytes behind the end of .* {7 * size} bytes"):
        run(address(short), address(x), 8, 0)
    run(address(out), address(x), 8, 0)


@pytest.mark.usefixtures("checked")
def test_another_array_is_outside(library: tuple[Library, Library, type]) -> None:
    both = numbers(16, library[2])
    x, y, out = both[:8], both[8:], np.zeros(8, library[2])
    assert address(y) == address(x) + x.nbytes
    with pytest.raises(IndexError, match="behind the end"):
        library[0].moved(address(out), address(x), 8, 1)
    address(both)  # registers the memory of both
    library[0].moved(address(out), address(x), 8, 8)
    assert out.tolist() == y.tolist()


def starts() -> list[int]:
    return [start for _, start, _ in checked_memory_access._RANGES.values()]


@pytest.mark.usefixtures("checked")
def test_deleted_arrays_are_outside(library: tuple[Library, Library, type]) -> None:
    x, out = numbers(8, library[2]), torch.zeros(8, dtype=torch.float64)
    start, frame = address(x), np.array([address(x)])
    library[0].first_of(address(out), address(frame))
    assert start in starts()
    del x
    gc.collect()
    assert start not in starts()
    with pytest.raises(IndexError, match="`first_of` accesses"):
        library[0].first_of(address(out), address(frame))


@pytest.mark.parametrize("short", ["out", "begin", "left", "right"])
@pytest.mark.parametrize("columns", [16, 19, 3])
@pytest.mark.usefixtures("checked")
def test_tiles_are_checked_to_their_last_number(
    short: str, columns: int, library: tuple[Library, Library, type]
) -> None:
    rows, depth, dtype = 8, 5, library[2]
    sizes = {"begin": rows * columns, "left": rows * depth, "right": depth * columns}
    given = {name: numbers(size, dtype) for name, size in sizes.items()}

    def run(compiled: Library, cut: str) -> NDArray[np.floating]:
        given["out"] = np.zeros(rows * columns, dtype)
        parts = {name: part[: -(name == cut) or None].copy() for name, part in given.items()}
        at = {name: address(part) for name, part in parts.items()}
        compiled.multiply(
            at["out"], columns, at["begin"], columns, at["left"], depth, 1, at["right"], columns,
            rows, columns, depth,
        )  # fmt: skip
        return parts["out"]

    np.testing.assert_array_equal(run(library[0], ""), run(library[1], ""))
    with pytest.raises(IndexError, match=r"`multiply` accesses .* behind the end"):
        run(library[0], short)


@pytest.mark.usefixtures("checked")
def test_only_the_thread_with_the_access_outside_gets_an_error(
    library: tuple[Library, Library, type],
) -> None:
    def work(place: int) -> bool:
        x, out = numbers(100 + place, library[2]), np.zeros(100 + place, library[2])
        is_outside = place % 3 == 1
        try:
            library[0].moved(address(out), address(x), len(x), int(is_outside))
        except IndexError:
            return is_outside
        return not is_outside and out.tolist() == x.tolist()

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(200)))


def test_extents_span_strides() -> None:
    extent = checked_memory_access._extent
    assert extent(np.zeros((4, 6), dtype=np.float32)[1:, :5]) == 4 * (2 * 6 + 5)
    assert extent(torch.zeros(4, 6)[1:, :5]) == 4 * (2 * 6 + 5)
    assert extent(torch.zeros(1, 3).expand(5, 3)) == 12
    assert extent(torch.zeros(0, 3)) == 0


@pytest.mark.usefixtures("checked")
def test_scratch_has_no_spare_bytes() -> None:
    room = scratch_space(24)
    at = room.part_address(0, 16), room.part_address(16, 24)
    assert at[1] == at[0] + 16
    ranges = [(start, stop) for _, start, stop in checked_memory_access._RANGES.values()]
    assert {(at[0], at[1]), (at[1], at[1] + 8)} <= set(ranges)
    assert scratch_space(24)._bytes.nbytes == 24


def test_an_unknown_form_of_access_is_an_error() -> None:
    assert add_checks("define void @f(ptr %x) {\n  ret void\n}").count("\n") == 2
    with pytest.raises(ValueError, match="no bounds check is known for `%v = load atomic i64"):
        add_checks("  %v = load atomic i64, ptr @x acquire, align 8")


KERNELS = """
import numpy as np
from fedkg.kernels.kernel_compilation import kernel, kernel_part
from fedkg.kernels.polytopes.polytope_vector_sums import subtract_products, subtract_weighted
from fedkg.kernels.scoring.simd_bit_intrinsics import reaching, reaching_number, shared

@kernel_part
def number_at(x, i):
    return x[i]

@kernel
def moved(x, by):
    total = 0.0
    for i in range(len(x)):
        total += number_at(x, i + by)
    return total

@kernel
def reached(x, start, levels, at):
    return reaching(x, start, levels, at) + reaching_number(x, start, 0.5)

@kernel
def in_common(words, at, masks, place):
    return shared(words, at, 0, masks, place)

@kernel
def less_weighted(total, by, part, places, last):
    subtract_weighted(total, by, part, places, 0, last)

@kernel
def less_products(total, left, places, right, others, last):
    subtract_products(total, left, places, right, others, 0, last)
"""


@pytest.fixture
def kernels(tmp_path: Path, checked: None) -> ModuleType:
    (tmp_path / "loops.py").write_text(KERNELS, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("loops", tmp_path / "loops.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_kernels_are_checked(kernels: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(5.0)
    assert kernels.moved(x, 0) == 10.0
    with pytest.raises(IndexError, match="out of bounds"):
        kernels.moved(x, 1)
    package = Path(kernels.__file__ or "").parent
    folder = kernel_compilation.cache_folder(package)
    monkeypatch.setenv("FEDKG_KERNELS", "on")
    forget_settings()
    assert kernel_compilation.cache_folder(package) != folder


@pytest.mark.slow
def test_instructions_of_kernels_are_checked(kernels: ModuleType) -> None:
    x, words = np.zeros(70), np.zeros((2, 3), dtype=np.int64)
    total, part, places = np.zeros(32), np.zeros((4, 32)), np.zeros(3, dtype=np.int32)
    by, late = np.ones(3), np.full(3, 4, dtype=np.int32)
    calls: list[tuple[Callable[..., object], tuple[object, ...], dict[int, object]]] = [
        (kernels.reached, (x, 6, x, 6), {1: 7, 3: 7}),
        (kernels.reached, (x, 0, x, 0), {1: -1, 3: -1}),
        (kernels.in_common, (words, 5, words, 5), {1: 6, 3: 6}),
        (kernels.less_weighted, (total, by, part, places, 3), {1: by[:2], 3: late, 4: 4}),
        (kernels.less_weighted, (total, by, part, places, 3), {0: total[:16], 3: places[:2]}),
        (kernels.less_products, (total, part, places, part, places, 3), {2: late, 4: late, 5: 4}),
    ]
    for run, given, wrong in calls:
        run(*given)
        for place, value in wrong.items():
            with pytest.raises(IndexError, match="out of bounds"):
                run(*(value if i == place else each for i, each in enumerate(given)))


def trained() -> Tensor:
    """The parameters of a perceptron after two rounds."""
    dice = torch.Generator().manual_seed(0)
    xs = tuple(torch.randn(size, 5, generator=dice) for size in (7, 20, 3))
    task = Problem(
        model=MLP(inputs=5, hidden=(19,), outputs=3, dropout=0.3),
        loss=CrossEntropy(),
        clients=Clients(names=("a", "b", "c"), x=xs, y=tuple((x[:, 0] > 0).long() for x in xs)),
    )
    settings = Settings(rounds=2, local_epochs=2, batch=6, seed=2, executor="stacked")
    *_, (state, _) = train(task, fedavg(), settings)
    return torch.cat([value.flatten() for value in state.params.values()])


@pytest.mark.slow
def test_training_is_the_same_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Tensor] = []
    for setting in ("on", "check"):
        found += [trained() for _ in with_setting(setting, monkeypatch)]
    assert torch.equal(*found)


READ = {
    "form": 0, "numbers": 1, "images": 2, "params": 3, "x": 4, "classes": 5, "index": 7,
    "counts": 8, "steps": 9, "keys": 10, "rates": 11, "totals": 17, "room": 18,
}  # fmt: skip
"""Positions of the arrays that these local steps use, among all arrays of `descend`."""


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
def test_shorter_arrays_of_local_training_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only half of one array is registered."""
    for name, place in READ.items():
        kept: list[Tensor] = []

        def shortened(memory: Tensor, place: int = place, kept: list[Tensor] = kept) -> int:
            is_short = len(kept) == place
            kept.append(memory.flatten()[: memory.numel() // 2].clone() if is_short else memory)
            return address(kept[-1])

        monkeypatch.setattr(compiled_steps, "address", shortened)
        with pytest.raises(IndexError, match=r"`descend` accesses [48] bytes"):
            trained()
        assert len(kept) > place, name
