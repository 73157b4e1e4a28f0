"""SHACL shapes: bank rows over observed properties (`bind`), validation over static facts
(`validation`). Here: the files that `shapes` statements name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedkg_compiler.input_files import find, holds_shapes

if TYPE_CHECKING:  # `fedkg validate` needs none of the modules that bind rules to tables
    from fedkg_compiler.diagnostics.diagnostic_collector import Problems
    from fedkg_compiler.frontends.fkg.binding.scope import Names
    from fedkg_compiler.frontends.fkg.syntax.tree import Load, RuleFile


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
        message = f'file "{text}" does not exist'
        advice = f"the path is relative to the folder of the rule file, {folder.resolve()}"
        if (folder / text).is_dir():
            message = f'"{text}" is a folder, not a file'
            advice = f'name its files: shapes "{text.rstrip("/")}/*.ttl"'
        problems.error("FKG317", load.path.span, message, advice)
        return ()
    return (folder / text,)
