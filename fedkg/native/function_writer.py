"""LLVM text of one function: blocks, variables, and expressions.

Variables are stack slots, which LLVM turns into registers.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

from fedkg.native.kernel_language import Intrinsic, LLVMFunction
from fedkg.native.llvm_values import (
    ARITHMETIC,
    ELEMENTS,
    NUMBERS,
    OF_INTS,
    ORDER,
    NotCompiled,
    Value,
    literal,
    literal_value,
    wider,
)

FUNCTIONS = {
    math.sqrt: "sqrt",
    math.floor: "floor",
    math.ceil: "ceil",
    math.log: "log",
    round: "rint",
}
"""LLVM names of unary functions."""

IMPURE = (ast.Subscript, ast.Call, ast.FloorDiv, ast.Mod)
"""Expressions that must not be evaluated unconditionally."""


class FunctionWriter:
    """The LLVM text of a function under construction.

    Args:
        single: whether the library's precision is float32.
        names: values of the names outside the function.
        signature: of a callee: its name, the kinds of its parameters and of its result.
    """

    def __init__(
        self,
        single: bool,
        names: Mapping[str, Any],
        signature: Callable[[Callable[..., Any]], tuple[str, list[str], str]],
    ) -> None:
        self.single = single
        self.names = names
        self.signature = signature
        self.places: list[str] = []
        self.lines: list[str] = []
        self.variables: dict[str, Value] = {}
        self.given: set[str] = set()
        self.intrinsics: set[str] = set()
        self.block, self.ended = "entry", False
        self._count = 0

    def type_of(self, kind: str) -> str:
        """LLVM's type of a kind."""
        if kind in ELEMENTS:
            return "ptr"
        return {
            "int": "i64",
            "bool": "i1",
            "Float": "float" if self.single else "double",
            "Double": "double",
            "None": "void",
        }[kind]

    def new(self, stem: str) -> str:
        """An unused name."""
        self._count += 1
        return f"{stem}{self._count}"

    def put(self, kind: str, text: str) -> Value:
        """The value of an instruction."""
        name = self.new("%v")
        self.lines.append(f"  {name} = {text}")
        return Value(kind, name)

    def do(self, text: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {text}")

    def begin(self, block: str) -> None:
        """Start a new block."""
        if not self.ended:
            self.do(f"br label %{block}")
        self.lines.append(f"{block}:")
        self.block, self.ended = block, False

    def branch(self, test: Value, yes: str, no: str) -> None:
        """Branch to one of two blocks."""
        self.do(f"br i1 {self.truth(test).text}, label %{yes}, label %{no}")
        self.ended = True

    def truth(self, value: Value) -> Value:
        """Whether a bool is true, or an int not 0."""
        return (
            self.ordered("NotEq", value, literal_value(0))
            if value.kind == "int"
            else self.to(value, "bool")
        )

    def leave(self, text: str) -> None:
        """The last instruction of a block."""
        self.do(text)
        self.ended = True

    def typed(self, value: Value) -> str:
        """A value with its type, as an operand."""
        return f"{self.type_of(value.kind)} {value.text}"

    def to(self, value: Value, kind: str, narrow: bool = False) -> Value:
        """A value in another kind. Raises NotCompiled if that would narrow it, unless `narrow`."""
        if (
            value.known is not None
            and kind in NUMBERS
            and (isinstance(value.known, int) or kind in ("Float", "Double"))
        ):
            return Value(kind, literal(value.known, kind, self.single))
        if value.kind == kind:
            return value
        if (
            value.kind not in NUMBERS
            or kind not in NUMBERS
            or (NUMBERS.index(kind) < NUMBERS.index(value.kind) and not narrow)
        ):
            raise NotCompiled(f"{value.kind} where {kind} should be")
        if kind in ("Float", "Double") and value.kind in ("Float", "Double"):
            if self.single:
                return self.put(
                    kind,
                    (
                        f"{'fptrunc' if kind == 'Float' else 'fpext'} {self.typed(value)} to "
                        f"{self.type_of(kind)}"
                    ),
                )
            return Value(kind, value.text)
        how = "zext" if kind == "int" else "uitofp" if value.kind == "bool" else "sitofp"
        return self.put(kind, f"{how} {self.typed(value)} to {self.type_of(kind)}")

    def store(self, name: str, value: Value) -> None:
        """Assign a value to a variable."""
        if name not in self.variables:
            kind, element_address = value.kind, f"%{name}.place"
            self.places.append(f"  {element_address} = alloca {self.type_of(kind)}")
            self.variables[name] = Value(kind, element_address)
        variable = self.variables[name]
        self.do(f"store {self.typed(self.to(value, variable.kind))}, ptr {variable.text}")
        self.given.add(name)

    def value(self, node: ast.expr) -> Value:
        """The value of an expression. Raises NotCompiled for expressions outside the language."""
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return literal_value(number)
            case ast.Name():
                return self._name(node.id)
            case ast.Attribute():
                return self._outside(self._object(node))
            case ast.BinOp():
                return self.binary(
                    type(node.op).__name__, self.value(node.left), self.value(node.right)
                )
            case ast.UnaryOp():
                return self._unary(node.op, self.value(node.operand))
            case ast.Compare():
                return self._compared(node)
            case ast.BoolOp():
                return self._either(node)
            case ast.IfExp():
                return self._chosen(node)
            case ast.Subscript():
                if isinstance(node.slice, ast.Slice):
                    return self.later(self.value(node.value), node.slice)
                return self.load(self.value(node.value), self.value(node.slice))
            case ast.Call():
                return self._call(node)
        raise NotCompiled(f"`{ast.unparse(node)}`")

    def _name(self, name: str) -> Value:
        if name in self.variables:
            if name not in self.given:
                raise NotCompiled(f"`{name}` may have no value here")
            variable = self.variables[name]
            return self.put(
                variable.kind, f"load {self.type_of(variable.kind)}, ptr {variable.text}"
            )
        return self._outside(self._object(ast.Name(id=name)))

    def _object(self, node: ast.expr) -> Any:
        """The value of a name outside the function."""
        if isinstance(node, ast.Name):
            if node.id in self.names:
                return self.names[node.id]
            return {"abs": abs, "min": min, "max": max, "round": round}.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self._object(node.value), node.attr, None)
        raise NotCompiled(f"`{ast.unparse(node)}`")

    @staticmethod
    def _outside(found: Any) -> Value:
        if isinstance(found, int | float):
            return literal_value(found if isinstance(found, bool | float) else int(found))
        raise NotCompiled(f"{found!r} is not a number")

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """An operation on two values."""
        kind = wider(left, right)
        if op in OF_INTS:
            if kind not in ("int", "bool"):
                raise NotCompiled(f"{op} of {kind}")
            kind = "int" if op in ("FloorDiv", "Mod") else kind
            return self.put(
                kind,
                f"{OF_INTS[op]} {self.typed(self.to(left, kind))}, {self.to(right, kind).text}",
            )
        if op not in ARITHMETIC:
            raise NotCompiled(op)
        kind = "int" if kind == "bool" else kind
        word = ARITHMETIC[op][kind != "int"]
        if word is None:
            raise NotCompiled("a division of int")
        return self.put(
            kind, f"{word} {self.typed(self.to(left, kind))}, {self.to(right, kind).text}"
        )

    def _unary(self, op: ast.unaryop, value: Value) -> Value:
        if isinstance(op, ast.Not):
            return self.put("bool", f"xor i1 {self.truth(value).text}, true")
        if not isinstance(op, ast.USub):
            raise NotCompiled(type(op).__name__)
        if value.known is not None:
            return literal_value(-value.known)
        if value.kind in ("Float", "Double"):
            return self.put(value.kind, f"fneg {self.typed(value)}")
        return self.put("int", f"sub nsw i64 0, {self.to(value, 'int').text}")

    def ordered(self, op: str, left: Value, right: Value) -> Value:
        """A comparison of two values."""
        kind = wider(left, right)
        kind = "int" if kind == "bool" else kind
        floating = kind in ("Float", "Double")
        words = f"{'fcmp' if floating else 'icmp'} {ORDER[op][floating]}"
        return self.put(
            "bool", f"{words} {self.typed(self.to(left, kind))}, {self.to(right, kind).text}"
        )

    def _compared(self, node: ast.Compare) -> Value:
        left, found = self.value(node.left), None
        if any(_impure(part) for part in node.comparators[1:]):
            raise NotCompiled("the end of a chain of comparisons would always be evaluated")
        for op, part in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In) and isinstance(part, ast.Tuple):
                tests = [self.ordered("Eq", left, self.value(each)) for each in part.elts]
            elif type(op).__name__ in ORDER:
                right = self.value(part)
                tests, left = [self.ordered(type(op).__name__, left, right)], right
            else:
                raise NotCompiled(f"`{ast.unparse(node)}`")
            test = tests[0]
            for other in tests[1:]:
                test = self.put("bool", f"or i1 {test.text}, {other.text}")
            found = test if found is None else self.put("bool", f"and i1 {found.text}, {test.text}")
        assert found is not None
        return found

    def _either(self, node: ast.BoolOp) -> Value:
        word = "and" if isinstance(node.op, ast.And) else "or"
        found = self._flag(node.values[0])
        for part in node.values[1:]:
            if not _impure(part):
                found = self.put("bool", f"{word} i1 {found.text}, {self._flag(part).text}")
                continue
            more, done, before = self.new("more"), self.new("done"), self.block
            self.branch(found, *((more, done) if word == "and" else (done, more)))
            self.begin(more)
            value, last = self._flag(part), self.block
            self.begin(done)
            found = self.put(
                "bool",
                f"phi i1 [ {str(word == 'or').lower()}, %{before} ], [ {value.text}, %{last} ]",
            )
        return found

    def _flag(self, node: ast.expr) -> Value:
        value = self.value(node)
        if value.kind != "bool":
            raise NotCompiled(f"`and`, `or` of {value.kind}")
        return self.to(value, "bool")

    def _chosen(self, node: ast.IfExp) -> Value:
        test = self.truth(self.value(node.test))
        if not _impure(node.body) and not _impure(node.orelse):
            left, right = self.value(node.body), self.value(node.orelse)
            kind = left.kind if left.kind == right.kind else wider(left, right)
            return self.put(
                kind,
                (
                    f"select i1 {test.text}, {self.typed(self.to(left, kind))}, "
                    f"{self.typed(self.to(right, kind))}"
                ),
            )
        yes, no, done = self.new("yes"), self.new("no"), self.new("done")
        self.branch(test, yes, no)
        self.begin(yes)
        left, at_left, left_lines = self.value(node.body), self.block, len(self.lines)
        self.ended = True
        self.begin(no)
        right = self.value(node.orelse)
        kind = left.kind if left.kind == right.kind else wider(left, right)
        right = self.to(right, kind)
        at_right = self.block
        tail, self.lines = self.lines[left_lines:], self.lines[:left_lines]
        left = self.to(left, kind)
        self.lines += [f"  br label %{done}", *tail]
        self.begin(done)
        return self.put(
            kind,
            f"phi {self.type_of(kind)} [ {left.text}, %{at_left} ], [ {right.text}, %{at_right} ]",
        )

    def element_address(self, where: Value, at: Value) -> str:
        """The address of an element."""
        if where.kind not in ELEMENTS:
            raise NotCompiled(f"{where.kind} has no elements")
        element = "i8" if where.kind == "Bools" else self.type_of(ELEMENTS[where.kind])
        return self.put(
            "int",
            f"getelementptr inbounds {element}, ptr {where.text}, i64 {self.to(at, 'int').text}",
        ).text

    def load(self, where: Value, at: Value) -> Value:
        """An element."""
        element_address, kind = self.element_address(where, at), ELEMENTS[where.kind]
        if kind == "bool":
            return self.put(
                "bool", f"icmp ne i8 {self.put('int', f'load i8, ptr {element_address}').text}, 0"
            )
        return self.put(kind, f"load {self.type_of(kind)}, ptr {element_address}")

    def later(self, where: Value, part: ast.Slice) -> Value:
        """The address of a slice."""
        if part.lower is None or part.upper is not None or part.step is not None:
            raise NotCompiled("a slice with an end")
        return Value(where.kind, self.element_address(where, self.value(part.lower)))

    def _call(self, node: ast.Call) -> Value:
        function, values = self._object(node.func), [self.value(arg) for arg in node.args]
        if node.keywords:
            raise NotCompiled("keyword arguments")
        if isinstance(function, Intrinsic) and len(values) == 1:
            if function.kind == "address":
                return self.put("int", f"ptrtoint ptr {values[0].text} to i64")
            if function.kind in NUMBERS:
                return self.to(values[0], function.kind, narrow=True)
            return self.put(function.kind, f"inttoptr i64 {values[0].text} to ptr")
        if function in (min, max) and len(values) == 2:
            kind = wider(*values)
            first, second = (self.to(value, kind) for value in values)
            if kind in ("Float", "Double"):
                return self._intrinsic(
                    "nnan nsz", "minnum" if function is min else "maxnum", first, second
                )
            test = self.ordered("Lt" if function is min else "Gt", second, first)
            return self.put(
                kind, f"select i1 {test.text}, {self.typed(second)}, {self.typed(first)}"
            )
        if (
            (function is abs or function in FUNCTIONS)
            and len(values) == 1
            and values[0].kind in ("Float", "Double")
        ):
            return self._intrinsic("", "fabs" if function is abs else FUNCTIONS[function], *values)
        if isinstance(function, LLVMFunction):
            self.intrinsics |= {function.text(self.single), *function.needs(self.single)}
            name, kinds, result = function.name, list(function.kinds), function.result
        elif getattr(function, "is_loop", False):
            name, kinds, result = self.signature(function)
        else:
            raise NotCompiled(f"`{ast.unparse(node)}`")
        given = ", ".join(
            self.typed(self.to(value, kind)) for value, kind in zip(values, kinds, strict=True)
        )
        text = f"call {self.type_of(result)} @{name}({given})"
        if result != "None":
            return self.put(result, text)
        self.do(text)
        return Value("None", "")

    def _intrinsic(self, free: str, name: str, *values: Value) -> Value:
        """A call of an LLVM intrinsic, with the fast-math flags `free`."""
        kind, types = (
            self.type_of(values[0].kind),
            ", ".join(self.type_of(value.kind) for value in values),
        )
        name = f"llvm.{name}.{'f32' if kind == 'float' else 'f64'}"
        self.intrinsics.add(f"declare {kind} @{name}({types})")
        return self.put(
            values[0].kind,
            f"call {free} {kind} @{name}({', '.join(self.typed(value) for value in values)})",
        )


def _impure(node: ast.expr) -> bool:
    return any(isinstance(part, IMPURE) for part in ast.walk(node))
