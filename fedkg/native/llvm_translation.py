"""Translation of functions and their callees to one LLVM module."""

from __future__ import annotations
import __future__

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from types import CodeType
from typing import Any

from fedkg.native.function_writer import FunctionWriter
from fedkg.native.llvm_values import ELEMENTS, NotCompiled, Value

Function = Callable[..., Any]

ANNOTATIONS = __future__.annotations.compiler_flag


def translate(entries: Sequence[Function], single: bool) -> str:
    """The LLVM text of a library: its entries, and all functions that they call.

    Raises:
        NotCompiled: with the function and the line that is outside the language.
    """
    queue, texts, intrinsics = list(entries), [], set[str]()

    def signature(function: Function) -> tuple[str, list[str], str]:
        if function not in queue:
            queue.append(function)
        return function.__name__, *kinds(function)

    for function in queue:  # the loop appends to the list
        written = FunctionWriter(single, function.__globals__, signature)
        texts.append(_function(written, function, function in entries))
        intrinsics |= written.intrinsics
    names = [function.__name__ for function in queue]
    if len(set(names)) < len(names):
        raise NotCompiled("two functions of one name")
    return "\n\n".join([*texts, *sorted(intrinsics)]) + "\n"


def kinds(function: Function) -> tuple[list[str], str]:
    """The kinds of a function's parameters and of its result."""
    *parameters, result = function.__annotations__.values()
    return parameters, result


@cache
def _parsed(function: Function) -> ast.FunctionDef:
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, ValueError):
        tree = ast.Pass()
    if not isinstance(tree, ast.FunctionDef) or not _is_of(tree, function.__code__):
        raise NotCompiled(
            f"the source of {function.__module__}.{function.__name__} has changed since its "
            "import: restart the program"
        )
    return tree


def _is_of(tree: ast.FunctionDef, code: CodeType) -> bool:
    """Whether a source belongs to some code, by its names and constants: it may have been edited or
    moved since the import.
    """
    bare = ast.FunctionDef(
        **{name: getattr(tree, name) for name in tree._fields} | {"decorator_list": []}
    )
    found = compile(
        ast.fix_missing_locations(ast.Module([bare], [])),
        code.co_filename,
        "exec",
        ANNOTATIONS,
        True,
    ).co_consts
    own = next(each for each in found if isinstance(each, CodeType))
    return all(
        getattr(own, part) == getattr(code, part)
        for part in ("co_name", "co_consts", "co_names", "co_varnames")
    )


def _function(written: FunctionWriter, function: Function, outside: bool) -> str:
    tree = _parsed(function)
    parameters, result = kinds(function)
    names = [arg.arg for arg in tree.args.args]
    given = []
    for name, kind in zip(names, parameters, strict=True):
        if kind in ("bool", "Float") and outside:
            other = "an int" if kind == "bool" else "a Double"
            raise NotCompiled(
                f"`{function.__name__}` takes a {kind} from outside: {other} does the same"
            )
        written.store(name, Value(kind, f"%{name}"))
        given.append(f"{written.type_of(kind)} %{name}")
    _Statements(written, result).all(tree.body, function)
    if not written.ended:
        written.leave("ret void" if result == "None" else "unreachable")
    body = "\n".join(["entry:", *written.places, *written.lines])
    linkage = "" if outside else "internal "
    signature = f"{written.type_of(result)} @{function.__name__}({', '.join(given)})"
    head = f"define {linkage}{signature}"
    return f"{head} nounwind{'' if outside else ' noinline'} {{\n{body}\n}}"


class _Statements:
    """Writes the statements of one function."""

    def __init__(self, written: FunctionWriter, result: str) -> None:
        self._to = written
        self._result = result
        self._loops: list[tuple[str, str]] = []

    def all(self, body: Sequence[ast.stmt], function: Function | None = None) -> None:
        """Write some statements; an error names the function."""
        for statement in body:
            if self._to.ended:
                raise NotCompiled(f"`{ast.unparse(statement)}` is never reached")
            if function is None:
                self._one(statement)
                continue
            try:
                self._one(statement)
            except NotCompiled as error:
                raise NotCompiled(
                    f"{function.__module__}.{function.__name__}: {error}: "
                    f"`{ast.unparse(statement)}`"
                ) from None

    def _one(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target]):
                self._assigned(target, node.value)
            case ast.AugAssign():
                old = self._to.value(_read(node.target))
                self._give(
                    node.target,
                    self._to.binary(type(node.op).__name__, old, self._to.value(node.value)),
                )
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Expr(value=ast.Call()):
                self._to.value(node.value)
            case ast.If():
                self._if(node)
            case ast.While(orelse=[]):
                self._write_loop(None, node.test, node.body)
            case ast.For(orelse=[]):
                self._for(node)
            case ast.Break():
                self._to.leave(f"br label %{self._loops[-1][1]}")
            case ast.Continue():
                self._to.leave(f"br label %{self._loops[-1][0]}")
            case ast.Return(value=None):
                self._to.leave("ret void")
            case ast.Return(value=value) if value is not None:
                self._to.leave(
                    f"ret {self._to.typed(self._to.to(self._to.value(value), self._result))}"
                )
            case _:
                raise NotCompiled(f"`{type(node).__name__}`")

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            values = [self._to.value(part) for part in value.elts]
            for part, each in zip(target.elts, values, strict=True):
                self._give(part, each)
            return
        self._give(target, self._to.value(value))

    def _give(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            if value.known is not None and target.id not in self._to.variables:
                value = self._to.to(value, value.kind)
            self._to.store(target.id, value)
            return
        if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
            raise NotCompiled(f"`{ast.unparse(target)} = `")
        where = self._to.value(target.value)
        place = self._to.element_address(where, self._to.value(target.slice))
        value = self._to.to(value, ELEMENTS[where.kind])
        if value.kind == "bool":
            value = Value("bool", self._to.put("int", f"zext i1 {value.text} to i8").text)
            self._to.do(f"store i8 {value.text}, ptr {place}")
        else:
            self._to.do(f"store {self._to.typed(value)}, ptr {place}")

    def _if(self, node: ast.If) -> None:
        test = self._to.value(node.test)
        yes, no, done = self._to.new("then"), self._to.new("else"), self._to.new("end")
        self._to.branch(test, yes, no if node.orelse else done)
        ends, before = not node.orelse, set(self._to.given)
        ways = [before] if ends else []
        for block, body in ((yes, node.body), (no, node.orelse)):
            if body:
                self._to.begin(block)
                self._to.given = set(before)
                self.all(body)
                if not self._to.ended:
                    self._to.leave(f"br label %{done}")
                    ends = True
                    ways.append(self._to.given)
        if ends:
            self._to.begin(done)
            self._to.given = set.intersection(*ways)

    def _for(self, node: ast.For) -> None:
        match node:
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args)
            ):
                ends = [self._to.to(self._to.value(arg), "int") for arg in args[:2]]
            case _:
                raise NotCompiled(f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}")
        first, last = ends if len(ends) == 2 else (Value("int", "0"), ends[0])
        step = self._to.value(args[2]) if len(args) == 3 else Value("int", "1", 1)
        falls = step.known is not None and step.known < 0
        inner = (part for statement in node.body for part in ast.walk(statement))
        if any(
            isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store)
            for part in inner
        ):
            raise NotCompiled(f"`{name}` counts and is assigned")
        self._to.store(name, first)
        self._write_loop((name, last, step, falls), None, node.body)
        self._to.given.discard(name)

    def _write_loop(
        self,
        counted: tuple[str, Value, Value, bool] | None,
        test: ast.expr | None,
        body: Sequence[ast.stmt],
    ) -> None:
        again, inside, on, done = (self._to.new(stem) for stem in ("again", "inside", "on", "done"))
        before = set(self._to.given)
        self._to.begin(again)
        if counted is not None:
            name, last, step, falls = counted
            self._to.branch(
                self._to.ordered("Gt" if falls else "Lt", self._to.value(ast.Name(id=name)), last),
                inside,
                done,
            )
        elif test is not None:
            self._to.branch(self._to.value(test), inside, done)
        self._to.begin(inside)
        self._loops.append((on, done))
        self.all(body)
        self._loops.pop()
        self._to.given = before
        self._to.begin(on)
        if counted is not None:
            self._to.store(
                name,
                self._to.binary("Add", self._to.value(ast.Name(id=name)), self._to.to(step, "int")),
            )
        self._to.leave(f"br label %{again}")
        self._to.begin(done)


def _read(target: ast.expr) -> ast.expr:
    """The same target as an expression to read."""
    return ast.parse(ast.unparse(target), mode="eval").body
