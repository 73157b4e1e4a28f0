"""Runs HermiT on a file of N-Triples in a separate process that can be stopped: `python -m
...hermit_child FILE`; prints JSON.

The JSON has `below` and `types` (pairs of IRIs, including the asserted ones), `unsatisfiable`
(classes), `inconsistent`, and `failure`: the reason for a missing result, or "".
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

THING = "http://www.w3.org/2002/07/owl#Thing"
NOTHING = "http://www.w3.org/2002/07/owl#Nothing"


def answer(path: Path) -> dict[str, Any]:
    """The conclusions of HermiT from a file. `Any`: JSON."""
    warnings.simplefilter("ignore")
    import owlready2

    said: dict[str, Any] = {
        "below": [],
        "types": [],
        "unsatisfiable": [],
        "inconsistent": False,
        "failure": "",
    }
    world = owlready2.World()
    ontology = world.get_ontology(path.as_uri())
    try:
        with path.open("rb") as file:
            ontology.load(fileobj=file)
        with ontology:
            owlready2.sync_reasoner_hermit(world, debug=0)
    except owlready2.OwlReadyInconsistentOntologyError:
        return said | {"inconsistent": True}
    except Exception as error:  # noqa: BLE001  an untyped library may raise anything
        return said | {"failure": _first_line(error)}
    said["unsatisfiable"] = sorted(
        one.iri for one in world.inconsistent_classes() if one.iri != NOTHING
    )
    for one in world.classes():
        said["below"] += [[one.iri, other.iri] for other in one.is_a if _named(other)]
        said["below"] += [[one.iri, other.iri] for other in one.equivalent_to if _named(other)]
        said["below"] += [[other.iri, one.iri] for other in one.equivalent_to if _named(other)]
    for one in world.individuals():
        said["types"] += [[one.iri, other.iri] for other in one.is_a if _named(other)]
    return said


def _named(entity: Any) -> bool:
    """Whether something is a class with a real name. `Any`: owlready2 has no types."""
    return getattr(entity, "iri", THING) not in (THING, NOTHING)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = next(
        (line for line in lines if "Exception" in line or "Error" in line),
        lines[0] if lines else type(error).__name__,
    )
    return found[:300]


if __name__ == "__main__":
    json.dump(answer(Path(sys.argv[1])), sys.stdout)
