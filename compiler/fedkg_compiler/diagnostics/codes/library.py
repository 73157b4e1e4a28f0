"""Codes of the rule library, FKG540 to FKG559."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

LIBRARY: dict[str, Code] = {
    "FKG540": Code(
        "no such rules in the library",
        """`use rules` names a file of the rule library by its area and its name, or a whole area.

    use rules isa95.capcity  # isa95.capacity
    signal torque in N.m
    rule strong require torque <= 60 N.m

Files are taken whole: a single rule has no name here. The reference page on the rule library lists everything there is.""",
    ),
    "FKG541": Code(
        "rules of the library that fit nothing",
        """Rules of the library ask the graph for what they are about. This graph has nothing of the kind, so that they hold for nothing;
the other rules are not touched by that. Where no rule at all is left, it is an error.

    use rules isa95.capacity
    signal torque in N.m
    rule strong require torque <= 60 N.m

It needs facts such as these:

    plant:press isa95:ratedCapacity 400 ; isa95:capacityIn plant:throughput .
    plant:throughput fkg:column "throughput" ; qudt:hasUnit unit:KiloGM-PER-HR .

The comment at the top of each file says which facts it needs.""",
    ),
    "FKG542": Code(
        "a sensor or property without a column",
        """`value(?sensor)` is the column of a sensor, and `value(?property, ?entity)` the one in which a property is observed of an entity.
The graph says which that is: by `fkg:column` on the sensor, or on the property for all entities, whose table rows are then told apart by
`fkg:keyColumn`. What has no column cannot be checked and is left out; where nothing is left, it is an error.

    prefix plant: <https://example.org/plant#>
    rule within for ?thing, ?property, ?high where { ?l fkg:limits ?property ; fkg:limitOf ?thing ; fkg:highLimit ?high }
      require value(?property, ?thing) <= ?high
    rule other require `Torque [Nm]` <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:limit fkg:limits plant:temperature ; fkg:limitOf plant:boiler ; fkg:highLimit 90 .
    plant:temperature a sosa:ObservableProperty .

No sensor of the boiler is told, and the temperature has no column for all entities. This tells one:

    plant:TIC101 sosa:observes plant:temperature ; sosa:isHostedBy plant:boiler ; fkg:column "TIC-101.PV" .""",
    ),
}
