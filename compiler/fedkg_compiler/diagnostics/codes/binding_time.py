"""Codes of time, templates and inference, FKG250 to FKG274."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

TIME: dict[str, Code] = {
    "FKG250": Code(
        "a duration, and no step",
        """\
A window in minutes or hours is counted in rows, and nothing says how far apart two rows are.

    rule calm require always [0 min, 30 min] pressure <= 8 bar

Declare the step once, in any file, `timeline step 5 min`, or count the rows yourself: a bare number in a window is a number of steps.""",
    ),
    "FKG251": Code(
        "an end of a window that is no time",
        """\
The ends of a window are durations (`2 h`, `?wait`), or bare numbers, which count steps.

    rule calm require always [0, 30 bar] pressure <= 8 bar  # 30 bar is no time

Write a unit of time, or the number of steps.""",
    ),
    "FKG252": Code(
        "a window that ends before it begins",
        """\
The first end of a window is the nearer one.

    timeline step 5 min
    rule calm require always [2 h, 1 h] pressure <= 8 bar  # write [1 h, 2 h]

Looking back, it is the nearer one too: `once [1 h, 2 h]` is from one to two hours ago.""",
    ),
    "FKG253": Code(
        "a window with a negative end",
        """\
A window is counted from now, forwards for `always`, `eventually` and `until`, backwards for `once`, `historically` and
`since`.

    timeline step 5 min
    rule warm require eventually [-10 min, 0 min] temperature >= 60 degC  # write once [0 min, 10 min]
""",
    ),
    "FKG254": Code(
        "a window shorter than one step",
        """\
Of the samples that a window asks for, those inside it count. A window shorter than the distance between two rows has
one at the most.

    timeline step 5 min
    rule calm require eventually within 2 min pressure <= 8 bar  # the same row: nothing later lies within 2 min

Widen the window, or leave it away where the same row is meant.""",
    ),
    "FKG255": Code(
        "a window with no step in it",
        """\
No row lies between the two ends of the window, so nothing would ever be looked at.

    timeline step 5 min
    rule calm require always [6 min, 9 min] pressure <= 8 bar  # rows are 0, 5, 10 min away

Widen the window until a multiple of the step lies in it.""",
    ),
    "FKG256": Code(
        "a number of steps that is not whole",
        """\
A bare number in a window counts steps, and there is no half step.

    timeline step 5 min
    rule calm require always [0, 1.5] pressure <= 8 bar  # write [0 h, 1.5 h] for a duration

Give it a unit of time, or round it.""",
    ),
    "FKG257": Code(
        "a window with one end in steps and one in time",
        """\
A bare number counts steps, so `[1, 2 h]` begins one step from now and ends two hours from now.

    timeline step 5 min
    rule calm require always [1, 2 h] pressure <= 8 bar  # write [1 h, 2 h]

Give both ends a unit, or neither.""",
    ),
    "FKG258": Code(
        "an end of a window that moves",
        """\
The ends of a window are known when rules are compiled: numbers, durations, values of the quantifier.

    rule calm require always [0 h, delay] pressure <= 8 bar  # `delay` is a signal

Write a fixed end, or a rule for each of the cases.""",
    ),
    "FKG259": Code(
        "a window where none belongs",
        """\
`next` is the step that follows, `previous` the one before, `initially` the first of the trace: none of them has a window.

    rule steady require next within 10 min flow >= 1 kg/h  # write eventually within 10 min flow >= 1 kg/h""",
    ),
    "FKG260": Code(
        "time without a timeline",
        """\
Nothing says how the rows of the table follow each other, so their order in the table is taken as time, and the whole table
as one trace.

    rule calm require always [0, 6] pressure <= 8 bar

Declare the timeline to say so: `timeline step 5 min time column "Zeit" trace column "heat"`. `time column` sorts the rows,
`trace column` tells several traces apart.""",
    ),
    "FKG261": Code(
        "a condition too large when its templates are written out",
        """\
A template stands for its condition, which is written in the place of each `follows`. Templates that use others several
times grow fast.

    template two(x) = follows one(x) and follows one(x + 1)
    template four(x) = follows two(x) and follows two(x + 2)  # and so on, twice as large each time

Write the condition with fewer parts, or as several rules.""",
    ),
    "FKG262": Code(
        "something without a past",
        """\
`past x` is the value of a signal or output one step earlier. A number has none, and two steps back have no word of their
own.

    rule slow require weight <= 1.1 * past 5 t
    rule slower require weight <= 1.2 * past past weight

For values further back shift the column in the table, or say what held with `previous`.""",
    ),
    "FKG263": Code(
        "a hard rule over several steps",
        """\
A hard rule is kept by moving the model's predictions at one row. One that speaks of several rows is not: it is trained as
a penalty and checked.

    output pressure in bar
    rule calm hard require always [0, 3] pressure <= 8 bar  # write hard require pressure <= 8 bar

A rule holds at every row anyway; leave `hard` out where several rows are meant.""",
    ),
    "FKG264": Code(
        "a template declared twice",
        """\
A template has one meaning. The same declaration, word for word, may stand in several files.

    template inside(x, low, high) = low <= x <= high
    template inside(x, high) = x <= high

Give the second a name of its own.""",
    ),
    "FKG265": Code(
        "a template that nobody declares",
        """\
Behind `follows`, and behind the `in` of an inference, stands the name of a template.

    template inside(x, low, high) = low <= x <= high
    rule calm require follows insde(pressure, 1 bar, 8 bar)  # did you mean `inside`?

Declare it, in any file: template NAME(parameters) = condition.""",
    ),
    "FKG266": Code(
        "a template with too many or too few arguments",
        """\
Each parameter of a template gets one argument, by its place or by its name.

    template inside(x, low, high) = low <= x <= high
    rule calm require follows inside(pressure, 8 bar)  # write inside(pressure, 1 bar, 8 bar)""",
    ),
    "FKG267": Code(
        "a template that follows itself",
        """\
A template stands for its condition, which is written in its place. One that leads back to itself never ends.

    template a(x) = follows b(x)
    template b(x) = follows a(x)

Write one of them without the other.""",
    ),
    "FKG268": Code(
        "a parameter with the name of a signal",
        """\
Inside a template its parameters come first, so the signal of that name cannot be read there.

    signal pressure in bar
    template calm(pressure) = pressure <= 8 bar  # means the parameter
    rule r require follows calm(pressure)

Rename the parameter to say so.""",
    ),
    "FKG269": Code(
        "a parameter that is not used",
        """\
A template has a parameter, or `find` a variable, on which nothing depends.

    signal pressure in bar
    template inside(x, low, high) = x <= high  # `low` is not used
    rule r require follows inside(pressure, 1 bar, 8 bar)

Use it, or leave it out.""",
    ),
    "FKG270": Code(
        "an argument that does not fit its place",
        """\
A parameter stands where only a name may stand, and the argument is something else.

    template grade_is(g, class) = g is class
    rule good require follows grade_is(grade, 3 + 4)  # a class is a name: A""",
    ),
    "FKG271": Code(
        "a template used as if it were a number",
        """\
A template is a condition. It is used with `follows`, and not compared with anything.

    template inside(x, low, high) = low <= x <= high
    rule calm require inside(pressure, 1 bar, 8 bar) >= 1  # write follows inside(pressure, 1 bar, 8 bar)""",
    ),
    "FKG272": Code(
        "an inference that cannot be tight",
        """\
A parameter is found by halving: the tightest value that all traces still satisfy. That needs a direction, in which the
condition only gets easier.

    template near(x, c) = abs(x - c) <= 2 bar
    infer middle per client find ?c in near(pressure, ?c)  # neither larger nor smaller ?c is always easier

The value that is found then satisfies the traces, and may not be the tightest.""",
    ),
    "FKG273": Code(
        "an inference that is not written right",
        """\
`infer` finds values in the data of each client, of each cluster, or of the whole run, in a template that has them as
arguments; each has a name of its own.

    timeline step 5 min
    signal pressure in bar
    template inside(x, low, high) = always [0 h, 2 h] low <= x <= high
    infer range per machine find ?low, ?high in inside(pressure, ?low, ?high)  # there is no such owner

Write `per client`, `per cluster` or `per run`.
""",
    ),
    "FKG274": Code(
        "a found parameter used in two ways",
        """\
A parameter that is found is one number: a value in one unit, or a number of steps in a window, and not both; and it is
found before anything is summed over members.

    timeline step 5 min
    signal pressure in bar
    template odd(x, p) = always [0, p] x <= p
    infer both per client find ?p in odd(pressure, ?p)  # how long, and how much

Give the template a parameter for each.
""",
    ),
}
"""Codes FKG250 to FKG274."""
