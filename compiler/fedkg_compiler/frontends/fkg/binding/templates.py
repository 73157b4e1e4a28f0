"""Templates: a condition with parameters, written in the place of each `follows`, on the syntax
tree.

An argument keeps its own place, so that its problems are reported at the call; everything else has
its place in the template and
remembers the call (`TemplateSpan`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedkg._internal.name_matching import did_you_mean
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.diagnostics.template_span import TemplateSpan
from fedkg_compiler.frontends.fkg.binding.functions import FUNCTIONS
from fedkg_compiler.frontends.fkg.binding.library import home_of
from fedkg_compiler.frontends.fkg.binding.scope import Names
from fedkg_compiler.frontends.fkg.binding.signal_columns import trees_in
from fedkg_compiler.frontends.fkg.syntax.parser import MAX_NESTING, MAX_TERMS
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Apply,
    Condition,
    Expression,
    Follows,
    Head,
    IsClass,
    Membership,
    Monotone,
    Quantity,
    Reference,
    Template,
    Tree,
    Variable,
    Window,
    Word,
)

ENDLESS = frozenset({"end", "inf", "infinity"})
"""How the end of a window says that there is none."""

LARGEST = 20_000
"""A condition with more nodes than this, its templates written out, is refused."""


DEEPEST = MAX_NESTING + MAX_TERMS
"""So is one that is nested deeper."""


class _TooLarge(Exception):
    """The condition grows without measure."""


@dataclass(frozen=True, slots=True)
class _Use:
    """One call: the template, the call's place, the arguments by parameter, which were rewritten
    already.
    """

    template: Template
    span: Span
    arguments: Mapping[str, Expression]


@dataclass(slots=True)
class _Writer:
    """Writes templates out; `nodes` are those written so far."""

    names: Names
    problems: Problems
    nodes: int = 0
    failed: bool = False

    def tree(
        self, node: Any, use: _Use | None, depth: int
    ) -> Any:  # Any: a node, a tuple of them, or a plain value, and the same back
        """The node with parameters replaced by arguments, and with each `follows` replaced by its
        condition.
        """
        if isinstance(node, tuple):
            return tuple(self.tree(item, use, depth) for item in node)
        if not isinstance(node, Tree):
            return node
        self.nodes += 1
        if self.nodes > LARGEST or depth > DEEPEST:
            raise _TooLarge
        match node:
            case Follows():
                return self._follows(node, use, depth)
            case Reference(name=name, quoted=False) if use is not None and name in use.arguments:
                return replace(use.arguments[name])
            case Window(high=Reference(name=name, quoted=False, span=span)) if self._is_no_end(
                name, use
            ):
                node = replace(node, high=Quantity(span=span, value=math.inf))
            case _:
                pass
        if use is not None:
            node = self._replace_names(node, use)
        changed = {
            name: self.tree(getattr(node, name), use, depth + 1)
            for name in node.__dataclass_fields__
            if name != "span"
        }
        span = node.span if use is None else _placed(node.span, use)
        return replace(node, span=span, **changed)

    def _is_no_end(self, name: str, use: _Use | None) -> bool:
        given = use is not None and name in use.arguments
        return name.casefold() in ENDLESS and not given and name not in self.names.signals

    def _follows(self, node: Follows, use: _Use | None, depth: int) -> Tree:
        """Return the condition of a template with its parameters replaced.

        Reports a problem and returns the node itself if the call is invalid.
        """
        call = node.call
        span = call.span if use is None else _placed(call.span, use)
        name = call.name.text
        template = self.names.templates.get(name)
        args = tuple(self.tree(arg, use, depth + 1) for arg in call.args)
        named = tuple((word, self.tree(arg, use, depth + 1)) for word, arg in call.named)
        if template is None:
            self.failed = True
            _complain_of_unknown(name, call.name.span, self.names, self.problems)
            return node
        arguments = self._arguments(template, args, named, span)
        if arguments is None or name in self.names.broken_templates:
            self.failed = True
            return node
        written: Tree = self.tree(template.formula, _Use(template, span, arguments), depth + 1)
        return written

    def _arguments(
        self,
        template: Template,
        args: Sequence[Expression],
        named: Sequence[tuple[Word, Expression]],
        span: Span,
    ) -> dict[str, Expression] | None:
        parameters = list(dict.fromkeys(word.text for word in template.parameters))
        given = dict(zip(parameters, args, strict=False))
        shown = f"{template.name.text}({', '.join(parameters)})"
        declared = (Related(span=template.name.span, message="declared here"),)
        for word, arg in named:
            if word.text not in parameters or word.text in given:
                said = (
                    "is given twice"
                    if word.text in given
                    else f"is not a parameter of `{template.name.text}`"
                )
                near = (
                    "keep one of the two"
                    if word.text in given
                    else did_you_mean(word.text, parameters, f"write {shown}")
                )
                self.problems.error("FKG266", word.span, f"`{word.text}` {said}", near, declared)
                return None
            given[word.text] = arg
        if len(args) > len(parameters) or len(given) < len(parameters):
            count = len(args) + len(named)
            takes = "one argument" if len(parameters) == 1 else f"{len(parameters)} arguments"
            message = f"the template `{template.name.text}` takes {takes}, and has {count}"
            self.problems.error("FKG266", span, message, f"write {shown}", declared)
            return None
        return given

    def _replace_names(self, node: Tree, use: _Use) -> Tree:
        """The node with the names in it that are parameters and that only a name can replace:
        classes, heads, signals of entities.
        """
        match node:
            case IsClass(form="name", value=word) if word.text in use.arguments:
                return self._class(node, word, use)
            case Membership():
                return replace(
                    node,
                    values=tuple(
                        self._name(word, use, "a class is a name: A") or word
                        for word in node.values
                    ),
                )
            case Monotone(feature=head, group=group):
                return replace(
                    node,
                    feature=head if head is None else self._head(head, use),
                    group=(
                        group
                        if group is None
                        else self._name(group, use, "write the name of a column") or group
                    ),
                )
            case Apply(name=word) if word.text in use.arguments:
                return replace(
                    node,
                    name=self._name(word, use, "write the name of a signal of each entity") or word,
                )
            case _:
                return node

    def _class(self, node: IsClass, word: Word, use: _Use) -> IsClass:
        arg = use.arguments[word.text]
        if isinstance(arg, Variable):
            return replace(node, value=Word(span=arg.span, text=arg.name), form="variable")
        value = self._name(word, use, "a class is a name: A")
        return node if value is None else replace(node, value=value, form="name")

    def _head(self, head: Head, use: _Use) -> Head:
        arg = use.arguments.get(head.name.text)
        match arg:
            case None:
                return head
            case Apply(name=name, args=(Variable(name=variable, span=span),), named=()) if (
                head.variable is None
            ):
                return Head(span=arg.span, name=name, variable=Word(span=span, text=variable))
            case _:
                word = self._name(head.name, use, "write the name of a signal")
                return (
                    head
                    if word is None
                    else replace(head, name=word, quoted=isinstance(arg, Reference) and arg.quoted)
                )

    def _name(self, word: Word, use: _Use, advice: str) -> Word | None:
        """Return the name that replaces a parameter; None if it is not a name or not a
        parameter.
        """
        arg = use.arguments.get(word.text)
        if arg is None:
            return None
        if isinstance(arg, Reference):
            return Word(span=arg.span, text=arg.name)
        self.failed = True
        related = (Related(span=_placed(word.span, use), message="it is used here"),)
        self.problems.error(
            "FKG270", arg.span, f"the argument for `{word.text}` must be a name", advice, related
        )
        return None


def _placed(span: Span, use: _Use) -> Span:
    """A place in the template, in one use of it; an argument's own place stays."""
    if isinstance(span, TemplateSpan) or not _within(span, use.template.span):
        return span
    return TemplateSpan(
        file=span.file,
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        used=use.span,
        template=use.template.name.text,
    )


def _within(inner: Span, outer: Span) -> bool:
    starts = (outer.line, outer.column) <= (inner.line, inner.column)
    return (
        inner.file == outer.file
        and starts
        and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
    )


def expand(formula: Condition, names: Names, problems: Problems) -> Condition | None:
    """The condition with every `follows` replaced by what its template says; None where a call is
    wrong, which has been said.
    """
    writer = _Writer(names, problems)
    try:
        written: Condition = writer.tree(formula, None, 0)
        _measure(written)
    except _TooLarge:
        message = "this condition is too large when its templates are written out"
        problems.error(
            "FKG261",
            formula.span,
            message,
            "use fewer templates inside each other, or split the rule",
        )
        return None
    return None if writer.failed else written


def _measure(tree: Tree) -> None:
    """Raise _TooLarge if a tree has too many nodes, counting repeated arguments, or is too deep."""
    waiting, nodes = [(tree, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        if nodes > LARGEST or depth > DEEPEST:
            raise _TooLarge
        waiting.extend((part, depth + 1) for part in node.parts())


def call_template(call: Apply, names: Names, problems: Problems) -> Condition | None:
    """Return the condition of ``template(arguments)``."""
    return expand(Follows(span=call.span, call=call), names, problems)


def check_templates(names: Names, problems: Problems) -> None:
    """When everything is declared: complain of templates that lead back to themselves, and of
    parameters that hide a name or do nothing.
    """
    for template in names.templates.values():
        used = {text for node in trees_in(template.formula) for text in _texts(node)}
        for word in template.parameters:
            if word.span.file not in names.library and (
                word.text in names.signals or word.text in names.labels
            ):
                declared = (
                    names.signals[word.text].place
                    if word.text in names.signals
                    else names.labels[word.text].place
                )
                related = (Related(span=declared, message="declared here"),)
                what = "signal" if word.text in names.signals else "label"
                message = (
                    f"inside `{template.name.text}`, `{word.text}` is the parameter and not the"
                    f" {what}"
                )
                problems.info(
                    "FKG268",
                    word.span,
                    message,
                    f"rename the parameter if you mean the {what}",
                    related,
                )
            if word.text not in used:
                message = f"the parameter `{word.text}` is not used"
                problems.warning(
                    "FKG269", word.span, message, "use it in the condition, or remove it"
                )
        for node in trees_in(template.formula):
            if isinstance(node, Follows) and node.call.name.text not in names.templates:
                _complain_of_unknown(node.call.name.text, node.call.name.span, names, problems)
    _complain_of_cycles(names, problems)


def _complain_of_unknown(name: str, span: Span, names: Names, problems: Problems) -> None:
    if name not in names.broken_templates:
        home = home_of(name, "template")
        near = (
            did_you_mean(name, names.templates, f"declare it: template {name}(x) = ...")
            if home is None
            else f"write: use rules {home}"
        )
        if (whole := home_of(name, "rule")) is not None:
            near = f"it is a rule of the library, not a template; include it: use rules {whole}"
        if name in FUNCTIONS:
            values = "x, y" if FUNCTIONS[name][1] > 1 else "x"
            near = (
                f"it is a function; declare a condition that uses it: template NAME({values}, high)"
                f" = {name}({values}) <= high"
            )
        problems.error("FKG265", span, f"template `{name}` does not exist", near)


def _texts(node: Tree) -> tuple[str, ...]:
    match node:
        case Reference(name=name):
            return (name,)
        case Word(text=text):
            return (text,)
        case _:
            return ()


def _complain_of_cycles(names: Names, problems: Problems) -> None:
    calls = {
        name: [node.call for node in trees_in(template.formula) if isinstance(node, Follows)]
        for name, template in names.templates.items()
    }
    done: set[str] = set()
    for start in names.templates:
        path = _cycle(start, calls)
        if path and not done & set(path):
            done.update(path)
            shown = " -> ".join(f"`{name}`" for name in path)
            span = next(call.name.span for call in calls[path[0]] if call.name.text == path[1])
            problems.error(
                "FKG267",
                span,
                f"the template `{path[0]}` uses itself: {shown}",
                "remove one `follows` from this circle",
            )
    names.broken_templates |= {name for name in names.templates if _reaches(name, done, calls)}


def _cycle(start: str, calls: Mapping[str, Sequence[Apply]]) -> list[str]:
    """The shortest way from a template back to itself, both ends included; [] where there is
    none.
    """
    waiting, seen = [[start]], {start}
    while waiting:
        path = waiting.pop(0)
        for call in calls.get(path[-1], ()):
            if call.name.text == start:
                return [*path, start]
            if call.name.text not in seen:
                seen.add(call.name.text)
                waiting.append([*path, call.name.text])
    return []


def _reaches(name: str, goals: set[str], calls: Mapping[str, Sequence[Apply]]) -> bool:
    waiting, seen = [name], {name}
    while waiting:
        current = waiting.pop()
        if current in goals:
            return True
        new = [call.name.text for call in calls.get(current, ()) if call.name.text not in seen]
        seen.update(new)
        waiting.extend(new)
    return False
