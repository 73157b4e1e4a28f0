"""Codes of units, numbers and monotone rules."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

UNITS: dict[str, Code] = {
    "FKG211": Code(
        "something that is no unit",
        """\
A unit is one word: N.m, kg/h, m3/h, Nm3/h, bar, barg, degC, 1/min, rpm, %, min.N.m. `.` multiplies, `/` divides, a number
behind is a power. Upper and lower case count: bar, not Bar.

    signal pressure in Bar  # did you mean `bar`?""",
    ),
    "FKG212": Code(
        "a unit with several readings",
        """\
Some texts mean different things to different people (`C` is a coulomb or degrees Celsius, `ton` is three masses,
`J/kg.K` divides by K or multiplies by it). They are not guessed.

    signal heat in J/kg.K  # write J/kg/K""",
    ),
    "FKG213": Code(
        "units of different things",
        """\
What is compared, added or subtracted must measure the same thing: bar and kPa convert, bar and degC do not. A norm cubic
metre (Nm3) is an amount of gas, a cubic metre (m3) is not.

    signal pressure in bar
    rule r require pressure <= 60 degC

Correct the unit here or in the declaration.""",
    ),
    "FKG215": Code(
        "arithmetic on a scale whose zero is not zero",
        """\
20 degC is a point on a scale: twice of it, or the sum of two, means nothing, and the difference of two is in K. The same
goes for barg, whose zero is the surrounding pressure.

    signal inlet in degC
    signal outlet in degC
    rule r require inlet - outlet <= 8 degC  # write 8 K

Declare the signal in K (or bar) to calculate with it.""",
    ),
    "FKG216": Code(
        "a column in two units",
        """\
A column whose unit is not declared takes that of what it is compared with; here that is one thing, elsewhere another. Or a
sheet gives one tag two units, and nothing says in which its column is; or two columns were compared as they stand, and turn
out to be in different units; or two signals are declared for one column in different units: its cells are in one.

    rule a require `PT-204` <= 8 bar
    rule b require `PT-204` <= 60 degC

Declare it: signal `PT-204` in bar.""",
    ),
    "FKG217": Code(
        "a unit that was concluded",
        """\
A column that no statement declares is taken to be in the unit it is compared with. This is a note, no mistake; a
declaration makes it certain: signal `PT-204` in bar.

    rule r require `PT-204` <= 8 bar
""",
    ),
    "FKG242": Code(
        "a unit from the header",
        """\
A column that no statement declares is in the unit in brackets behind its header: `Torque [Nm]`, `Pressure (bar)`. Limits in
another unit of the same kind are converted. This is a note, no mistake.

    rule r require `Torque [Nm]` <= 60 N.m

A declaration goes before the header: signal `Torque [Nm]` in kN.m. Where the two differ, that is noted as well: the cells are
taken to be in the declared unit, whatever the header says.
""",
    ),
    "FKG243": Code(
        "a unit from the sheet",
        """\
Neither a statement nor the header tells the unit of a column that a sheet of limits names. It is taken to be in the unit that
the sheet gives its row; look whether the table has it in that unit too.

    rule r for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high

    # limits.csv
    tag,high,unit
    PT-204,8,bar

Where the table has another, declare it, and limits are converted: signal `PT-204` in mbar.
""",
    ),
    "FKG218": Code(
        "1/min read as revolutions",
        """\
A torque in N.m times a rate in 1/min is a power only if the rate counts revolutions, each worth 2 pi. That is what plants
mean, so it is read so; elsewhere 1/min is a plain rate (60 1/min are 1 Hz). This is a note, no mistake; declare the speed
in rpm to say so. As a warning it stands at a power over a rate: in 1/min the quotient is the energy of each count, and a torque
would be smaller by 2 pi. Declare the speed in rpm where a torque is meant, in pcs/min where pieces are counted.

    signal torque in N.m
    signal speed in 1/min
    rule r require torque * speed <= 9 kW
""",
    ),
    "FKG219": Code(
        "bar beside barg",
        """\
barg counts from the surrounding pressure (1.01325 bar), bar from nothing; people write bar for both. Where the two meet, bar
is taken as absolute, and asked back. So are kPa, mbar, mmWS and the like.

    signal pressure in barg
    rule r require pressure <= 8 bar  # 8 barg, or 8 bara where it is absolute""",
    ),
    "FKG222": Code(
        "a hard rule that is not linear",
        """\
A `hard` rule becomes a projection of the prediction, which exists where the rule is linear in what it reads from the
model. This one is kept as a penalty and a check.

    output failure in probability span 0 .. 1
    rule r hard require failure * failure <= 0.2  # write failure <= 0.447, or leave `hard` out
""",
    ),
    "FKG223": Code(
        "a feature without a span",
        """\
`x never falls as y rises` compares the prediction with the one where y is higher by a twentieth of its span.

    output failure in probability span 0 .. 1
    signal wear in min  # span 0 .. 260
    rule r require failure never falls as wear rises
""",
    ),
    "FKG224": Code(
        "a group and a feature at once",
        """\
`per machine` compares each row with the one before it in its group; `as wear rises` compares each row with itself at a
higher wear. One rule says one of the two.

    output failure in probability span 0 .. 1
    signal wear in min span 0 .. 260
    rule r require failure never falls per machine as wear rises
""",
    ),
    "FKG225": Code(
        "a prediction that is raised",
        """\
`as y rises` raises a signal of the data and looks what the model predicts then; a prediction cannot be raised.

    output failure in probability span 0 .. 1
    output hazard in probability span 0 .. 1
    rule r require failure never falls as hazard rises
""",
    ),
    "FKG226": Code(
        "nothing that could follow",
        """\
Only what the model predicts can rise or fall as a signal rises: the other columns of a row stay as they are.

    signal torque in N.m
    signal wear in min span 0 .. 260
    rule r require torque never falls as wear rises  # torque is data: leave out `as wear rises`
""",
    ),
    "FKG227": Code(
        "a tolerance that is none",
        """\
A tolerance is a number that is not negative, or a value of the quantifier, in the unit of what is compared.

    rule r require inflow == outflow +/- loss  # +/- 0.5 kg/h""",
    ),
    "FKG244": Code(
        "limits that contradict each other",
        """\
The lower end of a chain of comparisons is above its upper end, in every row: no value lies between them, so the rule would be
broken by all data. Limits from a sheet or the graph count as soon as all of their rows are so.

    rule r require 310 K < t < 300 K  # 300 K < t < 310 K""",
    ),
    "FKG228": Code(
        "a number that is none",
        """\
A value known at compile time came out as infinite or undefined, for example by dividing by a fact that is 0.

    rule r for ?tag, ?n in table "limits.csv" require value(?tag) <= 60 / ?n

    # limits.csv
    tag,n
    PT-204,0
""",
    ),
    "FKG238": Code(
        "a unit that was calculated",
        """\
A bare number takes the unit of what it is compared with. That of a product or a quotient is one that nobody wrote: the
product of a torque in N.m and a speed in rpm is in rpm.N.m, and 9000 of that is not the 9 kW that was meant.

    signal torque in N.m
    signal speed in rpm
    rule r require torque * speed <= 9000  # 9000 W

As an error: a product of columns whose units nobody tells stands beside something with a unit, or beside a number that has no
dimension, as `sin(...)` has none. Declare the signals with their units, such as `signal x in dimensionless`.""",
    ),
    "FKG239": Code(
        "2 pi counted twice",
        """\
A speed in rpm counts revolutions, and a revolution is 2 pi radians by itself: a torque times it is a power, a radius times it
a speed along the circumference. Multiplied by `pi` it counts them again.

    signal speed in rpm
    signal torque in N.m
    rule r require 2 * pi * speed * torque <= 9 kW  # speed * torque <= 9 kW

Leave `2 * pi` out, or declare the speed in 1/min, a plain rate, and multiply it by `pi` before anything else.""",
    ),
    "FKG236": Code(
        "a function of the wrong thing",
        """\
exp, log and tanh take plain numbers, sin, cos and tan an angle.

    signal torque in N.m
    rule r require exp(torque) <= 3  # exp(torque / 60 N.m)
""",
    ),
}
"""Units, numbers and monotone rules."""
