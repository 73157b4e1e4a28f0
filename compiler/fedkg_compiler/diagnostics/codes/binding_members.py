"""Codes of members, query files, truth values, clients, sets, causes and examples, FKG275 to FKG309."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

MEMBERS: dict[str, Code] = {
    "FKG275": Code(
        "Members that cannot be asked for",
        """\
`over ?p where { ... }` and `over ?p in class T` run over members of a set: entities of the graph. The variable is a
new one, and the pattern joins it to variables of the rule that stand for entities.

    prefix plant: <https://example.org/plant#>
    signal flow(?p) is plant:flow in kg/h
    rule r for ?v in class plant:Vessel require sum of flow(?v) over ?v where { ?v plant:into ?v } <= 9 kg/h

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:V1 a plant:Vessel . plant:P1 plant:into plant:V1 .
    plant:s1 sosa:observes plant:flow ; sosa:isHostedBy plant:P1 ; fkg:column "F1" .

Choose another name for the member: `sum of flow(?p) over ?p where { ?p plant:into ?v }`. The rows of a table are no
entities of the graph, and have no members.
""",
    ),
    "FKG276": Code(
        "A set of members is empty, or too small",
        """\
The pattern behind `over` finds no member for any row of the rule, or fewer than `at least` asks for.

    prefix plant: <https://example.org/plant#>
    signal flow(?p) is plant:flow in kg/h
    rule r for ?v in class plant:Vessel require at least 2 of (flow(?p) >= 1 kg/h) over ?p where { ?p plant:into ?v }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:V1 a plant:Vessel . plant:P1 plant:into plant:V1 .
    plant:s1 sosa:observes plant:flow ; sosa:isHostedBy plant:P1 ; fkg:column "F1" .

The sum of nothing is 0, its count too; mean, min and max of nothing are unknown; all of none hold, none of none holds.
Mend the pattern, or load the graph that has the facts.
""",
    ),
    "FKG277": Code(
        "A member counts more than once",
        """\
The body reads a further variable of the pattern, and some member has several values of it: it is taken once with each.

    prefix plant: <https://example.org/plant#>
    signal flow(?p) is plant:flow in kg/h
    rule r for ?v in class plant:Vessel
      require sum of ?share * flow(?p) over ?p where { ?p plant:into ?v ; plant:share ?share } <= 9 kg/h

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:V1 a plant:Vessel . plant:P1 plant:into plant:V1 ; plant:share 0.5, 0.25 .
    plant:s1 sosa:observes plant:flow ; sosa:isHostedBy plant:P1 ; fkg:column "F1" .

Where a pipe has two shares, its flow counts twice. Give it one, or ask for the one that is meant.
""",
    ),
    "FKG278": Code(
        "Members that cannot be put together",
        """\
What is put together must stand in one row of the table and measure one thing: every member has a column of its own, all
are data or all predicted, and their units can be converted into each other.

    prefix plant: <https://example.org/plant#>
    signal torque(?m) is plant:torque in N.m
    rule total require sum of torque(?m) over ?m in class plant:Machine <= 500 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:Machine fkg:keyColumn "machine" .
    plant:M1 a plant:Machine . plant:M2 a plant:Machine .
    plant:torque a sosa:ObservableProperty ; fkg:column "Torque [Nm]" .

Where one torque column serves all machines, each row is about one of them, and there is no sum in a row. Give each
machine a column of its own: `fkg:column` on its sensor.
""",
    ),
    "FKG279": Code(
        "A member lacks a value",
        """\
A sum, mean, minimum or maximum needs a value of every member; a variable of the pattern has none for one of them.

    prefix plant: <https://example.org/plant#>
    signal flow(?p) is plant:flow in kg/h
    rule r for ?v in class plant:Vessel
      require sum of ?share * flow(?p) over ?p where { ?p plant:into ?v . OPTIONAL { ?p plant:share ?share } } <= 9 kg/h

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:V1 a plant:Vessel . plant:P1 plant:into plant:V1 .
    plant:s1 sosa:observes plant:flow ; sosa:isHostedBy plant:P1 ; fkg:column "F1" .

Fill the value in, or leave OPTIONAL out, so that members without one are no members.
""",
    ),
    "FKG280": Code(
        "Some rows have no member",
        """\
For some rows of the rule the pattern behind `over` finds nothing. That may be so: the sum of nothing is 0, its count too;
mean, min and max of nothing are unknown; all of none hold, none of none holds.

    prefix plant: <https://example.org/plant#>
    signal flow(?p) is plant:flow in kg/h
    rule r for ?v in class plant:Vessel require sum of flow(?p) over ?p where { ?p plant:into ?v } <= 9 kg/h

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:V1 a plant:Vessel . plant:V2 a plant:Vessel . plant:P1 plant:into plant:V1 .
    plant:s1 sosa:observes plant:flow ; sosa:isHostedBy plant:P1 ; fkg:column "F1" .

Mend the pattern where a vessel without a pipe is a mistake.
""",
    ),
    "FKG281": Code(
        "Not a truth value",
        """\
A signal `in boolean` is true or false: its column holds true and false, yes and no, on and off, or 1 and 0. As a number
it is 1 or 0.

    signal valve in boolean
    signal flow in kg/h
    rule flows require if valve is open then flow >= 1 kg/h

Write `valve is true`, `valve is off`, or `valve >= 1`. What a model predicts is how likely something is: declare it
`output failure in probability`.
""",
    ),
    "FKG282": Code(
        "All classes of a label",
        """\
A condition that names every class of a label always holds, and its negation never does.

    label grade classes A, B
    rule fine require grade in A, B

Leave out the class that is not allowed, or the condition.
""",
    ),
    "FKG283": Code(
        "A query file that cannot be read",
        """\
The file after `in query` is missing or is no text. Its path counts from the folder of the rule file.

    signal torque in N.m
    rule r for ?max in query "machnes.rq" require torque <= ?max
""",
    ),
    "FKG284": Code(
        "A query file that selects nothing",
        """\
`in query` takes the rows of one SPARQL SELECT. ASK, CONSTRUCT and updates give none.

    signal torque in N.m
    rule r for ?max in query "ask.rq" require torque <= ?max

    # ask.rq
    ASK { ?m <https://example.org/plant#max> ?max }

Violation queries, which are rules themselves, are loaded by `queries "legacy/*.rq"`.
""",
    ),
    "FKG285": Code(
        "A query does not give a variable",
        """\
The variables after `for` are looked up among those that the query's SELECT gives.

    signal torque in N.m
    rule r for ?maximum in query "machines.rq" require torque <= ?maximum

    # machines.rq
    SELECT ?max WHERE { ?m <https://example.org/plant#max> ?max }

Name the variable as the query does, or add it after SELECT.
""",
    ),
    "FKG286": Code(
        "Nothing is left for this pack",
        """\
A public pack has everything but what is written `scope client`; the private pack of a client, made with --client, has
that alone. Here nothing is left.

    rule low scope client require pressure <= 8 bar

Compile this file with `--client NAME`, at the site whose rule it is; or leave the scope out.
""",
    ),
    "FKG287": Code(
        "Left out of this pack",
        """\
What is written `scope client` is compiled at each site, with its own graph, into a private pack that never leaves it;
it is no part of the public one.

    rule high require pressure <= 9 bar
    rule low scope client require pressure <= 8 bar

There: `fedkg compile rules.fkg linz.ttl --client linz -o linz.fkgpack`. In that pack a rule speaks of solutions that have an
entity of the client (the client itself, or what has `fkg:client` of it) and none of another client.
""",
    ),
    "FKG288": Code(
        "An unknown client",
        """\
Nothing in the graph belongs to the client after --client: no entity has it as its `fkg:client`, and none is it.

    plant:Furnace7 fkg:client "linz" .

Name the client as the graph does, by that text or by the IRI of its node.
""",
    ),
    "FKG289": Code(
        "Nothing that can be kept in a set",
        """\
A set holds the parameters of the model, or what it predicts: `parameters`, one of them by its dotted name
(`parameters.head.weight`), `predictions`, or the name of an output or a label.

    signal torque in N.m
    set s keep torque in box(0, 60)

What data must fulfil is a rule: require 0 <= torque <= 60 N.m.
""",
    ),
    "FKG290": Code(
        "A set that is wrong",
        """\
The sets are box(low, high), halfspace(1, -1, bound = 3), affine(1, 1, bound = 3), l1_ball(radius), l2_ball(radius),
linf_ball(radius), each ball with a center if it is not 0, simplex(total), monotone() and nonnegative(). Their numbers are
written, or variables of the quantifier, or `job` for what the job file gives; a missing radius is the job's too.

    set sparse keep parameters in l1_ball(radius = -1)

Sizes are not negative, and the low end of a box is not above its high end.
""",
    ),
    "FKG291": Code(
        "Which client is meant",
        """\
A set or a cause ranges over clients: entities that are clients, or belong to one by `fkg:client`, or their names in a
sheet. Each client has one set of numbers.

    prefix plant: <https://example.org/plant#>
    set sparse for ?r where { ?client plant:budget ?r } keep parameters in l1_ball(radius = ?r)

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:linz plant:budget 3 .

Ask for the client first: for ?client, ?r where { ?client plant:budget ?r }.
""",
    ),
    "FKG292": Code(
        "About a cause",
        """\
`allow ?a drives ?b` says which client may drive which other. A client drives itself anyway, so such pairs are left out;
a lag becomes a number of steps where `timeline step` says how long one is, rounded up.

    prefix plant: <https://example.org/plant#>
    cause line for ?a, ?b where { ?a plant:feeds ?b } allow ?a drives ?b lag 10 min

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:linz plant:feeds plant:wien, plant:linz .
""",
    ),
    "FKG293": Code(
        "An example of nothing",
        """\
An example names a rule that is compiled together with it, and signals, labels or columns that the rule reads. A plain
variable of the rule's quantifier may be given a number too.

    rule recovers require pressure <= 8 bar
    example of recovrs fails for pressure = 7 9 9 9 bar
""",
    ),
    "FKG294": Code(
        "Series of unequal length",
        """\
The series of an example all have one value for each step, `unknown` where there is none. A variable of the quantifier has
one number.

    rule recovers require pressure <= 8 bar or flow <= 3 kg/h
    example of recovers fails for pressure = 7 9 9 9 bar and flow = 1 1 kg/h
""",
    ),
    "FKG295": Code(
        "A series too many, or too few",
        """\
The example gives values that the rule does not read, or none of something that it reads; that is unknown at every step,
and an example whose verdict is unknown neither holds nor fails.

    rule recovers require pressure <= 8 bar or flow <= 3 kg/h
    example of recovers fails for pressure = 7 9 9 9 bar
""",
    ),
}
"""Codes FKG275 to FKG309."""
