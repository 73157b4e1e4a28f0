"""All that reasoning has to say of a compilation, as diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedkg.pack import Pack
from fedkg_compiler.analysis.coverage import uncovered
from fedkg_compiler.analysis.run import reason
from fedkg_compiler.analysis.verdict_diagnostics import diagnostics_of
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.fkg.binding.signal_columns import Sources
from fedkg_compiler.frontends.fkg.binding.symbol_table import Names
from fedkg_compiler.waivers import Waivers

MOST = 40
"""At most this number of findings of one code is reported."""


def reason_about(
    pack: Pack,
    names: Names,
    sources: Sources,
    files: Sequence[Path],
    others: Mapping[str, Span],
    waivers: Waivers,
) -> list[Diagnostic]:
    """Warnings and notes on what the rules mean together, and on what they leave out.

    Args:
        pack: the compiled rules.
        names: the declarations of the rule files.
        sources: the graph and the columns that the rules refer to.
        files: the files with shapes, to name the file of a rule that is not in a rule file.
        others: the locations of rules from queries, by name.
        waivers: the warnings that rules allow.
    """
    places = dict(others) | {entry.rule.name.text: entry.rule.name.span for entry in names.rules}
    paths = {path.name: str(path) for path in files}
    for record in pack.manifest.rules:
        if record.name not in places and record.file:
            line = max(1, record.line)
            places[record.name] = Span(
                file=paths.get(record.file, record.file),
                line=line,
                column=1,
                end_line=line,
                end_column=2,
            )
    return [
        *_the_first(waivers.reported(diagnostics_of(pack, reason(pack, witnesses=False), places))),
        *waivers.reported(uncovered(pack, names, sources)),
    ]


def _the_first(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings, of each code no more than people read.

    The last of those says how many there are besides.
    """
    kept: list[Diagnostic] = []
    for code in dict.fromkeys(item.code for item in found):
        alike = [item for item in found if item.code == code]
        kept += alike[:MOST]
        if len(alike) > MOST:
            rest = f"; so it is with {len(alike) - MOST} more"
            kept[-1] = replace(kept[-1], message=kept[-1].message + rest)
    return kept
