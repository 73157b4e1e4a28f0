"""The severities of diagnostic codes; a code without an entry is always an error."""

from __future__ import annotations

from fedkg_compiler.diagnostics.record import Severity

_GROUPS: tuple[tuple[tuple[Severity, ...], str], ...] = (
    (("error", "info"), "FKG241 FKG541"),
    (("error", "warning"), "FKG008 FKG103 FKG112 FKG173 FKG231 FKG238 FKG269 FKG312"),
    (("error", "warning", "info"), "FKG310 FKG542"),
    (
        ("warning",),
        (
            "FKG109 FKG115 FKG119 FKG120 FKG121 FKG125 FKG128 FKG129 FKG144 FKG219 FKG222 FKG239 "
            "FKG245 FKG254 FKG272 FKG276 FKG277 FKG313 FKG315 FKG318 FKG319 FKG321 FKG322 FKG323 "
            "FKG324 FKG325 FKG326 FKG348 FKG349 FKG350 FKG355 FKG356 FKG379 FKG380 FKG500 "
            "FKG501 FKG502 FKG505 FKG506"
        ),
    ),
    (("warning", "info"), "FKG104 FKG105 FKG218 FKG242 FKG292 FKG295 FKG503 FKG504"),
    (
        ("info",),
        (
            "FKG117 FKG174 FKG217 FKG233 FKG243 FKG260 FKG263 FKG268 FKG280 FKG287 "
            "FKG345 FKG357 FKG359 FKG381 FKG507 FKG510 FKG511"
        ),
    ),
)

_SEVERITIES = {code: severities for severities, codes in _GROUPS for code in codes.split()}


def severities_of(code: str) -> tuple[Severity, ...]:
    """The severities with which fedkg reports a code, the gravest first.

    An error prevents a pack, a warning is probably a mistake, and info tells what was decided. With
    several, the diagnostic itself shows which one applies.
    """
    return _SEVERITIES.get(code, ("error",))
