"""The forms of the language that parse and are not compiled in this version, FKG400 to FKG499: one code per form."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

STAGED: dict[str, Code] = {
    "FKG401": Code(
        "`always` is not compiled yet",
        """\
It will say that a condition holds at every later step, or at every step of a window. At the very beginning of a
condition, without a window, it says what every rule says anyway.

    rule calm require always [0 h, 2 h] pressure <= 8 bar

Until then leave it away at the beginning of a rule: a rule holds at every row of a table.
""",
    ),
    "FKG402": Code(
        "`eventually` is not compiled yet",
        """\
It will say that a condition comes to hold at some later step, mostly within a time.

    rule recovers require if pressure >= 8 bar then eventually within 2 h pressure <= 6 bar

Until then state what must hold at the same row, or compute the delayed value as a column of the table.
""",
    ),
    "FKG403": Code(
        "`once` is not compiled yet",
        """\
It will say that a condition held at some earlier step.

    rule warmed_up require if running >= 1 then once [0 min, 10 min] temperature >= 60 degC

Until then keep the earlier event as a column of the table, say `was_warm`, and compare that.
""",
    ),
    "FKG404": Code(
        "`historically` is not compiled yet",
        """\
It will say that a condition held at every earlier step, or at every step of a window that ends now.

    rule stayed_cool require if running >= 1 then historically [0 min, 10 min] temperature <= 90 degC

Until then keep the running maximum or minimum as a column of the table and compare that.
""",
    ),
    "FKG405": Code(
        "`next` is not compiled yet",
        """\
It will look at the next step.

    rule steady require if valve >= 1 then next flow >= 1 kg/h

Until then shift the column in the table and compare the shifted one.
""",
    ),
    "FKG406": Code(
        "`previous` is not compiled yet",
        """\
It will look at the step before.

    rule steady require if valve >= 1 then previous flow >= 1 kg/h

Until then shift the column in the table; that a value never falls from row to row is said by `never falls`.
""",
    ),
    "FKG407": Code(
        "`initially` is not compiled yet",
        """\
A rule that begins with it will be judged at the first step of a trace alone.

    rule start require initially level >= 1 m

Until then check a table of first rows.
""",
    ),
    "FKG408": Code(
        "`until` is not compiled yet",
        """\
It will say that one condition holds until another one does.

    rule feeding require flow > 0 kg/h until pressure >= 2 bar

Until then say which conditions hold together at a row, with `if ... then ...`.
""",
    ),
    "FKG409": Code(
        "`since` is not compiled yet",
        """\
It will say that one condition has held ever since another one did.

    rule locked require door <= 0 since running >= 1

Until then say which conditions hold together at a row, with `if ... then ...`.
""",
    ),
    "FKG410": Code(
        "`only after` is not compiled yet",
        """\
It will say that an effect comes only if its cause came before, within a time.

    rule trips require trip >= 1 only after temperature >= 900 degC within 30 min

Until then, where cause and effect stand in the same row, write `if EFFECT then CAUSE`.
""",
    ),
    "FKG411": Code(
        "`past` is not compiled yet",
        """\
It will read the history of a variable that the model forecasts.

    rule slow require weight <= 1.1 * past weight

Until then give the history its own column and declare that as a signal.
""",
    ),
    "FKG412": Code(
        "Sums and means over members are not compiled yet",
        """\
They will reduce a value over the members that the graph names: the flow of all pipes of a vessel.

    rule balance for ?v in class isa95:StorageUnit
      require sum of flow(?p) over ?p where { ?p plant:into ?v } == 5 kg/h

Until then name the members and add them by `+`.
""",
    ),
    "FKG413": Code(
        "`in query` is not compiled yet",
        """\
A quantifier will range over the answers of a SPARQL query that stands in its own file.

    rule limits for ?p, ?high in query "limits.rq" require pressure(?p) <= ?high

Until then write the pattern of the query here, after `where`.
""",
    ),
    "FKG414": Code(
        "`use rules` is not compiled yet",
        """\
It will take rules from the library that comes with the product, by name, and bind them to this plant's graph.

    use rules isa95.capacity

Until then copy the rules into this file: each is a statement of its own.
""",
    ),
    "FKG415": Code(
        "`template` is not compiled yet",
        """\
It will give a condition with parameters a name, to be used in rules and in `infer`.

    template inside(x, low, high) = x >= low and x <= high

Until then write the condition out, or let one rule range over a sheet or the graph.
""",
    ),
    "FKG416": Code(
        "`infer` is not compiled yet",
        """\
It will let each client find the parameters of a template in its own data.

    infer traffic per client find ?low, ?high in inside(volume, ?low, ?high)

Until then write the limits into a sheet; `fedkg new` drafts rules from the ranges of a table.
""",
    ),
    "FKG417": Code(
        "`range knowledge` is not compiled yet",
        """\
It will say which classes or values a model may predict under which condition, and be built into the model.

    range knowledge grade_by_ash of grade
      when ash > 12.5 % allow C, D
      otherwise allow any

Until then write it as rules, which the training is penalised for: `if ash > 12.5 % then grade is C or grade is D`.
""",
    ),
    "FKG418": Code(
        "`predict knowledge` is not compiled yet",
        """\
It will predict by rule where a rule knows, and leave the rest to the model.

    predict knowledge grade_rule of grade
      when ash < 7 % predict A
      otherwise predict C

Until then write it as rules: `if ash < 7 % then grade is A`.
""",
    ),
    "FKG419": Code(
        "`set` is not compiled yet",
        """\
It will keep the parameters of a model in a set, a ball or a box, whose size may come from the graph.

    set sparse keep parameters in l1_ball(radius = 3)

Until then use the regularisation that the job file offers.
""",
    ),
    "FKG420": Code(
        "`cause` is not compiled yet",
        """\
It will say which part of a plant may drive which, as a prior for causal learning.

    cause along_the_line for ?a, ?b where { ?a isa95:feeds ?b } allow ?a drives ?b lag 10 min

Until then leave it away: nothing else depends on it.
""",
    ),
    "FKG421": Code(
        "`example` is not compiled yet",
        """\
It will be a test of a rule: values for which it must hold, or fail.

    example of recovers fails for pressure = 7 9 9 9 bar

Until then put such values into a small table and run `fedkg eval` on it.
""",
    ),
    "FKG422": Code(
        "SHACL shapes are not compiled yet",
        """\
The file's shapes will become rules where they speak of observed properties, and be checked on the graph where they do
not.

    shapes "pump.shacl.ttl"

Until then write the value ranges as rules over a graph pattern.
""",
    ),
    "FKG423": Code(
        "SPARQL constraints are not compiled yet",
        """\
The file's queries, each of which finds what is wrong, will become rules.

    queries "legacy/*.rq"

Until then write the query's pattern after `where`, and the opposite of its filter after `require`.
""",
    ),
}
