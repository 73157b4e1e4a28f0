"""Translation of loops to one LLVM module with Numba's front end.

Numba types each function and writes its LLVM code; fedkg optimises all functions of a library
together, once. Numba's own dispatcher would link and optimise each function again in every caller,
which takes several times as long. The translation uses interfaces of Numba that are not public:

- `numba.core.compiler.CompilerBase` and the passes in its pipeline, to leave out the passes that
  loops do not need and to stop before machine code;
- `numba.core.lowering.Lower` and `ExternalFunction`, so that a call of another loop is typed by its
  declaration and lowered to a plain call, before that loop is compiled;
- the typing context, to look up each operation once per combination of types;
- `numba.core.funcdesc` and the call convention, for the entry that has C's convention.

`tests/fedkg/kernels/test_loop_translation.py` fails with the name of an interface that disappears.
"""

from __future__ import annotations

import gc
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import (
    cgutils,
    compiler,
    compiler_lock,
    compiler_machinery,
    errors,
    funcdesc,
    lowering,
    registry,
    typed_passes,
    untyped_passes,
)
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from fedkg.kernels.checked_memory_access import CHECK, add_checks, check_function
from fedkg.kernels.loop_language import Intrinsic, LLVMFunction, NotCompiled, kinds

Function = Callable[..., Any]
Type = Any  # Numba's types are not annotated

types: Any = numba.types

# Numba's decorators, with types.
types_call: Callable[..., Callable[[Function], Function]] = type_callable
lowers: Callable[..., Callable[[Function], Function]] = lower_builtin
instruction: Callable[[Function], Any] = intrinsic

NUMBERS = (types.Boolean, types.Integer, types.Float)
"""Types of numbers."""


def translate(
    entries: Sequence[Function],
    single: bool,
    without: Sequence[Function] = (),
    *,
    is_checked: bool = False,
) -> llvm.ModuleRef:
    """The LLVM module of a library: its entries, and all functions that they call.

    Args:
        entries: as for `Library`.
        single: as for `Library`.
        without: functions without code: they do nothing, and what they call is left out.
        is_checked: with bounds checks (see `address_checks`).

    Raises:
        NotCompiled: with the function that is outside the language.
    """
    for entry in entries:
        _check_entry(entry)
    with compiler_lock.global_compiler_lock, _no_garbage_collection():
        return _Translation(entries, single, without, is_checked).module()


def _check_entry(entry: Function) -> None:
    """Raise NotCompiled for a parameter that `Library` cannot pass."""
    for kind in kinds(entry)[0]:
        if kind in ("bool", "Float"):
            other = "an int" if kind == "bool" else "a Double"
            raise NotCompiled(
                f"`{entry.__name__}` takes a {kind} from outside: {other} does the same"
            )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Numba creates millions of objects; looking for garbage among them would take a quarter of the
    time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Address(types.Type):  # type: ignore[misc]
    """The address of an array: elements are read and written without any check, or each with a
    check of its bounds.
    """

    def __init__(self, dtype: Type, is_checked: bool) -> None:
        self.dtype, self.is_checked = dtype, is_checked
        super().__init__(f"{'Checked' if is_checked else ''}Address({dtype})")


@register_model(Address)
class _AddressModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, of: Address) -> None:
        element = manager.lookup(of.dtype).get_data_type()
        super().__init__(manager, of, element.as_pointer())


class Declared(types.ExternalFunction):  # type: ignore[misc]
    """A function of the module with this signature; arguments are widened, never narrowed."""

    def get_call_type(self, context: Any, args: Sequence[Type], kws: Any) -> Type:
        """The signature; None if it does not fit the arguments."""
        wanted = self.sig.args
        if kws or len(args) != len(wanted):
            return None
        fits = all(_widens(given, to) for given, to in zip(args, wanted, strict=True))
        return self.sig if fits else None


register_model(Declared)(models.OpaqueModel)


def _rank(number: Type) -> int:
    """The place of a type of numbers among bool, int, float32 and float64."""
    if isinstance(number, types.Float):
        return 2 if number == types.float32 else 3
    return 1 if isinstance(number, types.Integer) else 0


def _widens(given: Type, to: Type) -> bool:
    """Whether a value of this type is one of the other type, perhaps after widening."""
    if given == to:
        return True
    return isinstance(given, NUMBERS) and isinstance(to, NUMBERS) and _rank(given) <= _rank(to)


@types_call(operator.getitem)
def _type_getitem(context: Any) -> Function:
    def typer(x: Type, i: Type) -> Type:
        if isinstance(x, Address) and isinstance(i, types.Integer | types.Boolean):
            return x.dtype
        if isinstance(x, Address) and isinstance(i, types.SliceType) and not i.has_step:
            return x
        return None

    return typer


@types_call(operator.setitem)
def _type_setitem(context: Any) -> Function:
    def typer(x: Type, i: Type, value: Type) -> Type:
        fits = isinstance(x, Address) and isinstance(i, types.Integer | types.Boolean)
        return types.none if fits and _widens(value, x.dtype) else None

    return typer


def _element(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    """The address of an element, or that of a dummy if a check fails."""
    place, is_checked = (
        context.cast(builder, args[1], sig.args[1], types.int64),
        sig.args[0].is_checked,
    )
    element = builder.gep(args[0], [place], inbounds=not is_checked)
    if not is_checked:
        return element
    int64 = ir.IntType(64)
    check = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(int64, [int64] * 3), CHECK
    )
    size = context.get_abi_sizeof(context.get_data_type(sig.args[0].dtype))
    numbers = [builder.ptrtoint(part, int64) for part in (args[0], element)]
    return builder.inttoptr(builder.call(check, [*numbers, int64(size)]), element.type)


@lowers(operator.getitem, Address, types.Integer)
@lowers(operator.getitem, Address, types.Boolean)
def _lower_getitem(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    return context.unpack_value(builder, sig.return_type, _element(context, builder, sig, args))


@lowers(operator.getitem, Address, types.SliceType)
def _lower_slice(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    part = context.make_helper(builder, sig.args[1], args[1])
    return builder.gep(args[0], [part.start], inbounds=True)


@lowers(operator.setitem, Address, types.Integer, types.Any)
@lowers(operator.setitem, Address, types.Boolean, types.Any)
def _lower_setitem(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    element = sig.args[0].dtype
    value = context.cast(builder, args[2], sig.args[2], element)
    context.pack_value(builder, element, value, _element(context, builder, sig, args))
    return context.get_dummy_value()


@lowers(operator.contains, types.UniTuple, types.Integer)
def _lower_contains(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    values = cgutils.unpack_tuple(builder, args[0])
    wanted = context.cast(builder, args[1], sig.args[1], sig.args[0].dtype)
    found = context.get_constant(types.boolean, False)
    for value in values:
        found = builder.or_(found, builder.icmp_signed("==", value, wanted))
    return found


def _unary(name: str) -> Any:
    """LLVM's function of one Float or Double; Python's `floor` and `round` would return an int."""

    def typed(typing: Any, x: Type) -> Any:
        if not isinstance(x, types.Float):
            return None

        def write(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
            kind = context.get_value_type(x)
            return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [kind]), args)

        return x(x), write

    return instruction(typed)


def _extreme(name: str, order: str) -> Any:
    """`min` or `max` of two numbers that are not NaN, which does not distinguish the zeros."""

    def typed(typing: Any, first: Type, second: Type) -> Any:
        if not isinstance(first, NUMBERS) or not isinstance(second, NUMBERS):
            return None
        widest = types.unliteral(max(first, second, key=_rank))
        common = widest if isinstance(widest, types.Float) else types.int64

        def write(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
            u, v = (
                context.cast(builder, value, kind, common)
                for value, kind in zip(args, sig.args, strict=True)
            )
            if common == types.int64:
                return builder.select(builder.icmp_signed(order, v, u), v, u)
            kind = context.get_value_type(common)
            called = builder.module.declare_intrinsic(
                f"llvm.{name}", [kind], ir.FunctionType(kind, [kind, kind])
            )
            return builder.call(called, [u, v], fastmath=("nnan", "nsz"))

        return common(first, second), write

    return instruction(typed)


def _number(to: Type) -> Any:
    """Convert a number, also to a narrower type."""

    def typed(typing: Any, x: Type) -> Any:
        def write(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
            return context.cast(builder, args[0], sig.args[0], to)

        return (to(x), write) if isinstance(x, NUMBERS) else None

    return instruction(typed)


def _array_at(to: Type) -> Any:
    """The array at an address."""

    def typed(typing: Any, x: Type) -> Any:
        def write(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(to))

        return (to(types.int64), write) if isinstance(x, types.Integer) else None

    return instruction(typed)


@instruction
def _address_of(typing: Any, x: Type) -> Any:
    def write(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        return builder.ptrtoint(args[0], ir.IntType(64))

    return (types.int64(x), write) if isinstance(x, Address) else None


BUILTINS = {
    "abs": _unary("fabs"),
    "round": _unary("rint"),
    "min": _extreme("minnum", "<"),
    "max": _extreme("maxnum", ">"),
}
MATH = {"sqrt": _unary("sqrt"), "log": _unary("log")}
MATH |= {"floor": _unary("floor"), "ceil": _unary("ceil")}


class _Typing(type(registry.cpu_target.typing_context)):  # type: ignore[misc]
    """Numba's typing context, which looks up each operation once per combination of types."""

    def __init__(self, shared: Any) -> None:
        self.__dict__.update(shared.__dict__)
        self._found: dict[Any, Any] = {}

    def resolve_function_type(self, func: Type, args: Sequence[Type], kws: Any) -> Any:
        """The signature of a call; None if there is none."""
        given = tuple(types.unliteral(arg) for arg in args)
        if func is operator.contains and isinstance(given[0], types.UniTuple):
            return types.boolean(*given)  # Numba would compile a function in Python
        found = self._found.get((func, given))
        if found is None:
            found = super().resolve_function_type(func, given, kws)
            self._found[func, given] = found
        return found


class _Module:
    """One LLVM module for all functions, in the place of Numba's library for each function."""

    def __init__(self, target: Any) -> None:
        self.name = "loops"
        self.codegen = target.codegen()
        self.code = ir.Module(self.name)
        self.code.triple = llvm.get_process_triple()
        self.described: Any = None
        self.operations: set[tuple[Function, tuple[Type, ...]]] = set()

    def create_ir_module(self, name: str) -> ir.Module:
        """The module, whatever the function."""
        return self.code

    def add_ir_module(self, module: ir.Module) -> None:
        """The function is in the module already."""

    def add_linking_library(self, library: Any) -> None:
        """Raise NotCompiled for an operation that Numba compiles as a function in Python."""
        if library.name != "nrt":  # Numba's memory management, which no loop uses
            raise NotCompiled(f"`{library.name}` is outside the language")


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Numba's writer of LLVM code; calls of declared functions pass values as they are."""

    def _lower_call_ExternalFunction(  # noqa: N802
        self, function: Type, call: Any, sig: Any
    ) -> Any:
        values = self.fold_call_args(function, sig, call.args, call.vararg, call.kws)
        called = cgutils.get_or_insert_function(
            self.builder.module, _llvm_type(self.context, sig), function.symbol
        )
        out = self.builder.call(called, values)
        return self.context.get_dummy_value() if sig.return_type == types.none else out

    def lower_binop(self, result: Type, operation: Any, op: Function) -> Any:
        """Write an operation of two numbers, as typed; Numba would look for one with constants."""
        sig = self.fndesc.calltypes[operation]
        values = [
            self.context.cast(self.builder, self.loadvar(part.name), self.typeof(part.name), to)
            for part, to in zip((operation.lhs, operation.rhs), sig.args, strict=True)
        ]
        function = self.context.typing_context.resolve_value_type(op)
        if (op, sig.args) not in self.library.operations:
            function.get_call_type(self.context.typing_context, sig.args, {})  # finds its code
            self.library.operations.add((op, sig.args))
        found = self.context.get_function(function, sig)(self.builder, values)
        return self.context.cast(self.builder, found, sig.return_type, result)


def _llvm_type(context: Any, sig: Any) -> ir.FunctionType:
    is_void = sig.return_type == types.none
    result = ir.VoidType() if is_void else context.get_value_type(sig.return_type)
    return ir.FunctionType(result, [context.get_value_type(arg) for arg in sig.args])


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(compiler_machinery.LoweringPass):  # type: ignore[misc]
    """Write the LLVM code of a typed function into the module."""

    _name = "loop_lowering"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Lower the function and keep its description."""
        described = funcdesc.PythonFunctionDescriptor.from_specialized_function(
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=state.targetctx.mangler,
            inline=False,
            noalias=False,
            abi_tags=(),
        )
        with state.targetctx.push_code_library(state.library):
            _Lower(state.targetctx, state.library, described, state.func_ir, {}).lower()
        state.library.described = described
        state.cr = described
        return True


class _Pipeline(compiler.CompilerBase):  # type: ignore[misc]
    """From bytecode to LLVM code, without the passes that declared types make superfluous."""

    def define_pipelines(self) -> list[Any]:
        """The only pipeline."""
        passes = compiler_machinery.PassManager("loops")
        for step in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            typed_passes.NopythonTypeInference,
            _Lowering,
        ):
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


class _Translation:
    """The functions of a library in one precision."""

    def __init__(
        self,
        entries: Sequence[Function],
        single: bool,
        without: Sequence[Function],
        is_checked: bool,
    ) -> None:
        number = types.float32 if single else types.float64
        self._single, self._without, self._is_checked = single, without, is_checked
        self._entries = [entry.__name__ for entry in entries]
        self._types = {
            "int": types.int64,
            "bool": types.boolean,
            "Float": number,
            "Double": types.float64,
            "None": types.none,
            "Floats": Address(number, is_checked),
            "Doubles": Address(types.float64, is_checked),
            "Ints": Address(types.int64, is_checked),
            "Bools": Address(types.boolean, is_checked),
        }
        self._queue: list[Function] = list(entries)
        self._texts = {check_function(): None} if is_checked else {}
        self._outside: dict[Any, Any] = {
            kind: _number(self._types[kind]) for kind in ("Float", "Double")
        }

    def module(self) -> llvm.ModuleRef:
        """The LLVM module, not optimised."""
        functions = [self._specialise(function) for function in self._queue]  # the queue grows
        names = [function.__name__ for function in functions]
        if len(set(names)) < len(names):
            raise NotCompiled("two functions of one name")
        shared, target = registry.cpu_target.typing_context, registry.cpu_target.target_context
        shared.refresh()
        target.refresh()
        typing, module, flags = _Typing(shared), _Module(target), compiler.Flags()
        flags.error_model = "numpy"
        described = []
        for source, function in zip(self._queue, functions, strict=True):
            sig = self._signature(source)
            compiled = _Pipeline(typing, target, module, sig.args, None, flags, {})
            try:
                compiled.compile_extra(function)
            except (errors.NumbaError, NotCompiled) as error:
                raise _not_compiled(source, error) from error
            described.append(module.described)
            if not _widens(described[-1].restype, sig.return_type):
                raise NotCompiled(f"{_name(source)}: returns {described[-1].restype}")
        for source, each in zip(self._queue, described, strict=True):
            entry = _write_entry(
                target, module.code, source.__name__, each, self._signature(source)
            )
            if source.__name__ not in self._entries:
                entry.attributes.add("noinline")  # LLVM would copy loops into all their callers
        return self._linked(str(module.code))

    def _linked(self, code: str) -> llvm.ModuleRef:
        """Add the functions written in LLVM; only entries stay visible."""
        module = llvm.parse_assembly(code)
        texts = llvm.parse_assembly("\n\n".join(self._texts))
        texts.triple = module.triple
        module.link_in(texts)
        for function in module.functions:
            if not function.is_declaration and function.name not in self._entries:
                function.linkage = "internal"
        return module

    def _signature(self, function: Function) -> Any:
        parameters, result = kinds(function)
        return self._types[result](*(self._types[kind] for kind in parameters))

    def _specialise(self, function: Function) -> FunctionType:
        """The function with constants in the library's precision, and with declarations of what it
        calls.
        """
        code = function.__code__
        if function in self._without:
            code = eval(f"lambda {', '.join(code.co_varnames[: code.co_argcount])}: None").__code__
        constants = tuple(
            self._value(each) if isinstance(each, float) else each for each in code.co_consts
        )
        names = BUILTINS | function.__globals__
        outside = {name: self._value(names[name]) for name in code.co_names if name in names}
        return FunctionType(code.replace(co_consts=constants), outside, function.__name__)

    def _value(self, value: Any) -> Any:
        """What Numba sees of a constant or of an object outside the function."""
        if value is math:
            return self._math()
        if isinstance(value, float):
            return np.float32(value) if self._single else value
        if isinstance(value, Intrinsic):
            return self._intrinsic(value)
        if isinstance(value, LLVMFunction):
            texts = (value.text(self._single), *value.needs(self._single))
            texts = tuple(text.replace("define internal", "define") for text in texts)
            self._texts |= dict.fromkeys(map(add_checks, texts) if self._is_checked else texts)
            sig = self._types[value.result](*(self._types[kind] for kind in value.kinds))
            return Declared(value.name, sig)
        if getattr(value, "is_loop", False):
            if value not in self._queue:
                self._queue.append(value)
            return Declared(value.__name__, self._signature(value))
        return value

    def _intrinsic(self, wanted: Intrinsic) -> Any:
        if wanted.kind == "address":
            return _address_of
        if wanted.kind not in self._outside:
            self._outside[wanted.kind] = _array_at(self._types[wanted.kind])
        return self._outside[wanted.kind]

    def _math(self) -> ModuleType:
        """`math`, with functions that return Floats."""
        module = ModuleType("math")
        constants = {name: each for name, each in vars(math).items() if isinstance(each, float)}
        vars(module).update(MATH)
        vars(module).update({name: self._value(each) for name, each in constants.items()})
        return module


def _name(function: Function) -> str:
    return f"{function.__module__}.{function.__name__}"


def _not_compiled(function: Function, error: Exception) -> NotCompiled:
    """The error with the line of the function."""
    place = getattr(error, "loc", None)
    line = f"line {place.line}: " if place is not None else ""
    return NotCompiled(f"{_name(function)}: {line}{error}")


def _write_entry(
    context: Any, module: ir.Module, name: str, described: Any, sig: Any
) -> ir.Function:
    """A function with C's convention that calls the one with Numba's, which has a status as well.

    No loop can fail, so that the status is ignored.
    """
    function = cgutils.get_or_insert_function(module, _llvm_type(context, sig), name)
    called = context.declare_function(module, described)
    called.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    _, out = context.call_conv.call_function(
        builder, called, described.restype, described.argtypes, function.args
    )
    if sig.return_type == types.none:
        builder.ret_void()
    else:
        builder.ret(context.cast(builder, out, described.restype, sig.return_type))
    return function
