"""Apply certain fixes to rule files. No file has more errors afterwards than before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedkg.limits import read_file
from fedkg_compiler.diagnostics.record import Diagnostic, Fix
from fedkg_compiler.diagnostics.suggested_edits import put_in
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import decode
from fedkg_compiler.input_files import GRAPH_SUFFIXES, instead
from fedkg_compiler.pipeline import compile_rules

MAX_ROUNDS = 20
_ONE_BY_ONE = 40
_AHEAD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedFiles:
    """The result of fixing some rule files; nothing has been written yet.

    Attributes:
        texts: the new text of each changed file, by its path as given.
        before: the old bytes of each changed file, by the same path.
        fixed: the diagnostics of the problems that are fixed, in the order of the fixes.
        diagnostics: the remaining diagnostics of all files.
    """

    texts: dict[Path, str]
    before: dict[Path, bytes]
    fixed: tuple[Diagnostic, ...]
    diagnostics: tuple[Diagnostic, ...]


def apply_fixes(paths: Sequence[Path], graphs: Sequence[Path] = ()) -> FixedFiles:
    """Apply the certain fixes to the texts of rule files until none is left.

    A fix is left out if its file would have more errors than before. Files in encodings
    other than UTF-8 and UTF-16 stay unchanged.
    """
    before = {
        path: read_file(path, name="rules")
        for path in paths
        if path.suffix.lower() not in GRAPH_SUFFIXES
    }
    decoded = {path: decode(body, str(path)) for path, body in before.items()}
    texts = {path: text for path, (text, problems) in decoded.items() if not problems}
    fixing = _Fixing(paths, graphs, dict(texts))
    for _ in range(MAX_ROUNDS):
        if not fixing.round():
            break
    changed = {path: text for path, text in fixing.texts.items() if text != texts[path]}
    return FixedFiles(
        texts=changed,
        before={path: before[path] for path in changed},
        fixed=tuple(fixing.fixed),
        diagnostics=fixing.diagnostics,
    )


class _Fixing:
    """The current texts, their diagnostics, and the applied fixes."""

    def __init__(
        self, paths: Sequence[Path], graphs: Sequence[Path], texts: dict[Path, str]
    ) -> None:
        self.paths, self.graphs, self.texts = paths, graphs, texts
        self.fixed: list[Diagnostic] = []
        self.refused: set[Fix] = set()
        self.diagnostics = self._look(texts)

    def round(self) -> bool:
        """Apply the current fixes that add no errors; return whether any was applied."""
        wanted = [
            item
            for item in self.diagnostics
            if item.fix is not None and item.fix not in self.refused
        ]
        if self._try(wanted):
            return True
        taken = False
        for item in wanted[:_ONE_BY_ONE] if len(wanted) > 1 else ():
            still = next(
                (now for now in self.diagnostics if now.code == item.code and now.fix == item.fix),
                None,
            )
            taken = (still is not None and self._try([still])) or taken
        self.refused = (
            set() if taken else {item.fix for item in wanted if item.fix is not None}
        )  # what did harm may do none now
        return taken

    def _try(self, wanted: Sequence[Diagnostic]) -> bool:
        """Put fixes in where no file has more errors afterwards, with the fixes of what then shows;
        whether anything changed.
        """
        was = _errors(self.diagnostics)
        texts, done = dict(self.texts), list[Diagnostic]()
        for _ in range(_AHEAD):
            before = dict(texts)
            for path, text in before.items():
                here = {
                    item.fix: item
                    for item in wanted
                    if item.span.file == str(path) and item.fix is not None
                }
                texts[path], put = put_in(text, here)
                done += [here[fix] for fix in put]
            if texts == before:
                return False
            diagnostics = self._look(texts)
            now = _errors(diagnostics)
            if all(now[file] <= was[file] for file in now):
                self.texts, self.diagnostics = texts, diagnostics
                self.fixed += done
                return True
            wanted = [
                item
                for item in diagnostics
                if item.fix is not None and item.fix not in self.refused
            ]
        return False

    def _look(self, texts: Mapping[Path, str]) -> tuple[Diagnostic, ...]:
        with _standing_in(texts):
            return compile_rules(
                self.paths, graphs=self.graphs, check_only=True, reason=False
            ).diagnostics


@contextmanager
def _standing_in(texts: Mapping[Path, str]) -> Iterator[None]:
    with instead({path: text.encode("utf-8") for path, text in texts.items()}):
        yield


def _errors(diagnostics: Sequence[Diagnostic]) -> Counter[str]:
    return Counter(item.span.file for item in diagnostics if item.severity == "error")
