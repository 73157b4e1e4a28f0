"""The modules of the compiler form no import cycle.

An edge goes from a module to the module that defines the name it imports: at the top, inside a
function or for types only. A package's `__init__` that hands a name on is no detour: the edge goes
to the module of the name. So a package may export names of its modules, and they may import the
package's other names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).resolve().parents[2]
Graph = Mapping[str, frozenset[str]]
"""The modules that each module imports, by name."""


def modules_of(package: Path) -> dict[str, Path]:
    """The file of each module of a package, by the module's name."""
    return {
        ".".join((package.name, *path.relative_to(package).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): path
        for path in sorted(package.rglob("*.py"))
    }


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Each import in a file: the module, the name taken from it ("" for the module itself), and the
    name that it gets.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.module, "imports are absolute"
            yield from ((node.module, one.name, one.asname or one.name) for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.name, "", one.asname or one.name) for one in node.names)


def import_graph(package: Path) -> Graph:
    """The imports between the modules of a package."""
    modules = modules_of(package)
    imports = {
        name: list(imports_of(ast.parse(path.read_text(encoding="utf-8"))))
        for name, path in modules.items()
    }
    handed_on = {
        (package_name, given): (module, name)
        for package_name, path in modules.items()
        if path.name == "__init__.py"
        for module, name, given in imports[package_name]
        if name and (module, name) != (package_name, given)
    }

    def defining(module: str, name: str) -> str:
        while (module, name) in handed_on:
            module, name = handed_on[module, name]
        inner = f"{module}.{name}"
        return inner if inner in modules else module

    found = {
        one: {defining(module, name) if name else module for module, name, _ in imports[one]}
        for one in modules
    }
    return {one: frozenset((found[one] & modules.keys()) - {one}) for one in modules}


def cycles(graph: Graph) -> list[set[str]]:
    """The sets of two or more modules that all reach each other, the largest first."""
    names = sorted(graph)
    position = {name: i for i, name in enumerate(names)}
    edges = [(position[one], position[other]) for one in names for other in graph[one]]
    starts, ends = zip(*edges, strict=True) if edges else ((), ())
    matrix = coo_array((np.ones(len(edges)), (starts, ends)), shape=(len(names), len(names)))
    count, component = connected_components(matrix, directed=True, connection="strong")
    found = [{names[i] for i in np.flatnonzero(component == number)} for number in range(count)]
    return sorted((one for one in found if len(one) > 1), key=len, reverse=True)


def test_the_compiler_has_no_import_cycles() -> None:
    graph = import_graph(ROOT / "compiler" / "fedkg_compiler")
    assert len(graph) > 200, "the test sees no modules"
    assert "fedkg_compiler.graph.graph" in graph["fedkg_compiler.analysis.run"], "type only"
    assert "fedkg_compiler.pipeline" in graph["fedkg_compiler.cache"], "inside a function"
    assert cycles(graph) == []


def test_cycles_are_found(tmp_path: Path) -> None:
    """Three modules in a circle, over a type, a function and a name that `__init__` hands on."""
    package = tmp_path / "plant"
    package.mkdir()
    (package / "__init__.py").write_text("from plant.valve import Valve\n")
    (package / "pump.py").write_text("from plant import Valve\n")
    (package / "valve.py").write_text(
        "def open():\n    from plant.pipe import Pipe\n    return Pipe\n"
    )
    (package / "pipe.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import plant.pump\n"
    )
    (package / "plan.py").write_text("from plant import pump\n")
    circle = {f"plant.{name}" for name in ("pump", "valve", "pipe")}
    assert cycles(import_graph(package)) == [circle]
    (package / "pipe.py").write_text("")
    assert cycles(import_graph(package)) == []
