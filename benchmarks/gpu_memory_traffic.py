"""Bytes that rules over windows move on a GPU inside torch.compile, counted without a GPU.

    python benchmarks/gpu_memory_traffic.py [--rows 3000] [--only 4,10] [--kernels]

The rules are those of `temporal_robustness.py`: constraints of twelve temporal shapes over 1,024
windows of 48 steps. torch.compile receives the operations that rules consist of on devices other
than the CPU, and writes its Triton kernels for a CUDA device that does not exist. The benchmark
counts what these kernels would read and write, and discards them. It compares that with one read of
the values that the rules gather. There is one call for verdicts (robustness of each window), one
for the penalty, and one for the penalty and its gradients with respect to the answers. The last one
has forward and backward pass in one graph; two graphs would have to store the values in between. No
time is measured.

- *moved*: each number that a kernel computes or receives counts once; what a row gathers from a
  column counts once for each row. If one kernel reads a number several times, for several steps of
  a window, it counts once, because it comes out of a cache.
- *in loops*: the same, but every read of a window's loop counts, however close they are. This is
  what caches have to deliver.
- *memory*: each number counts once in each kernel, however many rows gather it. This is what
  remains if the batch stays in a cache.

A load that a mask turns off counts as if it were made. For conjunctions of three and more parts
this is several times the bytes that they really move.

The kernels are counted while torch's compiler writes them, using its own record of what each load
depends on (torch 2.13; torch does not promise to keep these interfaces).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import sympy
import torch
from packs.pack_from_arrays import drawn_pack, module_of
from temporal_robustness import BATCH, LENGTH, OUTPUTS, SHAPES, SIGNALS, plant
from torch import Tensor
from torch._inductor import compile_fx
from torch._inductor.codegen.triton import TritonCSEVariable, TritonKernel
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from fedkg.constraints import ConstraintModule, torch_compile_operators

TARGET = 2.0
PLACES = BATCH * LENGTH
CUDA = torch.device("cuda", 0)
DEVICE = SimpleNamespace(
    name="none",
    major=9,
    minor=0,
    multi_processor_count=132,
    total_memory=80 * 2**30,
    warp_size=32,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    gcnArchName="",
)
"""Properties of the device that the compiler queries: a device with 132 multiprocessors."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a variable of a kernel depends on.

    Loop variables, those among them by which constants were read, and these constants.
    """

    loops: frozenset[sympy.Symbol] = frozenset()
    rows: frozenset[sympy.Symbol] = frozenset()
    constants: frozenset[tuple[str, str]] = frozenset()

    def __or__(self, other: Source) -> Source:
        return Source(
            self.loops | other.loops, self.rows | other.rows, self.constants | other.constants
        )


@dataclass
class Watched:
    """What one kernel reads and writes.

    Bytes (moved, in loops, in memory) by (buffer, which of its rows), and whether it is written.
    """

    kernel: Any
    sources: dict[str, Source] = field(default_factory=dict)
    accesses: dict[tuple[str, Any, bool], list[tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def note(self, name: str, index: sympy.Expr, *, written: bool) -> Source:
        """Record one access."""
        source = Source()
        for symbol in index.free_symbols:
            own = symbol in self.kernel.range_tree_nodes
            source = source | (
                Source(frozenset({symbol})) if own else self.sources.get(str(symbol), Source())
            )
        size = 1
        for length in V.graph.try_get_buffer(name).get_size():
            size *= int(length)
        width, looped = V.graph.get_dtype(name).itemsize, extent(self.kernel, source.loops)
        gathered = source.rows and not name.startswith("constant")
        moved = min(looped, extent(self.kernel, source.rows) * PLACES if gathered else size)
        key = name, source.constants if gathered else None, written
        self.accesses[key].append(
            (
                moved * width,
                (moved if name.startswith("constant") else looped) * width,
                size * width,
            )
        )
        return source

    def count_bytes(self, dropped: Sequence[str]) -> tuple[int, int, int]:
        """Bytes moved, read or written in loops, and of memory.

        `dropped` are buffers that stay in registers.
        """
        found = [0, 0, 0]
        memory: dict[tuple[str, bool], int] = defaultdict(int)
        for (name, _, written), each in self.accesses.items():
            if name not in dropped:
                found[0] += max(moved for moved, _, _ in each)
                found[1] += sum(looped for _, looped, _ in each)
                memory[name, written] = min(
                    memory[name, written] + max(moved for moved, _, _ in each), each[0][2]
                )
        return found[0], found[1], sum(memory.values())


def extent(kernel: Any, symbols: frozenset[sympy.Symbol]) -> int:
    """How many different combinations of values some loop variables take.

    Each variable is (index // divisor) % length of one of the kernel's axes.
    """
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for symbol in symbols:
        one = kernel.range_tree_nodes[symbol]
        spans[one.root.prefix].append((int(one.divisor), int(one.divisor) * int(one.length)))
    total = 1
    for axis in spans.values():
        reached = 1
        for low, high in sorted(axis):
            low = max(low, reached)
            total, reached = total * max(1, high // low), max(reached, high)
    return total


@contextmanager
def watching(found: dict[int, Watched]) -> Iterator[None]:
    """Collect kernels into `found` while they are written."""
    load, store = TritonKernel.load, TritonKernel.store
    reduced, update = TritonKernel.store_reduction, TritonCSEVariable.update_on_args

    def watched_kernel(kernel: Any) -> Watched:
        return found.setdefault(id(kernel), Watched(kernel))

    def loading(self: Any, name: str, index: sympy.Expr) -> Any:
        variable, own = load(self, name, index), watched_kernel(self)
        source = own.note(name, index, written=False)
        constant = name.startswith("constant")
        own.sources[str(variable)] = Source(
            source.loops,
            source.loops if constant else source.rows,
            source.constants | {(name, str(index))} if constant else source.constants,
        )
        return variable

    def storing(self: Any, name: str, index: sympy.Expr, value: Any, mode: Any = None) -> Any:
        watched_kernel(self).note(name, index, written=True)
        return store(self, name, index, value, mode)

    def storing_reduced(self: Any, name: str, index: sympy.Expr, value: Any) -> Any:
        watched_kernel(self).note(name, index, written=True)
        return reduced(self, name, index, value)

    def updating(self: Any, name: str, args: Any, kwargs: Any) -> None:
        own = watched_kernel(V.kernel)
        source = own.sources.get(str(self), Source())
        for arg in args:
            if isinstance(arg, TritonCSEVariable):
                source = source | own.sources.get(str(arg), Source())
            elif isinstance(arg, sympy.Expr):
                source = source | Source(
                    frozenset(one for one in arg.free_symbols if one in own.kernel.range_tree_nodes)
                )
        own.sources[str(self)] = source
        update(self, name, args, kwargs)

    with ExitStack() as stack:
        for target, name, instead in (
            (TritonKernel, "load", loading),
            (TritonKernel, "store", storing),
            (TritonKernel, "store_reduction", storing_reduced),
            (TritonCSEVariable, "update_on_args", updating),
        ):
            stack.enter_context(patch.object(target, name, instead))
        yield


@contextmanager
def played_cuda() -> Iterator[None]:
    """Pretend that there is a CUDA device and Triton, so that code can be written for them."""
    from torch._dynamo.device_interface import CudaInterface

    with ExitStack() as stack:
        for interface in (CudaInterface, CudaInterface.Worker):
            stack.enter_context(
                patch.object(interface, "get_device_properties", staticmethod(lambda *_: DEVICE))
            )
        stack.enter_context(
            patch.object(CudaInterface, "get_compute_capability", staticmethod(lambda *_: 90))
        )
        for name, given in (
            ("torch.cuda.get_device_properties", DEVICE),
            ("torch.cuda.get_device_capability", (9, 0)),
            ("torch._inductor.scheduler.has_triton", True),
            ("torch.utils._triton.triton_hash_with_backend", "none"),
        ):
            stack.enter_context(patch(name, lambda *_, given=given: given))
        # it would run the operation on tensors without numbers
        scatter = "torch._inductor.fx_passes.reinplace._inplace_generalized_scatter"
        stack.enter_context(patch(scatter, lambda into, *_: into))
        yield


def traced_graph(
    module: ConstraintModule, what: str, mode: FakeTensorMode
) -> tuple[torch.fx.GraphModule, list[Tensor]]:
    """The tensor operations of a call as the compiler sees them on other devices than the CPU.

    Also returns inputs for them, including constants.
    """

    def work(x: Tensor, y: Tensor) -> Tensor:
        report = torch_compile_operators._opened(
            [x, y], module._number, *torch_compile_operators.EXACTLY
        )
        return report.robustness.contiguous() if what == "robustness" else report.penalty

    def with_slopes(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            answers = y.detach().requires_grad_()
            penalty = work(x, answers)
            return penalty.detach(), *torch.autograd.grad(penalty, answers)

    with mode, torch.no_grad():
        inputs = [torch.empty(BATCH, LENGTH, width) for width in (SIGNALS, OUTPUTS)]
        asked = make_fx(with_slopes, tracing_mode="real")(*inputs) if what == "slopes" else work
        functional = torch.func.functionalize(asked, remove="mutations")
        graph = make_fx(functional, decomposition_table=select_decomp_table(), tracing_mode="real")(
            *inputs
        )
    graph.graph.eliminate_dead_code()
    first = next(node for node in graph.graph.nodes if node.op != "placeholder")
    taken: dict[object, torch.fx.Node] = {}
    constants = [node for node in graph.graph.nodes if node.op == "get_attr"]
    for node in constants:
        kept = getattr(graph, node.target)
        key = (
            kept.dtype,
            kept.shape,
            kept.numpy().tobytes(),
        )  # on a device, equal constants are shared: `engine.constants`
        if key not in taken:
            with graph.graph.inserting_before(first):
                taken[key] = graph.graph.placeholder(f"constant_{len(taken)}")
            with mode:
                inputs.append(torch.empty_strided(kept.shape, kept.stride(), dtype=kept.dtype))
        node.replace_all_uses_with(taken[key])
    for node in constants:
        graph.graph.erase_node(node)
    graph.recompile()
    return graph, inputs


def moved_to_cuda(
    graph: torch.fx.GraphModule, inputs: Sequence[Tensor], mode: FakeTensorMode
) -> list[Tensor]:
    """Move the graph and its inputs to the fake device."""
    for node in graph.graph.nodes:
        node.args = tuple(CUDA if isinstance(part, torch.device) else part for part in node.args)
        node.kwargs = {
            name: CUDA if isinstance(part, torch.device) else part
            for name, part in node.kwargs.items()
        }
    graph.recompile()
    with mode:
        return [
            torch.empty_strided(part.shape, part.stride(), dtype=part.dtype, device=CUDA)
            for part in inputs
        ]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the kernels of one call move, and the time to compile it.

    Each in bytes, as described above; the compile time is in seconds of processor time.
    """

    kernels: tuple[tuple[int, int, int], ...]
    seconds: float

    def sum_bytes(self, kind: int) -> int:
        """Bytes of all kernels."""
        return sum(kernel[kind] for kernel in self.kernels)


def traffic(module: ConstraintModule, what: str) -> Traffic:
    """The traffic of a call for "robustness", "penalty" or "slopes"."""
    begun, mode = time.process_time(), FakeTensorMode(allow_non_fake_inputs=True)
    graph, inputs = traced_graph(module, what, mode)
    found: dict[int, Watched] = {}
    with played_cuda(), V.set_fake_mode(mode):
        compile_fx.fake_tensor_prop(graph, inputs, force_allow_non_fake_inputs=True)
        compile_fx._recursive_joint_graph_passes(graph)
        inputs = moved_to_cuda(graph, inputs, mode)
        view_to_reshape(graph)
        compile_fx.fake_tensor_prop(graph, inputs, force_allow_non_fake_inputs=True)
        compile_fx._recursive_post_grad_passes(graph, is_inference=True)
        compile_fx.fake_tensor_prop(graph, inputs, force_allow_non_fake_inputs=True)
        lowered = GraphLowering(
            graph, example_inputs=inputs, shape_env=None, is_inference=True, graph_id=0
        )
        with (
            V.set_debug_handler(DebugContext()),
            V.set_graph_handler(lowered),
            V.set_extern_kernel_nodes([]),
            watching(found),
        ):
            lowered.run(*inputs)
            lowered.codegen()
            ready = [
                node.get_read_write_buffers_sizes()
                for node in lowered.scheduler.nodes
                if node.is_extern()
            ]  # products of matrices
    dropped = lowered.removed_buffers | lowered.inplaced_to_remove
    kernels = [one.count_bytes([*dropped, *one.kernel.removed_buffers]) for one in found.values()]
    return Traffic((*kernels, *((size, size, size) for size in ready)), time.process_time() - begun)


def counted(shapes: Sequence[int], rows: int, what: str, *, kernels: bool) -> tuple[Traffic, int]:
    """The traffic of the rows of some shapes, and the bytes that they gather."""
    parts = plant(rows)
    module = module_of(
        drawn_pack([parts[shape] for shape in shapes], SIGNALS, OUTPUTS, shared=True, end="clip")
    )
    gathers = (
        sum((len(bank.inputs) + len(bank.outputs)) * bank.rows for bank in module.banks)
        * PLACES
        * 4
    )
    found = traffic(module, what)
    multiples = [found.sum_bytes(kind) / gathers for kind in range(3)]
    name = f"shape {shapes[0]}" if len(shapes) == 1 else f"{len(shapes)} shapes"
    print(
        f"  {what:10s} {name:9s} {sum(bank.rows for bank in module.banks):5d} rows: gathers"
        f" {gathers / 1e6:7.0f} MB, moved {multiples[0]:5.2f} times, in loops {multiples[1]:6.2f},"
        f" memory {multiples[2]:5.2f}; {len(found.kernels):3d} kernels, compiled in"
        f" {found.seconds:.0f} s",
        flush=True,
    )
    for own in found.kernels if kernels else ():
        print(
            "      "
            + ", ".join(
                f"{part} {size / 1e6:.1f} MB"
                for part, size in zip(("moved", "in loops", "memory"), own, strict=True)
            )
        )
    return found, gathers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument(
        "--only",
        help="indices of shapes, from 0; each is counted separately instead of all together",
    )
    parser.add_argument(
        "--together", action="store_true", help="count all shapes together only, which is faster"
    )
    parser.add_argument("--kernels", action="store_true", help="each kernel's bytes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"torch {torch.__version__}, {platform.machine()}, load {os.getloadavg()[0]:.1f}; no time"
        " on a device is taken"
    )
    claims = []
    for what in ("robustness", "penalty", "slopes"):
        alone = range(0 if options.together else len(SHAPES))
        for shape in alone if options.only is None else map(int, options.only.split(",")):
            counted([shape], options.rows, what, kernels=options.kernels)
        if options.only is None:
            found, gathers = counted(
                range(len(SHAPES)), options.rows, what, kernels=options.kernels
            )
            multiple = found.sum_bytes(0) / gathers
            claims.append(
                {
                    "claim": (
                        f"{options.rows} rows of {len(SHAPES)} skeletons compiled for a GPU,"
                        f" {what}: MB moved (counted)"
                    ),
                    "ours": round(found.sum_bytes(0) / 1e6),
                    "peer": round(gathers / 1e6),
                    "peer_name": "one read of what rows gather",
                    "ratio": round(1 / multiple, 2),
                    "target": 1 / TARGET if what == "robustness" else None,
                    "holds": multiple <= TARGET,
                    "floor": round(PLACES * (SIGNALS + OUTPUTS) * 4 / 1e6, 1),
                }
            )
    print(json.dumps(claims))


if __name__ == "__main__":
    main()
