"""The grammar of random shapes over the plant of `shacl_plant`::

shape    = a node shape of all pumps: property | logic of two or three constraints on paths
property = path and one to three constraints on its values
path     = name | feeds/name | alternative of two names | inverse of feeds
name     = pressure | level (numbers), state | note (texts), material (things)
constraint on numbers = bounds | in | hasValue | datatype
                      | lessThan | lessThanOrEquals | equals | disjoint
constraint on texts   = in | hasValue | pattern | minLength | maxLength | languageIn
constraint on things  = in | hasValue | class | nodeKind
any value             = minCount | maxCount | not | or | and | xone of constraints
"""

from __future__ import annotations

from random import Random

from shacl_plant import HEAD

NUMBERS, TEXTS, THINGS = ("pressure", "level"), ("state", "note"), ("material",)
METALS = ("plant:Steel", "plant:Brass", "plant:Pine")


def random_shapes(dice: Random, count: int) -> list[str]:
    """The bodies of `count` node shapes; see `shape_graph`."""
    return [_shape(dice) for _ in range(count)]


def shape_graph(bodies: list[str]) -> str:
    """Turtle of node shapes ``plant:S0`` ... that target every pump.

    A body refers to its number as ``{i}``.
    """
    return HEAD + "\n".join(
        f"plant:S{i} a sh:NodeShape ; sh:targetClass plant:Pump ; {body.replace('{i}', str(i))} ."
        for i, body in enumerate(bodies)
    )


def _shape(dice: Random) -> str:
    if dice.random() < 0.7:
        return f"sh:property plant:S{{i}}_ . plant:S{{i}}_ {_property(dice)}"
    parts = " ".join(f"[ {_property(dice)} ]" for _ in range(dice.choice((2, 2, 3))))
    return dice.choice(
        (f"sh:or ( {parts} )", f"sh:xone ( {parts} )", f"sh:not [ {_property(dice)} ]")
    )


def _property(dice: Random) -> str:
    names = dice.choice((NUMBERS, NUMBERS, TEXTS, THINGS))
    name = dice.choice(names)
    path = dice.choice(
        (
            f"plant:{name}",
            f"plant:{name}",
            f"( plant:feeds plant:{name} )",
            f"( [ sh:inversePath plant:feeds ] plant:{name} )",
            f"[ sh:alternativePath ( plant:{names[0]} plant:{names[-1]} ) ]",
        )
    )
    parts = [_constraint(dice, names, 1) for _ in range(dice.choice((1, 1, 2, 3)))]
    once = {part.split()[0]: part for part in parts}  # most parameters may occur once
    return f"sh:path {path} ; " + " ; ".join(once.values())


def _constraint(dice: Random, names: tuple[str, ...], depth: int) -> str:
    choice = dice.random()
    if depth and choice < 0.25:
        inner = [_value_constraint(dice, names) for _ in range(2)]
        both = " ".join(f"[ {part} ]" for part in inner)
        return dice.choice(
            (
                f"sh:not [ {inner[0]} ]",
                f"sh:or ( {both} )",
                f"sh:and ( {both} )",
                f"sh:xone ( {both} )",
            )
        )
    if choice < 0.4:
        return dice.choice(("sh:minCount 1", "sh:minCount 2", "sh:maxCount 1", "sh:maxCount 2"))
    if names is NUMBERS and choice < 0.55:
        relation = dice.choice(("lessThan", "lessThanOrEquals", "equals", "disjoint"))
        return f"sh:{relation} plant:{dice.choice(NUMBERS)}"
    return _value_constraint(dice, names)


def _value_constraint(dice: Random, names: tuple[str, ...]) -> str:
    if names is NUMBERS:
        bound = dice.choice(("minInclusive", "maxInclusive", "minExclusive", "maxExclusive"))
        number = f"{dice.randint(1, 9)}.0e0"
        return dice.choice(
            (
                f"sh:{bound} {number}",
                f"sh:{bound} {number}",
                f"sh:in ( {number} {dice.randint(1, 9)}.0e0 )",
                f"sh:hasValue {number}",
                "sh:datatype xsd:double",
                "sh:nodeKind sh:Literal",
            )
        )
    if names is THINGS:
        return dice.choice(
            (
                f"sh:in ( {dice.choice(METALS)} {dice.choice(METALS)} )",
                f"sh:hasValue {dice.choice(METALS)}",
                f"sh:class plant:{dice.choice(('Metal', 'Iron', 'Wood'))}",
                "sh:nodeKind sh:IRI",
            )
        )
    return dice.choice(
        (
            f"sh:pattern '{dice.choice(('^o', 'n', 'k$', '[a-f]+'))}'",
            f"sh:minLength {dice.randint(1, 5)}",
            f"sh:maxLength {dice.randint(1, 5)}",
            f"sh:in ( {dice.choice(TEXT_VALUES)} {dice.choice(TEXT_VALUES)} )",
            f"sh:hasValue {dice.choice(TEXT_VALUES)}",
            "sh:languageIn ( 'en' 'de' )",
        )
    )


TEXT_VALUES = ("'on'", "'off'", "'stuck'", "'ok'@en", "'gut'@de", "'fine'")
