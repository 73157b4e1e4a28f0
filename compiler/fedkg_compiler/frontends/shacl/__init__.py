"""SHACL shapes: bank rows over observed properties, validation over static facts."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedkg_compiler.input_tracking import find, read_bytes

if TYPE_CHECKING:  # `fedkg validate` needs none of the modules that bind rules to tables
    from fedkg_compiler.diagnostics.diagnostic_collector import Problems
    from fedkg_compiler.frontends.fkg.binding.scope import Names, Sources
    from fedkg_compiler.frontends.fkg.syntax.tree import Load, RuleFile
    from fedkg_compiler.frontends.shacl.bind import ShapesBinder
    from fedkg_compiler.frontends.shacl.table_results import ShapeResults
    from fedkg_compiler.ir import Program

MARK = b"http://www.w3.org/ns/shacl#"
"""A file without this text contains no shapes."""


def shape_files(
    files: Sequence[RuleFile], graphs: Sequence[Path], names: Names, problems: Problems
) -> list[Path]:
    """The files that `shapes` statements name, each once and none of `graphs`: they are loaded as
    graphs too.
    """
    from fedkg_compiler.frontends.fkg.syntax.tree import Load

    seen = {path.resolve() for path in graphs}
    found: list[Path] = []
    for load in (
        item
        for file in files
        for item in file.statements
        if isinstance(item, Load) and item.what == "shapes"
    ):
        for path in _named(load, names.folders.get(load.path.span.file, Path()), problems):
            if not holds_shapes(path):
                problems.warning(
                    "FKG315",
                    load.path.span,
                    f"{path.name} contains no shapes",
                    "name a file with a sh:NodeShape or a sh:PropertyShape",
                )
            if path.resolve() not in seen:
                seen.add(path.resolve())
                found.append(path)
    return found


def bind_shapes(
    graphs: Sequence[Path],
    sources: Sources,
    taken: Iterable[str] = (),
    results: ShapeResults | None = None,
) -> tuple[Program, list[ShapesBinder]]:
    """Bind the shapes of all graphs that contain shapes.

    Args:
        taken: the names of other rules.
        results: as for `ShapesBinder`.

    Returns:
        The bound rows, and the binder of each file.
    """
    from fedkg_compiler.ir import Program

    found = Program()
    paths = sorted(
        (path for path in graphs if holds_shapes(path)), key=lambda path: (path.name, str(path))
    )
    if not paths or sources.graph is None:
        return found, []
    from fedkg_compiler.diagnostics.record import Span
    from fedkg_compiler.frontends.shacl.bind import ShapesBinder
    from fedkg_compiler.frontends.shacl.model import read_shapes

    binders: list[ShapesBinder] = []
    with quiet():
        broken = sources.problems.files_with_errors()
        for path in paths:
            if str(path) in broken:
                continue
            try:
                shapes, problems = read_shapes(path)
                if (
                    shapes is not None
                    and shapes.shapes
                    and not any(problem.severity == "error" for problem in problems)
                ):
                    names = {*taken, *(part.rule.name for part in found.rows)}
                    binders.append(ShapesBinder(shapes, sources, names, results))
                    found = found.joined_with(binders[-1].bind())
            except RecursionError:
                start = Span(file=str(path), line=1, column=1, end_line=1, end_column=1)
                message = "the shapes of this file are nested too deeply"
                sources.problems.error(
                    "FKG311", start, message, "give the inner shapes names, and fewer levels"
                )
    return found, binders


@contextmanager
def quiet() -> Iterator[None]:
    """Silence logs and warnings: rdflib logs a traceback for each ill-formed literal, and a shape
    may contain such literals on purpose.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def holds_shapes(path: Path) -> bool:
    """Whether a file mentions SHACL; False for a file that cannot be read."""
    try:
        return MARK in read_bytes(path, name="graph")
    except (OSError, ValueError):
        return False


def may_hold_rules(path: Path) -> bool:
    """Whether a file may have rules (`sh:rule`): it names SHACL and the word `rule`."""
    return holds_shapes(path) and b"rule" in read_bytes(path, name="graph")


def _named(load: Load, folder: Path, problems: Problems) -> Sequence[Path]:
    text = load.path.text
    if any(mark in text for mark in "*?["):
        try:
            found = find(folder, text)
        except (ValueError, NotImplementedError):
            found = ()
        if not found:
            problems.error(
                "FKG317",
                load.path.span,
                f'no file matches "{text}"',
                f"the pattern is relative to the folder of the rule file, {folder.resolve()}",
            )
        return found
    if not (folder / text).is_file():
        problems.error(
            "FKG317",
            load.path.span,
            f'file "{text}" does not exist',
            f"the path is relative to the folder of the rule file, {folder.resolve()}",
        )
        return ()
    return (folder / text,)
