"""What is said of a form that parses and is not compiled yet: its code, and what to write instead today."""

from __future__ import annotations

from fedkg_compiler.diagnostics.record import Diagnostic, Span

STAGED_FORMS: dict[str, tuple[str, str]] = {
    "always": ("FKG401", "a rule holds at every row already: leave `always` away"),
    "eventually": ("FKG402", "state what must hold at the same row"),
    "once": ("FKG403", "keep the earlier event as a column of the table"),
    "historically": ("FKG404", "keep the running minimum or maximum as a column of the table"),
    "next": ("FKG405", "shift the column in the table"),
    "previous": ("FKG406", "shift the column in the table; an order is checked by `never falls`"),
    "initially": ("FKG407", "put the first rows into a table of their own"),
    "until": ("FKG408", "say what holds together: if pressure < 2 bar then flow > 0 kg/h"),
    "since": ("FKG409", "say what holds together with `if ... then ...`"),
    "only after": ("FKG410", "where both stand in the same row: if trip >= 1 then temperature >= 900 degC"),
    "past": ("FKG411", 'give the history a column of its own: signal weight_before column "..."'),
    "aggregate": ("FKG412", "name the members: flow_a + flow_b == ..."),
    "in query": ("FKG413", "write the query's pattern here: for ?p where { ... }"),
    "use rules": ("FKG414", "copy the rules into this file"),
    "template": ("FKG415", 'write the condition out in each rule, or quantify: for ?tag, ?low, ?high in table "limits.csv"'),
    "infer": ("FKG416", 'write the limits into a sheet: for ?low, ?high in table "limits.csv"'),
    "range knowledge": ("FKG417", "write rules: if ash > 12.5 % then grade is C or grade is D"),
    "predict knowledge": ("FKG418", "write rules: if ash < 7 % then grade is A"),
    "set": ("FKG419", "regularise in the job file"),
    "cause": ("FKG420", "leave the statement away: nothing else needs it"),
    "example": ("FKG421", "put the values into a table and run `fedkg eval`"),
    "shapes": ("FKG422", "write the ranges as rules: for ?p, ?max where { ?p plant:max ?max } require ..."),
    "queries": ("FKG423", "write the query's pattern after `where`, its filter, turned round, after `require`"),
}


def staged(form: str, span: Span) -> Diagnostic:
    """The error for a form of the language, a key of `STAGED_FORMS`, at its place.

    Raises:
        KeyError: if there is no such form.
    """
    code, instead = STAGED_FORMS[form]
    what = {"aggregate": "a reduction over members", "shapes": "a file of SHACL shapes", "queries": "a file of SPARQL constraints"}.get(
        form, f"`{form}`"
    )
    return Diagnostic(code=code, severity="error", span=span, message=f"{what} is not compiled in this version", help=instead)
