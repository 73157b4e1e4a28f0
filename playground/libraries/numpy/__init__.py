"""The part of NumPy that the compiler and the interpreter use, on Python lists.

The playground loads this package where no build of NumPy for the browser is at hand, so that the
same compiler and the same interpreter run there. It is slow and meant for the few rows of a table
in a page. Names, arguments and results are NumPy's; a test compares them with NumPy. What is not
here raises AttributeError, arguments that are not supported raise TypeError.

An array is a buffer (a list) and the positions of its elements in it, in C order. Basic indices,
transposition and broadcasting give new positions in the same buffer, as NumPy's views do.
"""

from __future__ import annotations

import bisect
import builtins
import functools
import itertools
import math
import operator
import struct
from collections.abc import Sequence
from contextlib import contextmanager

inf, nan, pi, e, newaxis = math.inf, math.nan, math.pi, math.e, None


class generic:
    """A number of an array."""

    __slots__ = ()
    shape, ndim, size = (), 0, 1

    def astype(self, to):
        return _scalar(_cast(dtype(to))(self), dtype(to))

    def any(self):
        return bool(self)

    all = any

    @property
    def dtype(self):
        return dtype(type(self))


class floating(generic):
    __slots__ = ()


class integer(generic):
    __slots__ = ()


class float64(floating, float):
    """A number with NumPy's division: by zero it gives an infinity or nan."""

    __slots__ = ()

    def item(self):
        return float(self)

    tolist = item

    def __truediv__(self, other):
        return _binary(true_divide, self, other)

    def __rtruediv__(self, other):
        return _binary(true_divide, other, self)

    def __pow__(self, other):
        return _binary(power, self, other)

    def __rpow__(self, other):
        return _binary(power, other, self)

    def __repr__(self):
        return f"np.float64({float(self)!r})"

    __str__ = float.__repr__


def _binary(function, left, right):
    if isinstance(left, int | float | ndarray) and isinstance(right, int | float | ndarray):
        return function(left, right)
    return NotImplemented


class int64(integer, int):
    __slots__ = ()

    def item(self):
        return int(self)

    tolist = item


class int32(int64):
    __slots__ = ()


class int8(int64):
    __slots__ = ()


class uint8(int64):
    __slots__ = ()


class bool_(generic):
    """The type of truth values; the values are Python's."""

    __slots__ = ()

    def __new__(cls, value=False):
        return bool(value)


class object_(generic):
    __slots__ = ()


class dtype:
    """A type of elements: its NumPy name, its kind and its bytes."""

    __slots__ = ("itemsize", "kind", "name", "type")

    def __new__(cls, what=float64):
        if isinstance(what, cls):
            return what
        found = _DTYPES.get(what)
        if found is None:
            raise TypeError(f"the element type {what!r} is not supported here")
        return found

    def __eq__(self, other):
        try:
            return self is dtype(other)
        except TypeError:
            return False

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return f"dtype('{self.name}')"

    __class_getitem__ = classmethod(lambda cls, _: cls)


def _make_dtype(kind, size, kind_type, *names):
    made = object.__new__(dtype)
    made.name, made.kind, made.itemsize, made.type = (
        kind_type.__name__.rstrip("_"),
        kind,
        size,
        (kind_type),
    )
    _DTYPES.update(dict.fromkeys((kind_type, made.name, *names), made))
    return made


_DTYPES = {}
_FLOAT = _make_dtype("f", 8, float64, float, "f8", "<f8")
_INT = _make_dtype("i", 8, int64, int, "i8", "<i8")
_INT32 = _make_dtype("i", 4, int32, "i4", "<i4")
_INT8 = _make_dtype("i", 1, int8, "i1")
_BYTE = _make_dtype("u", 1, uint8, "u1")
_BOOL = _make_dtype("b", 1, bool_, bool, "?")
_OBJECT = _make_dtype("O", 8, object_, object, "O")
_BITS = {"int32": 32, "int8": 8}


def _whole(value, bits):
    if isinstance(value, float) and not math.isfinite(value):
        return -(1 << (bits - 1))
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if value >> (bits - 1) else value


def _cast(kind):
    match kind.kind:
        case "f":
            return float
        case "b":
            return bool
        case "u":
            return lambda value: int(value) & 255
        case "i":
            return functools.partial(_whole, bits=_BITS.get(kind.name, 64))
    return lambda value: value


def _scalar(value, kind):
    if kind.kind == "f":
        return float64(value)
    return kind.type(value) if kind.kind in "iu" else value


def _kind_of(value):
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, int):
        return _DTYPES.get(type(value), _INT)
    return _FLOAT if isinstance(value, float) else _OBJECT


def result_type(*kinds):
    """The type that holds the values of all."""
    found = {dtype(kind) for kind in kinds}
    if len(found) == 1:
        return found.pop()
    if _OBJECT in found:
        return _OBJECT
    if _FLOAT in found:
        return _FLOAT
    found.discard(_BOOL)
    if len(found) == 1:
        return found.pop()
    return _INT32 if _INT not in found and _INT32 in found else _INT


def _of_operands(operands):
    """The type for an operation: Python numbers do not widen the integers of an array."""
    arrays = [one.dtype for one in operands if isinstance(one, ndarray | generic)]
    plain = [_kind_of(one) for one in operands if not isinstance(one, ndarray | generic)]
    if arrays and builtins.any(kind.kind in "iuf" for kind in arrays):
        plain = [kind for kind in plain if kind.kind == "f" or kind is _OBJECT]
    return result_type(*arrays, *plain)


def _size(shape):
    return math.prod(shape)


def _steps(shape):
    found, step = [], 1
    for length in reversed(shape):
        found.append(step)
        step *= length
    return found[::-1]


class ndarray:
    """An array; see the package."""

    __slots__ = ("_at", "_buffer", "dtype", "shape")
    __hash__ = None
    __class_getitem__ = classmethod(lambda cls, _: cls)

    def __init__(self, buffer, at, shape, kind):
        self._buffer, self._at, self.shape, self.dtype = buffer, at, tuple(shape), kind

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return len(self._at)

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    itemsize = property(lambda self: self.dtype.itemsize)

    @property
    def T(self):
        return self.transpose()

    def _values(self):
        buffer = self._buffer
        return [buffer[i] for i in self._at]

    def _view(self, at, shape):
        return ndarray(self._buffer, at, shape, self.dtype)

    def transpose(self, *axes):
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = axes[0]
        axes = [_axis(one, self.ndim) for one in axes] or range(self.ndim)[::-1]
        steps = _steps(self.shape)
        shape = [self.shape[axis] for axis in axes]
        return self._view(
            [self._at[i] for i in _offsets([(shape[n], steps[a]) for n, a in enumerate(axes)])],
            shape,
        )

    def reshape(self, *shape):
        if len(shape) == 1 and not isinstance(shape[0], int):
            shape = shape[0]
        shape = [int(length) for length in shape]
        if -1 in shape:
            known = _size([length for length in shape if length >= 0])
            shape[shape.index(-1)] = self.size // known if known else 0
        if _size(shape) != self.size:
            raise ValueError(f"cannot reshape array of size {self.size} into shape {tuple(shape)}")
        return self._view(self._at, shape)

    def ravel(self):
        return self.reshape(-1)

    def flatten(self):
        return self.ravel().copy()

    def squeeze(self, axis=None):
        return self.reshape(
            [n for i, n in enumerate(self.shape) if n != 1 or (axis is not None and i != axis)]
        )

    def copy(self, order="C"):
        return _new(self._values(), self.shape, self.dtype)

    def astype(self, to, copy=True):
        to = dtype(to)
        if to is self.dtype:
            return self.copy() if copy else self
        return _new(list(map(_cast(to), self._values())), self.shape, to)

    def view(self, to):
        to = dtype(to)
        codes = {"float64": "d", "int64": "q"}
        packed = struct.pack(f"{self.size}{codes[self.dtype.name]}", *self._values())
        return _new(list(struct.unpack(f"{self.size}{codes[to.name]}", packed)), self.shape, to)

    def tobytes(self):
        codes = {"float64": "d", "int64": "q", "int32": "i", "bool": "?", "uint8": "B"}
        return struct.pack(f"<{self.size}{codes[self.dtype.name]}", *self._values())

    def setflags(self, **_):
        """Accepted and without effect: arrays here are always writable."""

    def fill(self, value):
        self[...] = value

    def item(self, *at):
        return self[at].tolist() if at else self.reshape(1)._values()[0]

    def tolist(self):
        values = self._values()
        if not self.shape:
            return values[0]
        for length in self.shape[:0:-1]:
            rows = len(values) // length if length else _size(self.shape[:-1])
            values = [values[i * length : (i + 1) * length] for i in range(rows)]
        return values

    def take(self, which, axis=None):
        if axis is None:
            return self.ravel()[asarray(which)]
        return self[(slice(None),) * _axis(axis, self.ndim) + (asarray(which),)]

    def repeat(self, counts, axis=None):
        return repeat(self, counts, axis)

    def nonzero(self):
        places = [i for i, value in enumerate(self._values()) if value]
        found, steps = [], _steps(self.shape)
        for length, step in zip(self.shape, steps, strict=True):
            found.append(_new([i // step % length for i in places], (len(places),), _INT))
        return tuple(found)

    def sort(self, axis=-1, kind=None):
        self[...] = sort(self, axis)

    def argsort(self, axis=-1, kind=None):
        return argsort(self, axis)

    def argmax(self, axis=None):
        return argmax(self, axis)

    def argmin(self, axis=None):
        return argmin(self, axis)

    def sum(self, axis=None, dtype=None, keepdims=False, initial=None):
        kind = self.dtype if dtype is None else _as_dtype(dtype)
        kind = _INT if kind.kind in "biu" else kind
        return add.reduce(self, axis, kind, keepdims=keepdims, initial=initial)

    def prod(self, axis=None):
        return multiply.reduce(self, axis, _INT if self.dtype.kind in "biu" else None)

    def min(self, axis=None, keepdims=False, initial=None):
        return minimum.reduce(self, axis, keepdims=keepdims, initial=initial)

    def max(self, axis=None, keepdims=False, initial=None):
        return maximum.reduce(self, axis, keepdims=keepdims, initial=initial)

    def any(self, axis=None, keepdims=False):
        return logical_or.reduce(self, axis, keepdims=keepdims)

    def all(self, axis=None, keepdims=False):
        return logical_and.reduce(self, axis, keepdims=keepdims)

    def mean(self, axis=None):
        count = self.size if axis is None else self.shape[_axis(axis, self.ndim)]
        return true_divide(self.astype(_FLOAT).sum(axis), count)

    def cumsum(self, axis=None):
        return cumsum(self, axis)

    def round(self, decimals=0):
        return builtins.round(self, decimals)

    def clip(self, low=None, high=None):
        return clip(self, low, high)

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        if self.size != 1:
            raise ValueError("the truth value of an array with several elements is ambiguous")
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    __index__ = __int__

    def __contains__(self, value):
        return value in self._values()

    def __repr__(self):
        return f"array({self.tolist()!r})"

    def __getitem__(self, index):
        at, shape, basic = _select(self, index)
        if basic and not shape and not _keeps_axes(index):
            return _scalar(self._buffer[at[0]], self.dtype)
        view = self._view(at, shape)
        return view if basic else view.copy()

    def __setitem__(self, index, value):
        at, shape, _ = _select(self, index)
        value = asarray(value)
        extra = value.ndim - len(shape)
        if extra > 0:  # leading axes of length one
            value = value.reshape(value.shape[extra:])
        values = _broadcast(value, shape)._values()
        cast = _cast(self.dtype)
        for i, one in zip(at, values, strict=True):
            self._buffer[i] = cast(one)

    def __invert__(self):
        return logical_not(self) if self.dtype is _BOOL else bitwise_not(self)

    def __neg__(self):
        return negative(self)

    def __pos__(self):
        return self.copy()

    def __abs__(self):
        return absolute(self)


def _keeps_axes(index):
    parts = index if isinstance(index, tuple) else (index,)
    return builtins.any(part is Ellipsis for part in parts)


def _axis(axis, ndim):
    if not -ndim <= axis < builtins.max(ndim, 1):
        raise IndexError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim if ndim else 0


def _offsets(axes):
    """Offsets of a grid, in C order; each axis is a length and a step, or a list of offsets."""
    found = [0]
    for axis in axes:
        steps = [i * axis[1] for i in range(axis[0])] if isinstance(axis, tuple) else axis
        found = [i + step for i in found for step in steps]
    return found


def _select(array, index):
    """Positions and shape of what an index selects, and whether it is a basic index."""
    parts = list(index) if isinstance(index, tuple) else [index]
    expanded = []
    for part in parts:
        if isinstance(part, list | range | tuple):
            part = asarray(part, dtype=None if len(part) else _INT)
        if isinstance(part, ndarray) and part.dtype is _BOOL:
            expanded += (
                part.nonzero() if part.ndim else [None, [slice(0, 0), slice(None)][bool(part)]]
            )
        elif isinstance(part, bool):
            expanded += [None, asarray([0] if part else [], dtype=_INT)]
        else:
            expanded.append(part)
    used = builtins.sum(part is not None and part is not Ellipsis for part in expanded)
    if used > array.ndim + builtins.sum(isinstance(part, bool) for part in parts):
        raise IndexError(f"too many indices for array: array is {array.ndim}-dimensional")
    missing = [slice(None)] * (array.ndim - used)
    gap = next((i for i, part in enumerate(expanded) if part is Ellipsis), None)
    if gap is None:
        expanded += missing
    else:
        expanded[gap : gap + 1] = missing
    steps, axes, advanced, places = _steps(array.shape), [], [], []
    scattered = builtins.any(isinstance(part, ndarray) and part.ndim for part in expanded)
    dim = 0
    for part in expanded:
        if part is None:
            axes.append([0])
            continue
        length, step = array.shape[dim], steps[dim]
        dim += 1
        if isinstance(part, slice):
            axes.append([i * step for i in range(*part.indices(length))])
            continue
        if isinstance(part, ndarray) and part.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer or boolean type")
        values = part if isinstance(part, ndarray) else asarray(operator.index(part))
        wanted = [
            (i + length if i < 0 else i) * step if -length <= i < length else _outside(i, length)
            for i in values._values()
        ]
        if scattered:
            advanced.append(_new(wanted, values.shape, _INT))
            places.append(len(axes))
            axes.append(None)
        else:
            axes.append(wanted[0])
    if not scattered:
        start = builtins.sum(axis for axis in axes if isinstance(axis, int))
        axes = [axis for axis in axes if not isinstance(axis, int)]
        at = [array._at[start + i] for i in _offsets(axes)]
        return at, [len(axis) for axis in axes], True
    shape = broadcast_shapes(*(one.shape for one in advanced))
    columns = [_broadcast(one, shape)._values() for one in advanced]
    together = [builtins.sum(each) for each in zip(*columns, strict=True)]
    first = places[0] if places[-1] - places[0] == len(places) - 1 else 0
    plain = [axis for axis in axes if axis is not None]
    plain.insert(first, together)
    at = [array._at[i] for i in _offsets(plain)]
    lengths = [[len(axis)] for axis in plain]
    lengths[first] = list(shape)
    return at, list(itertools.chain(*lengths)), False


def _outside(index, length):
    raise IndexError(f"index {index} is out of bounds for axis with size {length}")


def _new(values, shape, kind):
    return ndarray(values, range(len(values)), shape, kind)


def broadcast_shapes(*shapes):
    longest = builtins.max(map(len, shapes), default=0)
    found = []
    for lengths in zip(*((1,) * (longest - len(s)) + tuple(s) for s in shapes), strict=True):
        own = {length for length in lengths if length != 1}
        if len(own) > 1:
            said = " ".join(map(str, shapes))
            raise ValueError(f"operands could not be broadcast together with shapes {said}")
        found.append(own.pop() if own else 1)
    return tuple(found)


def _broadcast(array, shape):
    shape = tuple(int(length) for length in shape)
    if array.shape == shape:
        return array
    if broadcast_shapes(array.shape, shape) != shape:
        raise ValueError(f"could not broadcast an array of shape {array.shape} into {shape}")
    if array.size == 1:
        return array._view([array._at[0]] * _size(shape), shape)
    own = (1,) * (len(shape) - array.ndim) + array.shape
    steps = [0 if length == 1 else step for length, step in zip(own, _steps(own), strict=True)]
    return array._view(
        [array._at[i] for i in _offsets(list(zip(shape, steps, strict=True)))], shape
    )


def broadcast_to(array, shape):
    return _broadcast(asarray(array), shape if isinstance(shape, Sequence) else (shape,))


def broadcast_arrays(*arrays):
    arrays = [asarray(array) for array in arrays]
    shape = broadcast_shapes(*(array.shape for array in arrays))
    return tuple(_broadcast(array, shape) for array in arrays)


def _flatten(value):
    """Flat values, shape and element types of nested sequences."""
    if isinstance(value, ndarray):
        return value._values(), value.shape, {value.dtype}
    if isinstance(value, list | tuple | range):
        parts = [_flatten(one) for one in value]
        shapes = {shape for _, shape, _ in parts}
        if len(shapes) > 1:
            raise ValueError("the nested sequence has an inhomogeneous shape")
        inner = shapes.pop() if shapes else ()
        kinds = set().union(*(kinds for *_, kinds in parts))
        flat = list(itertools.chain.from_iterable(values for values, *_ in parts))
        return flat, (len(parts), *inner), kinds
    return [value], (), {_kind_of(value)}


def array(value, dtype=None, copy=True, order=None, ndmin=0):
    values, shape, kinds = _flatten(value)
    own = result_type(*kinds) if kinds else _FLOAT
    kind = own if dtype is None else _as_dtype(dtype)
    values = list(values if kinds == {kind} else map(_cast(kind), values))
    return _new(values, (1,) * (ndmin - len(shape)) + shape, kind)


_as_dtype = dtype


def asarray(value, dtype=None, order=None):
    if isinstance(value, ndarray) and (dtype is None or value.dtype == dtype):
        return value
    return array(value, dtype)


ascontiguousarray = asarray


def _shape(shape):
    return (int(shape),) if not isinstance(shape, Sequence) else tuple(int(n) for n in shape)


def full(shape, value, dtype=None, order="C"):
    shape, value = _shape(shape), asarray(value, dtype)
    return _broadcast(value, shape).copy()


def zeros(shape, dtype=float64, order="C"):
    return full(shape, _cast(_as_dtype(dtype))(0), dtype)


empty = zeros


def ones(shape, dtype=float64):
    return full(shape, _cast(_as_dtype(dtype))(1), dtype)


def full_like(array, value, dtype=None):
    return full(array.shape, value, array.dtype if dtype is None else dtype)


def zeros_like(array, dtype=None):
    return full_like(asarray(array), 0, dtype)


empty_like = zeros_like


def ones_like(array, dtype=None):
    return full_like(asarray(array), 1, dtype)


def arange(*ends, dtype=None):
    start, stop, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
    if builtins.all(isinstance(one, int) for one in (start, stop, step)):
        values = list(range(start, stop, step))
    else:
        values = [
            start + i * step for i in range(builtins.max(0, math.ceil((stop - start) / step)))
        ]
    return array(values, dtype or (_INT if not values else None))


def linspace(start, stop, num=50):
    step = (stop - start) / (num - 1) if num > 1 else 0.0
    values = [float(start + i * step) for i in range(num)]
    return array([*values[:-1], float(stop)] if num > 1 else values, float64)


def eye(n, dtype=float64):
    return array([[i == j for j in range(n)] for i in range(n)], dtype).reshape(n, n)


def fromiter(values, dtype, count=-1):
    return array(list(values), dtype)


def diag(values):
    values = asarray(values)
    found = zeros((len(values), len(values)), values.dtype)
    found[arange(len(values)), arange(len(values))] = values
    return found


class ufunc:
    """An elementwise function, with its reductions.

    Args:
        function: of one or two Python numbers.
        result: the element type of the result; None: that of the operands; "float": at least
            a float.
        start: the value of a reduction of nothing; None if there is none.
    """

    def __init__(self, name, function, nin, result=None, start=None):
        self.__name__, self.nin, self.nout = name, nin, 1
        self._function, self._result, self.identity = function, result, start

    def __repr__(self):
        return f"<ufunc '{self.__name__}'>"

    def _kind(self, operands):
        own = _of_operands(operands)
        if self._result is None:
            return own
        return (own if own is _OBJECT else _FLOAT) if self._result == "float" else self._result

    def __call__(self, *operands, out=None, where=True, dtype=None):
        if where is not True:
            raise TypeError("`where` is not supported here")
        operands = [
            one if isinstance(one, ndarray | int | float) else asarray(one) for one in operands
        ]
        kind = self._kind(operands)
        if not builtins.any(isinstance(one, ndarray) for one in operands):
            plain = (one.item() if isinstance(one, generic) else one for one in operands)
            return _scalar(_cast(kind)(self._function(*plain)), kind)
        if self._result is None and kind is _FLOAT:
            operands = [asarray(one, _FLOAT) for one in operands]
        arrays = broadcast_arrays(*operands)
        values = map(self._function, *(one._values() for one in arrays))
        found = _new([*map(_cast(kind), values)], arrays[0].shape, kind)
        if out is not None:
            (out[0] if isinstance(out, tuple) else out)[...] = found
            return out[0] if isinstance(out, tuple) else out
        return found if found.shape else _scalar(found.item(), kind)

    def reduce(self, array, axis=0, dtype=None, keepdims=False, initial=None):
        array = asarray(array)
        kind = self._kind([array]) if dtype is None else _as_dtype(dtype)
        start = self.identity if initial is None else initial

        def one(values):
            if start is None and not values:
                raise ValueError(f"zero-size array to reduction operation {self.__name__}")
            if start is None:
                return functools.reduce(self._function, values)
            return functools.reduce(self._function, values, start)

        return _along(one, array, axis, kind, keepdims)

    def accumulate(self, array, axis=0):
        array = asarray(array)
        return _lines(lambda line: list(itertools.accumulate(line, self._function)), array, axis)

    def reduceat(self, array, starts, axis=0):
        array, starts = asarray(array), asarray(starts)._values()
        ends = [*starts[1:], array.shape[_axis(axis, array.ndim)]]

        def one(line):
            return [
                functools.reduce(self._function, line[a:b] if a < b else line[a : a + 1])
                for a, b in zip(starts, ends, strict=True)
            ]

        return _lines(one, array, axis)

    def at(self, array, index, values=None):
        at, shape, _ = _select(array, index)
        values = _broadcast(asarray(values), shape)._values()
        cast = _cast(array.dtype)
        for i, value in zip(at, values, strict=True):
            array._buffer[i] = cast(self._function(array._buffer[i], value))

    def outer(self, left, right):
        left, right = asarray(left), asarray(right)
        return self(left.reshape(*left.shape, *[1] * right.ndim), right)


def _last(array, axis):
    """The array with an axis at the end."""
    axis = _axis(axis, array.ndim)
    return array.transpose([*(i for i in range(array.ndim) if i != axis), axis])


def _lines(function, array, axis):
    """Apply a function of lists along an axis; all results have one length."""
    moved = _last(array, axis)
    length = moved.shape[-1]
    values = moved._values()
    count = _size(moved.shape[:-1])
    found = [function(values[i * length : (i + 1) * length]) for i in range(count)]
    width = len(found[0]) if found else length if length else len(function([]))
    kind = _INT if array.dtype is _BOOL and function is not sorted else array.dtype
    flat = list(itertools.chain.from_iterable(found))
    back = _new(flat, (*moved.shape[:-1], width), kind)
    axis = _axis(axis, array.ndim)
    order = [*range(axis), array.ndim - 1, *range(axis, array.ndim - 1)]
    return back.transpose(order).copy()


def _along(function, array, axis, kind, keepdims=False):
    """Apply a function from a list to a number along axes; None: all."""
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = [_axis(one, array.ndim) for one in axes]
    rest = [i for i in range(array.ndim) if i not in axes]
    moved = array.transpose([*rest, *axes]) if array.ndim else array
    shape = [array.shape[i] for i in rest]
    values, length = moved._values(), _size([array.shape[i] for i in axes])
    cast = _cast(kind)
    found = [cast(function(values[i * length : (i + 1) * length])) for i in range(_size(shape))]
    if keepdims:
        shape = [1 if i in axes else n for i, n in enumerate(array.shape)]
    return _new(found, shape, kind) if shape else _scalar(found[0], kind)


def _divide(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        if a == 0 or a != a:
            return nan
        return math.copysign(inf, a) * math.copysign(1.0, b)
    except OverflowError:
        return inf


def _power(a, b):
    try:
        found = a**b
        return nan if isinstance(found, complex) else found
    except ZeroDivisionError:
        odd = float(b).is_integer() and b % 2 == 1
        return math.copysign(inf, a) if odd else inf
    except OverflowError:
        return -inf if a < 0 and b % 2 == 1 else inf


def _floor_divide(a, b):
    try:
        return a // b
    except ZeroDivisionError:
        return _divide(a, b) if isinstance(a, float) or isinstance(b, float) else 0


def _remainder(a, b):
    try:
        return a % b
    except ZeroDivisionError:
        return nan if isinstance(a, float) or isinstance(b, float) else 0


def _guarded(function, overflow=inf):
    """A function of `math` that gives nan outside its domain, and an infinity beyond floats."""

    def guarded(value):
        try:
            return function(value)
        except ValueError:
            return nan
        except OverflowError:
            return overflow

    return guarded


def _integral(function):
    return lambda x: float(function(x)) if math.isfinite(x) else float(x)


def _signed_round(value):
    return math.copysign(float(builtins.round(value)), value) if math.isfinite(value) else value


def _log(function):
    return lambda x: -inf if x == 0 else _guarded(function)(x)


def _lesser(a, b):
    return a if a != a or a <= b else b


def _greater(a, b):
    return a if a != a or a >= b else b


def _multiply(a, b):
    return a * b


add = ufunc("add", operator.add, 2, start=0)
subtract = ufunc("subtract", operator.sub, 2)
multiply = ufunc("multiply", _multiply, 2, start=1)
true_divide = divide = ufunc("divide", _divide, 2, "float")
floor_divide = ufunc("floor_divide", _floor_divide, 2)
remainder = mod = ufunc("remainder", _remainder, 2)
power = ufunc("power", _power, 2)
minimum = ufunc("minimum", _lesser, 2)
maximum = ufunc("maximum", _greater, 2)
negative = ufunc("negative", operator.neg, 1)
absolute = abs = ufunc("absolute", builtins.abs, 1)
sign = ufunc("sign", lambda x: x if x != x else (x > 0) - (x < 0), 1)
sqrt = ufunc("sqrt", _guarded(math.sqrt), 1, "float")
exp = ufunc("exp", _guarded(math.exp), 1, "float")
log = ufunc("log", _log(math.log), 1, "float")
log2 = ufunc("log2", _log(math.log2), 1, "float")
sin = ufunc("sin", _guarded(math.sin), 1, "float")
cos = ufunc("cos", _guarded(math.cos), 1, "float")
tan = ufunc("tan", _guarded(math.tan), 1, "float")
tanh = ufunc("tanh", _guarded(math.tanh), 1, "float")
arcsin = ufunc("arcsin", _guarded(math.asin), 1, "float")
arctanh = ufunc(
    "arctanh",
    lambda x: math.copysign(inf, x) if builtins.abs(x) == 1 else _guarded(math.atanh)(x),
    1,
    "float",
)
floor = ufunc("floor", _integral(math.floor), 1, "float")
ceil = ufunc("ceil", _integral(math.ceil), 1, "float")
rint = ufunc("rint", _signed_round, 1, "float")
nextafter = ufunc("nextafter", math.nextafter, 2, "float")
isnan = ufunc("isnan", lambda x: x != x, 1, _BOOL)
isinf = ufunc("isinf", math.isinf, 1, _BOOL)
isfinite = ufunc("isfinite", math.isfinite, 1, _BOOL)
less_equal = ufunc("less_equal", operator.le, 2, _BOOL)
less = ufunc("less", operator.lt, 2, _BOOL)
greater_equal = ufunc("greater_equal", operator.ge, 2, _BOOL)
greater = ufunc("greater", operator.gt, 2, _BOOL)
equal = ufunc("equal", operator.eq, 2, _BOOL)
not_equal = ufunc("not_equal", operator.ne, 2, _BOOL)
logical_and = ufunc("logical_and", lambda a, b: bool(a) and bool(b), 2, _BOOL, start=True)
logical_or = ufunc("logical_or", lambda a, b: bool(a) or bool(b), 2, _BOOL, start=False)
logical_xor = ufunc("logical_xor", lambda a, b: bool(a) is not bool(b), 2, _BOOL, start=False)
logical_not = ufunc("logical_not", operator.not_, 1, _BOOL)
bitwise_and = ufunc("bitwise_and", operator.and_, 2)
bitwise_or = ufunc("bitwise_or", operator.or_, 2)
bitwise_xor = ufunc("bitwise_xor", operator.xor, 2)
bitwise_not = invert = ufunc("invert", operator.invert, 1)


def _operators():
    pairs = {
        "add": add,
        "sub": subtract,
        "mul": multiply,
        "truediv": true_divide,
        "floordiv": floor_divide,
        "mod": remainder,
        "pow": power,
        "and": bitwise_and,
        "or": bitwise_or,
        "xor": bitwise_xor,
    }

    def methods(function):
        def forward(self, other):
            return function(self, other)

        def backward(self, other):
            return function(other, self)

        def in_place(self, other):
            self[...] = function(self, other)
            return self

        return forward, backward, in_place

    for name, function in pairs.items():
        forward, backward, in_place = methods(function)
        setattr(ndarray, f"__{name}__", forward)
        setattr(ndarray, f"__r{name}__", backward)
        setattr(ndarray, f"__i{name}__", in_place)
    for name, function in {
        "le": less_equal, "lt": less, "ge": greater_equal, "gt": greater, "eq": equal,
        "ne": not_equal,
    }.items():  # fmt: skip
        setattr(ndarray, f"__{name}__", methods(function)[0])


_operators()


def round(value, decimals=0):
    if not decimals:
        return rint(value)
    scale = 10.0**decimals
    return true_divide(rint(multiply(value, scale)), scale)


around = round


def clip(value, low=None, high=None, out=None):
    value = value if low is None else maximum(value, low)
    return (
        (value if high is None else minimum(value, high))
        if out is None
        else (minimum(maximum(value, low), high, out=out))
    )


def where(condition, yes=None, no=None):
    condition = asarray(condition)
    if yes is None:
        return condition.nonzero()
    kind = _of_operands(
        [one if isinstance(one, ndarray | int | float) else asarray(one) for one in (yes, no)]
    )
    condition, yes, no = broadcast_arrays(condition, asarray(yes), asarray(no))
    cast = _cast(kind)
    values = [
        cast(a if c else b)
        for c, a, b in zip(condition._values(), yes._values(), no._values(), strict=True)
    ]
    return _new(values, condition.shape, kind)


def nonzero(array):
    return asarray(array).nonzero()


def flatnonzero(array):
    return asarray(array).ravel().nonzero()[0]


def argwhere(array):
    array = asarray(array)
    return stack(array.nonzero(), axis=1)


def nan_to_num(value, nan=0.0, posinf=None, neginf=None):
    def one(x):
        if x != x:
            return nan
        most = 1.7976931348623157e308
        if x == inf:
            return most if posinf is None else posinf
        return (-most if neginf is None else neginf) if x == -inf else x

    return ufunc("nan_to_num", one, 1)(value)


def concatenate(arrays, axis=0):
    arrays = [asarray(one) for one in arrays]
    axis = _axis(axis, arrays[0].ndim)
    kind = result_type(*(one.dtype for one in arrays))
    cast = _cast(kind)
    rest = {one.shape[:axis] + one.shape[axis + 1 :] for one in arrays}
    if len(rest) > 1 or not arrays[0].ndim:
        raise ValueError("all the input array dimensions except for the axis must match exactly")
    outer = _size(arrays[0].shape[:axis])
    widths = [_size(one.shape[axis:]) for one in arrays]
    parts = [one._values() for one in arrays]
    values = [
        cast(value)
        for i in range(outer)
        for part, width in zip(parts, widths, strict=True)
        for value in part[i * width : (i + 1) * width]
    ]
    shape = list(arrays[0].shape)
    shape[axis] = builtins.sum(one.shape[axis] for one in arrays)
    return _new(values, shape, kind)


def stack(arrays, axis=0):
    arrays = [asarray(one) for one in arrays]
    axis = _axis(axis, arrays[0].ndim + 1)
    return concatenate(
        [one.reshape(*one.shape[:axis], 1, *one.shape[axis:]) for one in arrays], axis
    )


def vstack(arrays):
    return concatenate([one if one.ndim > 1 else one[None] for one in map(asarray, arrays)])


def hstack(arrays):
    arrays = list(map(asarray, arrays))
    return concatenate(arrays, 0 if arrays[0].ndim == 1 else 1)


def column_stack(arrays):
    return concatenate([one if one.ndim > 1 else one[:, None] for one in map(asarray, arrays)], 1)


def append(array, values):
    return concatenate([asarray(array).ravel(), asarray(values).ravel()])


def split(array, cuts):
    array = asarray(array)
    ends = [0, *asarray(cuts).tolist(), len(array)]
    return [array[first:last] for first, last in itertools.pairwise(ends)]


def repeat(array, counts, axis=None):
    array = asarray(array)
    array, axis = (array.ravel(), 0) if axis is None else (array, _axis(axis, array.ndim))
    counts = _broadcast(asarray(counts), (array.shape[axis],))._values()
    return array.take(
        _new([i for i, n in enumerate(counts) for _ in range(n)], (builtins.sum(counts),), _INT),
        axis,
    )


def tile(array, times):
    array, times = asarray(array), times if isinstance(times, Sequence) else (times,)
    array = array.reshape((1,) * (len(times) - array.ndim) + array.shape)
    for axis, count in enumerate(times):
        array = (
            concatenate([array] * count, axis)
            if count
            else array[(slice(None),) * axis + (slice(0, 0),)]
        )
    return array


def cumsum(array, axis=None):
    array = asarray(array)
    return add.accumulate(array.ravel() if axis is None else array, 0 if axis is None else axis)


def diff(array, axis=-1, prepend=None):
    array = asarray(array)
    if prepend is not None:
        array = concatenate([asarray(prepend).reshape(-1), array])
    return _lines(lambda line: [b - a for a, b in itertools.pairwise(line)], array, axis)


def bincount(values, weights=None, minlength=0):
    values = asarray(values)._values()
    found = [0 if weights is None else 0.0] * builtins.max(
        minlength, builtins.max(values, default=-1) + 1
    )
    for value, weight in zip(
        values, [1] * len(values) if weights is None else asarray(weights)._values(), strict=True
    ):
        found[value] += weight
    return array(found, int64 if weights is None else float64)


def _order(value):
    """NumPy's order of values: nan after all numbers."""
    return (value != value, value)


def sort(array, axis=-1, kind=None):
    array = asarray(array)
    return _lines(lambda line: sorted(line, key=_order), array, axis).astype(array.dtype)


def argsort(array, axis=-1, kind=None):
    def one(line):
        return sorted(range(len(line)), key=lambda i: _order(line[i]))

    array = asarray(array)
    return _lines(one, array, axis).astype(int64)


def lexsort(keys):
    keys = [asarray(key)._values() for key in keys]
    found = range(len(keys[0]))
    for key in keys:
        found = sorted(found, key=lambda i, key=key: _order(key[i]))
    return array(list(found), int64)


def searchsorted(array, values, side="left"):
    array, asked = asarray(array)._values(), asarray(values)
    find = bisect.bisect_left if side == "left" else bisect.bisect_right
    found = _new([find(array, value) for value in asked._values()], asked.shape, _INT)
    return found if found.shape else int64(found.item())


def _extreme(pick, array, axis):
    def one(line):
        if not line:
            raise ValueError("attempt to get the extreme of an empty sequence")
        missing = next((i for i, value in enumerate(line) if value != value), None)
        return line.index(pick(line)) if missing is None else missing

    return _along(one, asarray(array), axis, _INT)


def argmax(array, axis=None):
    return _extreme(builtins.max, array, axis)


def argmin(array, axis=None):
    return _extreme(builtins.min, array, axis)


def unique(
    array, return_index=False, return_inverse=False, return_counts=False, axis=None, equal_nan=True
):
    array = asarray(array)
    if axis:
        turned = unique(
            array.transpose(), return_index, return_inverse, return_counts, 0, equal_nan
        )
        return (turned[0].T, *turned[1:]) if isinstance(turned, tuple) else turned.T
    rows = array.reshape(len(array), -1).tolist() if axis == 0 else array._values()
    key = (lambda row: tuple(map(_order, row))) if axis == 0 else _order
    order = sorted(range(len(rows)), key=lambda i: key(rows[i]))
    firsts, inverse, counts = [], [0] * len(rows), []
    previous = None
    for i in order:
        own = key(rows[i])
        gone = equal_nan and axis is None and previous is not None and own[0] and previous[0]
        if previous is None or (own != previous and not gone):
            firsts.append(i)
            counts.append(0)
        previous = own
        inverse[i] = len(firsts) - 1
        counts[-1] += 1
    found = (array if axis == 0 else array.ravel())[_new(firsts, (len(firsts),), _INT)]
    shape = (len(rows),) if axis == 0 else array.shape
    parts = [
        (return_index, (firsts, (len(firsts),))),
        (return_inverse, (inverse, shape)),
        (return_counts, (counts, (len(counts),))),
    ]
    more = [_new(*what, _INT) for wanted, what in parts if wanted]
    return (found, *more) if more else found


def isin(array, known):
    known = set(asarray(known)._values())
    return ufunc("isin", lambda x: x in known, 1, _BOOL)(asarray(array))


def intersect1d(left, right, assume_unique=False, return_indices=False):
    left, right = asarray(left), asarray(right)
    shared = sorted(set(left._values()) & set(right._values()))
    found = array(shared, left.dtype)
    if not return_indices:
        return found
    at = [array([one._values().index(value) for value in shared], int64) for one in (left, right)]
    return found, *at


def setdiff1d(left, right):
    left = asarray(left)
    return array(sorted(set(left._values()) - set(asarray(right)._values())), left.dtype)


def compress(condition, array, axis=None):
    return asarray(array).take(flatnonzero(condition), axis)


def array_equal(left, right):
    left, right = asarray(left), asarray(right)
    return left.shape == right.shape and left._values() == right._values()


def ix_(*lists):
    count = len(lists)
    parts = [one.nonzero()[0] if one.dtype is _BOOL else one for one in map(asarray, lists)]
    return tuple(
        one.reshape([1] * i + [one.size] + [1] * (count - i - 1)) for i, one in enumerate(parts)
    )


def any(array, axis=None):
    return asarray(array).any(axis)


def all(array, axis=None):
    return asarray(array).all(axis)


def min(array, axis=None):
    return asarray(array).min(axis)


def max(array, axis=None):
    return asarray(array).max(axis)


def sum(array, axis=None):
    return asarray(array).sum(axis)


def mean(array, axis=None):
    return asarray(array).mean(axis)


def transpose(array, axes=()):
    return asarray(array).transpose(*axes)


def ndim(value):
    return asarray(value).ndim


def shape(value):
    return asarray(value).shape


def isscalar(value):
    return isinstance(value, generic | int | float | str)


class vectorize:
    """A Python function over arrays."""

    def __init__(self, function, otypes=None):
        kind = _OBJECT if not otypes else _as_dtype(otypes[0])
        self._call = lambda *operands: ufunc("vectorize", function, len(operands), kind)(
            *map(asarray, operands)
        )

    def __call__(self, *operands):
        return self._call(*operands)


class finfo:
    """The limits of float64."""

    max, min, eps, tiny = 1.7976931348623157e308, -1.7976931348623157e308, 2.0**-52, 2.0**-1022

    def __init__(self, kind=float64):
        pass


@contextmanager
def errstate(**_):
    """No effect: operations here never warn."""
    yield
