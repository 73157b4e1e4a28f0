"""Finds and reads query files, and what their leading comments say."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedkg_compiler.binding.places import Sources
from fedkg_compiler.binding.problems import Problems
from fedkg_compiler.inputs import find, read_bytes
from fedkg_compiler.ontology.places import point
from fedkg_compiler.sparql.shape import QueryText, read_words
from fedkg_compiler.syntax import KINDS
from fedkg_compiler.syntax.tree import Load

_OPTION = re.compile(r"(title|kind|weight|hard|soft)\b\s*:?\s*(.*)", re.IGNORECASE)


def read_queries(loads: Sequence[Load], sources: Sources) -> list[QueryText]:
    """All queries that `queries` statements name, each once, sorted by file name; what cannot be read has been said."""
    paths: dict[Path, Path] = {}
    for load in loads:
        for path in _named(load, sources):
            paths.setdefault(path.resolve(), path)
    prefixes = {} if sources.graph is None else sources.graph.vocabulary.prefixes
    taken = {file_rule.rule.name.text for file_rule in sources.names.rules}
    found: list[QueryText] = []
    for path in sorted(paths.values(), key=lambda item: (item.name, str(item))):
        query = _read(path, prefixes, sources.problems)
        if query is not None:
            found.append(replace(query, name=_free(query.name, taken)))
    return found


def _named(load: Load, sources: Sources) -> Sequence[Path]:
    folder, text = sources.names.folders.get(load.path.span.file, Path()), load.path.text
    if any(mark in text for mark in "*?[") and text != load.path.span.file:
        try:
            found = find(folder, text)
        except (ValueError, NotImplementedError):
            found = ()
        if not found:
            sources.problems.error("FKG340", load.path.span, f'"{text}" names no file', f"it is looked for in {folder}")
        return found
    path = folder / text
    try:
        there = path.is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        sources.problems.error("FKG340", load.path.span, f'there is no file "{text}"', f"it is looked for in {folder}")
        return ()
    return (path,)


def _free(name: str, taken: set[str]) -> str:
    """A name that no rule has yet."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free


def _read(path: Path, prefixes: Mapping[str, str], problems: Problems) -> QueryText | None:
    try:
        body = read_bytes(path)
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.error("FKG340", point(str(path)), f"{path.name} is not UTF-8 text: byte {error.start} is wrong", "save it as UTF-8")
        return None
    except (OSError, ValueError) as error:
        problems.error("FKG340", point(str(path)), f"cannot read {path.name}: {getattr(error, 'strerror', None) or error}")
        return None
    words, known, base, shape = read_words(text, prefixes)
    query = QueryText(
        file=str(path),
        text=text,
        words=words,
        prefixes=known,
        base=base,
        shape=shape,
        name=rule_name(path.stem),
        sha256=hashlib.sha256(body).hexdigest(),
    )
    return _with_options(query, problems)


def rule_name(stem: str) -> str:
    """A file's name as the name of a rule: letters, digits and ``_``."""
    name = re.sub(r"\W+", "_", stem).strip("_") or "query"
    return f"q_{name}" if name[0].isdigit() else name


def _with_options(query: QueryText, problems: Problems) -> QueryText:
    """The query with what its leading comments say; the first other comment line is the title where none is given."""
    title, first = "", ""
    kind, weight, hard = query.kind, query.weight, query.hard
    for number, line in enumerate(query.text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            break
        said = stripped.lstrip("#").strip()
        option = _OPTION.fullmatch(said)
        word, value = (option.group(1).lower(), option.group(2).strip()) if option else ("", "")
        place = point(query.file, number, line.find("#") + 1, width=len(stripped)) if stripped else point(query.file, number)
        if word == "title" and value:
            title = value
        elif word == "kind" and value in KINDS:
            kind = value
        elif word == "weight" and (told := _weight(value)) is not None:
            weight = told
        elif word in ("hard", "soft") and not value:
            hard = word == "hard"
        elif word and said[len(word) :].lstrip().startswith(":"):
            problems.warning("FKG349", place, f"`{said}` says nothing about the rule", _advice(word))
        elif said and not first:
            first = said
    return replace(query, title=title or first, kind=kind, weight=weight, hard=hard)


def _weight(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def _advice(word: str) -> str:
    return {"kind": f"a kind is one of {', '.join(sorted(KINDS))}", "weight": "a weight is a number above 0: # weight: 2"}.get(
        word, "write it alone: # hard"
    )
