"""Cell texts that mean a missing number, and cell texts that mean true or false."""

from __future__ import annotations

UNKNOWN_WORDS = frozenset(
    """
    nan|na|n/a|n.a.|n.v.|k.a.|#n/a|#nv|null|<null>|(null)|none|nil|missing|undefined|unknown
    unbekannt|?|-|--|---|–|—|*|**|***|.|..|bad|bad input|bad output|bad data|bad quality|bad value
    bad total|bad tag|no data|nodata|no value|no sample|no samples|no result|no good data
    no good data for calculation|not available|not connected|not connect|i/o timeout|io timeout
    timeout|scan timeout|scan off|off scan|calc failed|calc fail|calc off|calculation failed
    comm fail|comm failure|comm error|communication failure|configure|config error|intf shut
    intf error|interface shut down|shutdown|pt created|point created|snapshot fail|under range
    over range|underrange|overrange|out of service|out of serv|equip fail|device failure
    sensor failure|sensor fail|invalid|invalid data|invalid float|inp out of range|arc off-line
    arc offline|archive offline|access denied|trace off|set to bad|bad_quality|stale
    [-11059] no good data for calculation|ungültig|ungueltig|kein wert|keine daten|kein messwert
    nicht verfügbar|nicht verfuegbar|gestört|gestoert|störung|stoerung|fehlt|#div/0!|#value!|#ref!
    #name?|#num!|#null!|#wert!|#bezug!|#zahl!|#leer!|1.#qnan|1.#ind|-1.#ind|1.#inf|-1.#inf|inf|-inf
    +inf|infinity|-infinity
    """.replace("\n", "|")
    .replace("    ", "")
    .split("|")
)
"""Lower-case texts that mean "no value": empty, spreadsheet errors, and what plant historians write
when a tag has no good value."""

TRUE_WORDS = frozenset({"true", "yes", "y", "ja", "j", "wahr", "on", "ein", "1", "1.0", "t"})
FALSE_WORDS = frozenset({"false", "no", "n", "nein", "falsch", "off", "aus", "0", "0.0", "f"})


def is_unknown(text: str) -> bool:
    """Whether a cell's text means "no value", ignoring case."""
    return not text or text.casefold() in UNKNOWN_WORDS


def truth(text: str) -> bool | None:
    """What a cell's text says as a truth value: None when it is neither of the known words."""
    word = text.casefold()
    if word in TRUE_WORDS:
        return True
    return False if word in FALSE_WORDS else None
