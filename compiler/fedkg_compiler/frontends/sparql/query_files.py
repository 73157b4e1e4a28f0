"""Finds and reads query files, and what their leading comments say."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedkg._internal.name_matching import did_you_mean
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.fkg.syntax import KINDS
from fedkg_compiler.frontends.fkg.syntax.tree import Load
from fedkg_compiler.graph.diagnostic_spans import point
from fedkg_compiler.graph.sparql_syntax.query_form_and_constants import Reader
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText
from fedkg_compiler.input_files import find, read_bytes

_OPTION = re.compile(r"(title|kind|weight|hard|soft)\b\s*:?\s*(.*)", re.IGNORECASE)


def read_queries(loads: Sequence[Load], sources: Sources) -> list[QueryText]:
    """All queries that `queries` statements name, each once, sorted by file name; what cannot be
    read has been said.
    """
    paths: dict[tuple[Path, str], Path] = {}
    real = _Real()
    for load in loads:
        for path in _named(load, sources):
            paths.setdefault(real.path(path), path)
    reader = Reader({} if sources.graph is None else sources.graph.vocabulary.prefixes)
    taken = {file_rule.rule.name.text for file_rule in sources.names.rules}
    found: list[QueryText] = []
    for path in sorted(paths.values(), key=lambda item: (item.name, str(item))):
        query = _read(path, reader, taken, sources.problems)
        if query is not None:
            found.append(query)
    return found


class _Real:
    """Paths without symbolic links, each folder asked for once."""

    def __init__(self) -> None:
        self.folders: dict[Path, Path] = {}

    def path(self, path: Path) -> tuple[Path, str]:
        """Folder and name of the file behind a path."""
        if path.is_symlink():
            path = path.resolve()
        folder = path.parent
        if folder not in self.folders:
            self.folders[folder] = folder.resolve()
        return self.folders[folder], path.name


def _named(load: Load, sources: Sources) -> Sequence[Path]:
    folder, text = sources.names.folders.get(load.path.span.file, Path()), load.path.text
    if any(mark in text for mark in "*?[") and text != load.path.span.file:
        try:
            found = find(folder, text)
        except (ValueError, NotImplementedError):
            found = ()
        if not found:
            sources.problems.error(
                "FKG340",
                load.path.span,
                f'no file matches "{text}"',
                f"the pattern is relative to the folder of the rule file, {folder.resolve()}",
            )
        return found
    path = folder / text
    try:
        there = path.is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        message = f'file "{text}" does not exist'
        advice = f"the path is relative to the folder of the rule file, {folder.resolve()}"
        if path.is_dir():
            message = f'"{text}" is a folder, not a file'
            advice = f'name its files: queries "{text.rstrip("/")}/*.rq"'
        sources.problems.error("FKG340", load.path.span, message, advice)
        return ()
    return (path,)


def _free(name: str, taken: set[str]) -> str:
    """A name that no rule has yet."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free


def _read(path: Path, reader: Reader, taken: set[str], problems: Problems) -> QueryText | None:
    file = str(path)
    try:
        body = read_bytes(path, name="rules")
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.error(
            "FKG340",
            point(file),
            f"{file} is not UTF-8 text: the byte at position {error.start} is not valid",
            "save it as UTF-8",
        )
        return None
    except (OSError, ValueError) as error:
        problems.error(
            "FKG340",
            point(file),
            f"cannot read {file}: {getattr(error, 'strerror', None) or error}",
            "check the path, and that you may read the file",
        )
        return None
    options = _options(text, file, problems)
    return replace(
        reader.read(text),
        file=file,
        name=_free(rule_name(path.stem), taken),
        title=options.title,
        kind=options.kind,
        weight=options.weight,
        hard=options.hard,
        sha256=hashlib.sha256(body).hexdigest(),
    )


def rule_name(stem: str) -> str:
    """A file's name as the name of a rule: letters, digits and ``_``."""
    name = re.sub(r"\W+", "_", stem).strip("_") or "query"
    return f"q_{name}" if name[0].isdigit() else name


@dataclass(slots=True)
class _Options:
    """What the leading comments of a query say of its rule."""

    title: str = ""
    kind: str = "other"
    weight: float = 1.0
    hard: bool = False


def _options(text: str, file: str, problems: Problems) -> _Options:
    """What the leading comments say; the first other comment line is the title where none is
    given.
    """
    found, first = _Options(), ""
    start, number = 0, 0
    while start < len(text):
        number += 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line, start = text[start:end], end + 1
        stripped = line.strip()
        if not stripped.startswith("#"):
            if stripped:
                break
            continue
        said = stripped.lstrip("#").strip()
        option = _OPTION.fullmatch(said)
        word, value = (option.group(1).lower(), option.group(2).strip()) if option else ("", "")
        if word == "title" and value:
            found.title = value
        elif word == "kind" and value in KINDS:
            found.kind = value
        elif word == "weight" and (weight := _weight(value)) is not None:
            found.weight = weight
        elif word in ("hard", "soft") and not value:
            found.hard = word == "hard"
        elif word and said[len(word) :].lstrip().startswith(":"):
            place = point(file, number, line.find("#") + 1, width=len(stripped))
            problems.warning(
                "FKG349", place, f"`{said}` is not a valid setting of the rule", _advice(word)
            )
        elif not word and (advice := _misspelt(said)):
            key = re.split(r"\W", said, maxsplit=1)[0]
            place = point(file, number, line.find(key) + 1, width=len(key))
            problems.warning("FKG349", place, f"`{key}` is not a known setting of the rule", advice)
        elif said and not first:
            first = said
    found.title = found.title or first
    return found


def _misspelt(said: str) -> str:
    """``did you mean `kind`?`` for a comment that begins with a misspelt option: a word before a
    colon, or one alone; "" for any other.
    """
    word, colon, _ = said.partition(":")
    options = ("hard", "kind", "soft", "title", "weight") if colon else ("hard", "soft")
    slips = [option for option in options if _is_slip(word.strip().casefold(), option)]
    return did_you_mean(word.strip(), slips) if re.fullmatch(r"\w+\s*", word) else ""


def _is_slip(word: str, option: str) -> bool:
    """Whether letters are exchanged, or one is missing or too many.

    One in the place of another makes another word: `height`, `card`.
    """
    one, other = Counter(word), Counter(option)
    return ((one - other) + (other - one)).total() <= 1


def _weight(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def _advice(word: str) -> str:
    return {
        "kind": f"a kind is one of {', '.join(sorted(KINDS))}",
        "weight": "a weight is a number above 0: # weight: 2",
        "title": "write the title: # title: TEXT",
    }.get(word, f"write the word alone: # {word}")
