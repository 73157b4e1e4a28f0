"""The rule library: the files below `rules/` that ``use rules isa95.capacity`` takes into a
compilation.

A file is named by its area (the folder) and its own name; a whole area by its name alone. Its rules
keep the name that they have in the
file, behind those of area and file: ``isa95.capacity.within_capacity``. Its examples are run where
the file is compiled itself, with the
graph that lies beside it: on another plant's graph their numbers mean nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fedkg._internal.name_matching import Suggestion, did_you_mean
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.frontends.fkg.binding.scope import Names
from fedkg_compiler.frontends.fkg.syntax import RuleFile, parse_bytes
from fedkg_compiler.frontends.fkg.syntax.tree import Example, Rule, Statement, Use, Word
from fedkg_compiler.input_files import LIBRARY, data_folder, find, read_bytes
from fedkg_compiler.ir import Program

STORIES = "examples"
"""The folder with complete rule files of the docs; they declare signals and cannot be reused."""

QUIET = ("FKG112", "FKG173", "FKG174", "FKG233", "FKG276", "FKG313", "FKG318", "FKG505", "FKG511")
"""Diagnostics for authors of library rules; users of the library do not see them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryFile:
    """A file of the library as read: its rules renamed, its examples left out.

    Attributes:
        tree: the statements of the file.
        name: the path inside the library, such as ``rules/isa95/capacity.fkg``; the spans of the
            file name it too.
        sha256: checksum of the file.
        folder: the folder of the file.
        asked: the word after `use rules` that asks for the file.
    """

    tree: RuleFile
    name: str
    sha256: str
    folder: Path
    asked: Word


def library_files(
    files: Sequence[RuleFile], taken: Iterable[Path], problems: Problems
) -> list[LibraryFile]:
    """The files that `use rules` asks for in `files`, and in each other; each once, and none that
    is compiled anyway.

    Args:
        taken: paths of the files that are compiled anyway.
    """
    wanted = [word for file in files for word in _used_names(file)]
    if not wanted:
        return []
    root = data_folder(LIBRARY)
    shelf = _local_catalog(root)
    seen = {path.resolve() for path in taken}
    found = []
    while wanted:
        word = wanted.pop(0)
        for name in _named(word, shelf, problems):
            path = root / shelf[name]
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            body = read_bytes(path)
            shown = f"{LIBRARY}/{shelf[name]}"
            tree, said = parse_bytes(body, shown)
            problems.add(said)
            wanted += [replace(inner, span=word.span) for inner in _used_names(tree)]
            digest = hashlib.sha256(body).hexdigest()
            found.append(
                LibraryFile(
                    tree=_renamed(tree, name),
                    name=shown,
                    sha256=digest,
                    folder=path.parent,
                    asked=word,
                )
            )
    return found


def library_names() -> tuple[str, ...]:
    """Return the names that `use rules` accepts, without areas: ``isa95.capacity``, sorted."""
    return tuple(_local_catalog(data_folder(LIBRARY)))


def home_of(name: str, what: Literal["rule", "template"]) -> str | None:
    """Return the file with a rule or template of a name, as for `use rules`; None if missing."""
    root = data_folder(LIBRARY)
    statement = re.compile(rf"^{what}\s+{re.escape(name)}\b", re.MULTILINE)
    return next(
        (
            file
            for file, path in _local_catalog(root).items()
            if statement.search(read_bytes(root / path).decode())
        ),
        None,
    )


def settle_library(names: Names, program: Program, problems: Problems) -> None:
    """Drop the diagnostics that a user cannot correct, and report once for each `use rules` which
    rules match nothing in this graph. Call it after all rules are bound.
    """
    shapes = {
        str(names.folders[load.path.span.file] / load.path.text)
        for load in names.loads
        if load.path.span.file in names.library
    }
    problems.withdraw(QUIET, {*names.library, *shapes})
    bound = {part.rule.name for part in program.rows}
    unfit: dict[Word, list[str]] = {}
    for file, word in names.library.items():
        mine = [rule.rule.name.text for rule in names.rules if rule.file.file == file]
        lost = [name for name in mine if name not in bound]
        whole = ".".join(Path(file).with_suffix("").parts[1:])
        if lost and len(lost) == len(mine):
            unfit.setdefault(word, []).append(whole)
        elif lost and word.text == whole:
            unfit.setdefault(word, []).extend(lost)
    if names.graph_broken:
        return
    for word, missing in unfit.items():
        area, file, *rule = missing[0].split(".")
        what = "the rules of" if not rule else "the rules" if len(missing) > 1 else "the rule"
        message = f"nothing in this graph fits {what} {_listed([f'`{name}`' for name in missing])}"
        advice = f"{LIBRARY}/{area}/{file}.fkg lists at its top what the graph must contain"
        if not rule and len(missing) > 1:
            advice += "; so does the file of each of the others"
        problems.info("FKG541", word.span, message, advice)


def audible(said: Iterable[Diagnostic], names: Names) -> list[Diagnostic]:
    """Return the diagnostics of the rules together, without notes on library rules."""
    return [
        item
        for item in said
        if item.span.file not in names.library
        or (item.severity != "info" and item.code not in QUIET)
    ]


def _used_names(file: RuleFile) -> list[Word]:
    return [
        word
        for statement in file.statements
        if isinstance(statement, Use) and statement.rules
        for word in statement.names
    ]


def _local_catalog(root: Path) -> dict[str, str]:
    """The path below the library's folder of every file, by its name."""
    paths = [path.relative_to(root) for path in find(root, "*/*.fkg")]
    return {
        f"{path.parent.name}.{path.stem}": path.as_posix()
        for path in paths
        if path.parent.name != STORIES
    }


def _named(word: Word, shelf: dict[str, str], problems: Problems) -> list[str]:
    """Return the files of a name; report a problem and return [] if there are none."""
    if word.text in shelf:
        return [word.text]
    area, _, rest = word.text.partition(".")
    within = [name for name in shelf if name.startswith(f"{area}.")]
    if within and not rest:
        return within
    areas = list(dict.fromkeys(name.partition(".")[0] for name in shelf))
    file = word.text.rpartition(".")[0]
    if file in shelf:
        problems.error(
            "FKG540",
            word.span,
            f"the library has no file `{word.text}`: `use rules` includes whole files",
            f"did you mean `{file}`?",
        )
        return []
    listed = f"there are {', '.join(within)}" if within else f"its areas are {', '.join(areas)}"
    advice = did_you_mean(word.text, [*shelf, *areas], listed)
    if isinstance(advice, Suggestion):
        advice = Suggestion(f"{advice} ({listed})", advice.wrong, advice.right)
    elif advice != listed:
        advice = f"{advice} ({listed})"
    problems.error("FKG540", word.span, f"the rule library has no `{word.text}`", advice)
    return []


def _renamed(tree: RuleFile, name: str) -> RuleFile:
    """The file as others use it."""

    def renamed(statement: Statement) -> Statement:
        if not isinstance(statement, Rule):
            return statement
        return replace(
            statement, name=replace(statement.name, text=f"{name}.{statement.name.text}")
        )

    return replace(
        tree,
        statements=tuple(
            renamed(statement)
            for statement in tree.statements
            if not isinstance(statement, Example)
        ),
    )


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
