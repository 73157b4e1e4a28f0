"""Bounds checks of compiled loops, with ``FEDKG_KERNELS=check``.

Loops know addresses only. Callers take each address with `address`, which registers the extent of
the array until the array is deleted. Loops compiled in this mode pass each element access to the
LLVM function `checked_access`: it returns the address if one registered range contains the element
and the array's start. Otherwise it records the first such access and returns the address of a dummy
buffer, so that the loop runs on to its end; then `checked_entry` raises IndexError.

Registered ranges that overlap are one range: a view does not limit accesses if its whole array is
registered, too.
"""

from __future__ import annotations

import re
import weakref
from array import array
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedkg.kernels.compiled_loop_policy import checks_bounds

Memory: TypeAlias = "Tensor | NDArray[Any] | array[Any]"

CHECK = "checked_access"
"""Name of the LLVM function: ``(array, place, bytes)``, all i64, to the address to be used."""

COUNT, TABLE, START, STOP, ARRAY, PLACE, SIZE = range(7)
"""Positions in `_STATE`: number and address of the ranges, the range that matched last, and the
first access outside (its size is 0 if there is none)."""

_STATE = np.zeros(7, dtype=np.int64)
_DUMMY = np.zeros(1 << 12, dtype=np.uint8)
"""Longer than any access."""

_RANGES: dict[int, tuple[weakref.ref[Any], int, int]] = {}
"""First byte and end of each registered array, by its `id`."""

_CALL = Lock()


def address(memory: Memory) -> int:
    """The address of an array for a loop; the caller keeps the array alive.

    Raises:
        RuntimeError: a tensor has no storage.
    """
    if isinstance(memory, Tensor):
        at = memory.data_ptr()
    elif isinstance(memory, np.ndarray):
        at = memory.ctypes.data
    else:
        at = memory.buffer_info()[0]
    if checks_bounds():
        _register(memory, at)
    return at


def _register(memory: Memory, at: int) -> None:
    key = id(memory)

    def forget(gone: weakref.ref[Any]) -> None:
        found = _RANGES.get(key)
        if found is not None and found[0] is gone:
            del _RANGES[key]

    _RANGES[key] = weakref.ref(memory, forget), at, at + _extent(memory)


def _extent(memory: Memory) -> int:
    """Bytes from the first to the last number."""
    if isinstance(memory, array):
        return len(memory) * memory.itemsize
    if 0 in memory.shape:
        return 0
    if isinstance(memory, Tensor):
        size, steps = memory.element_size(), memory.stride()
        return size * (1 + _span(memory.shape, steps))
    return memory.itemsize + _span(memory.shape, memory.strides)


def _span(shape: tuple[int, ...], steps: tuple[int, ...]) -> int:
    return sum((length - 1) * step for length, step in zip(shape, steps, strict=True))


def checked_entry(name: str, entry: Callable[..., None]) -> Callable[..., None]:
    """A compiled function that raises IndexError after an access outside all registered arrays.

    Calls run one at a time, in whatever thread.
    """

    def call(*values: Any) -> None:
        with _CALL:
            ranges = _disjoint_ranges()
            _STATE[:] = 0
            _STATE[COUNT], _STATE[TABLE] = len(ranges), ranges.ctypes.data
            _DUMMY[:] = 0
            entry(*values)
            if _STATE[SIZE]:
                raise IndexError(_describe_access(name, ranges))

    return call


def _disjoint_ranges() -> NDArray[np.int64]:
    """First byte and end of the registered ranges, in order; overlapping ones are joined."""
    live = [(start, stop) for _, start, stop in _RANGES.copy().values() if stop > start]
    ranges = np.array(sorted(live), dtype=np.int64).reshape(-1, 2)
    if len(ranges) < 2:
        return ranges
    reach = np.maximum.accumulate(ranges[:, 1])
    first = np.flatnonzero(np.concatenate([[True], ranges[1:, 0] >= reach[:-1]]))
    last = np.append(first[1:], len(ranges)) - 1
    return np.stack([ranges[first, 0], reach[last]], axis=1)


def _describe_access(name: str, ranges: NDArray[np.int64]) -> str:
    """The first access outside, beside the range of its array or else the nearest one."""
    base, place, size = (int(number) for number in _STATE[[ARRAY, PLACE, SIZE]])
    text = f"`{name}` accesses {size} bytes at address {place:#x}"
    if not len(ranges):
        return f"{text}; no array is registered"
    own = np.flatnonzero((ranges[:, 0] <= base) & (base < ranges[:, 1]))
    distances = np.maximum(ranges[:, 0] - place, place + size - ranges[:, 1])
    start, stop = (int(number) for number in ranges[own[0] if len(own) else distances.argmin()])
    side = (
        f"{start - place} bytes before the start"
        if place < start
        else f"to {place + size - stop} bytes behind the end"
    )
    return f"{text}, {side} of the array of {stop - start} bytes at {start:#x}"


def check_function() -> str:
    """The definition of `checked_access` in LLVM."""

    def state(position: int) -> str:
        return f"ptr inttoptr (i64 {_STATE.ctypes.data + 8 * position} to ptr)"

    return f"""declare i64 @llvm.ctpop.i64(i64)

define i64 @{CHECK}(i64 %array, i64 %place, i64 %size) noinline nounwind {{
entry:
  %some = icmp sgt i64 %size, 0
  br i1 %some, label %last, label %inside
last:
  %end = add i64 %place, %size
  %array_first = icmp ult i64 %array, %place
  %low = select i1 %array_first, i64 %array, i64 %place
  %array_last = icmp ugt i64 %array, %end
  %high = select i1 %array_last, i64 %array, i64 %end
  %last_start = load i64, {state(START)}
  %last_stop = load i64, {state(STOP)}
  %last_since = icmp uge i64 %low, %last_start
  %last_until = icmp ule i64 %high, %last_stop
  %in_last = and i1 %last_since, %last_until
  br i1 %in_last, label %inside, label %search
search:
  %count = load i64, {state(COUNT)}
  %table_at = load i64, {state(TABLE)}
  %table = inttoptr i64 %table_at to ptr
  br label %halve
halve:
  %from = phi i64 [ 0, %search ], [ %new_from, %step ]
  %to = phi i64 [ %count, %search ], [ %new_to, %step ]
  %open = icmp ult i64 %from, %to
  br i1 %open, label %step, label %found
step:
  %sum = add i64 %from, %to
  %middle = lshr i64 %sum, 1
  %row = shl i64 %middle, 1
  %middle_at = getelementptr i64, ptr %table, i64 %row
  %middle_start = load i64, ptr %middle_at
  %before = icmp ule i64 %middle_start, %low
  %next = add i64 %middle, 1
  %new_from = select i1 %before, i64 %next, i64 %from
  %new_to = select i1 %before, i64 %to, i64 %middle
  br label %halve
found:
  %any = icmp ugt i64 %from, 0
  br i1 %any, label %candidate, label %outside
candidate:
  %index = sub i64 %from, 1
  %start_row = shl i64 %index, 1
  %start_at = getelementptr i64, ptr %table, i64 %start_row
  %start = load i64, ptr %start_at
  %stop_at = getelementptr i64, ptr %start_at, i64 1
  %stop = load i64, ptr %stop_at
  %until = icmp ule i64 %high, %stop
  br i1 %until, label %keep, label %outside
keep:
  store i64 %start, {state(START)}
  store i64 %stop, {state(STOP)}
  br label %inside
inside:
  ret i64 %place
outside:
  %recorded = load i64, {state(SIZE)}
  %is_first = icmp eq i64 %recorded, 0
  br i1 %is_first, label %record, label %replace
record:
  store i64 %array, {state(ARRAY)}
  store i64 %place, {state(PLACE)}
  store i64 %size, {state(SIZE)}
  br label %replace
replace:
  ret i64 {-(-_DUMMY.ctypes.data // 64) * 64}
}}"""


_ACCESS = re.compile(
    r"\s*(?:%\S+ = load (?P<loaded>.+?), ptr (?P<from>%\w+)"
    r"|store (?P<stored>.+) %\S+, ptr (?P<to>%\w+)"
    r"|(?:%\S+ = )?call .*@llvm\.masked\..*ptr (?P<masked>%\w+), .*<\d+ x i1> (?P<mask>%\w+).*)"
    r"(?:, align \d+)?"
)
_TYPE = re.compile(r"(?:<(?P<lanes>\d+) x )?(?P<kind>float|double|i64)>?")
_BYTES = {"float": 4, "double": 8, "i64": 8}


def add_checks(text: str) -> str:
    """LLVM functions with a check before each load and store.

    Masks must select the first numbers of a vector.

    Raises:
        ValueError: for an access in a form that is not known here.
    """
    lines: list[str] = []
    for number, line in enumerate(text.split("\n")):
        access = _ACCESS.fullmatch(line)
        if access is not None:
            lines += _checked_line(line, access, f"%check{number}")
        elif re.match(r"declare|define", line) or not re.search(r"\b(load|store)\b", line):
            lines.append(line)
        else:
            raise ValueError(f"no bounds check is known for `{line.strip()}`")
    return "\n".join(lines)


def _checked_line(line: str, access: re.Match[str], name: str) -> list[str]:
    place = access["from"] or access["to"] or access["masked"]
    of = _TYPE.search(access["loaded"] or access["stored"] or line)
    assert of is not None, line
    lanes, each = int(of["lanes"] or 1), _BYTES[of["kind"]]
    size, lines = str(lanes * each), [f"  {name}.at = ptrtoint ptr {place} to i64"]
    if access["mask"]:
        size = f"{name}.size"
        lines += [
            f"  {name}.bits = bitcast <{lanes} x i1> {access['mask']} to i{lanes}",
            f"  {name}.mask = zext i{lanes} {name}.bits to i64",
            f"  {name}.lanes = call i64 @llvm.ctpop.i64(i64 {name}.mask)",
            f"  {size} = mul i64 {name}.lanes, {each}",
        ]
    return [
        *lines,
        f"  {name}.to = call i64 @{CHECK}(i64 {name}.at, i64 {name}.at, i64 {size})",
        f"  {name}.place = inttoptr i64 {name}.to to ptr",
        line.replace(f"ptr {place}", f"ptr {name}.place"),
    ]
