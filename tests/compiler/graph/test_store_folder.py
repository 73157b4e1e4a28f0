"""Stores on disk stay complete or as before, whatever happens, and are closed once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest

from fedkg.errors import FedkgError, UsageError
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph import load_graph
from fedkg_compiler.graph.rdf_reader import checksum, read_rdf
from fedkg_compiler.graph.stores.closure_cache import MOST
from fedkg_compiler.graph.stores.folder import CLOSED, LOADING, State, open_store, read_state
from fedkg_compiler.graph.stores.store_writing import load_files
from fedkg_compiler.graph.stores.stored_triples import PARTS
from fedkg_compiler.input_files import STORE_STATE, recording

PREFIX = (
    "@prefix : <https://example.org/plant#> .\n@prefix rdfs: "
    "<http://www.w3.org/2000/01/rdf-schema#> .\n"
)
ONE = PREFIX + ":Mill rdfs:subClassOf :Machine . :M1 a :Mill ; :limit [ :value 3.50 ] .\n"
TWO = PREFIX + ":M2 a :Mill ; :limit [ :value 4 ] .\n"
HERE = Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=2)
MACHINES = "?m a <https://example.org/plant#Machine>"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    for name, text in (
        ("one", ONE),
        ("two", TWO),
        ("bad", "@prefix : <https://example.org/plant#> . :a :b"),
    ):
        (tmp_path / f"{name}.ttl").write_text(text, encoding="utf-8")
    return {path.stem: path for path in tmp_path.glob("*.ttl")}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "plant.store"


def loaded(store: Path, *files: Path) -> State:
    found, _ = load_files(store, files)
    assert found is not None
    return found.state


def machines(*graphs: Path) -> list[str]:
    graph, problems, _ = load_graph([], {}, list(graphs))
    assert [problem.message for problem in problems if problem.severity == "error"] == []
    rows, _ = graph.select(MACHINES, ["m"], span=HERE)
    return [str(getattr(row[0], "value", row[0])).rpartition("#")[2] for row in rows]


def content_of(text: str) -> str:
    document, _ = read_rdf(text.encode(), file="x.ttl")
    assert document is not None
    return checksum([document])


def test_a_store_says_what_its_files_say_however_they_were_loaded(
    store: Path, tmp_path: Path, files: dict[str, Path]
) -> None:
    both = loaded(store, files["one"], files["two"])
    loaded(tmp_path / "other", files["two"])
    assert both.content == loaded(tmp_path / "other", files["one"]).content == content_of(ONE + TWO)
    assert both.triples == 7
    assert (
        machines(store)
        == machines(tmp_path / "other")
        == machines(files["one"], files["two"])
        == ["M1", "M2"]
    )


def test_a_file_takes_the_place_of_what_it_said_before(store: Path, files: dict[str, Path]) -> None:
    loaded(store, files["one"], files["two"])
    files["two"].write_text(TWO.replace("M2", "M3"), encoding="utf-8")
    found, _ = load_files(store, [files["one"], files["two"]])
    assert found is not None
    assert (found.added, found.replaced, found.known) == (
        (),
        (str(files["two"]),),
        (str(files["one"]),),
    )
    assert machines(store) == ["M1", "M3"]
    assert (
        len(list((store / PARTS).iterdir())) == 3
    )  # another process may still read the replaced part
    loaded(store, files["two"])
    assert len(list((store / PARTS).iterdir())) == 2


def test_twins_in_two_files_are_two_nodes_in_any_order_of_loading(
    store: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.ttl").write_text(
            PREFIX + ":M1 :limit [ :value [ :v 3 ] ] .", encoding="utf-8"
        )
    loaded(store, tmp_path / "one.ttl")
    twice = PREFIX + ":M1 :limit [ :value [ :v 3 ] ], [ :value [ :v 3 ] ] ."
    assert loaded(store, tmp_path / "two.ttl").content == content_of(twice)


def test_nothing_is_changed_where_a_file_has_an_error(store: Path, files: dict[str, Path]) -> None:
    found, problems = load_files(store, [files["one"], files["bad"]])
    assert found is None
    assert [problem.code for problem in problems] == ["FKG103"]
    assert not store.exists()
    before = loaded(store, files["one"])
    assert load_files(store, [files["two"], files["bad"]])[0] is None
    assert read_state(store) == before


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, files: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="exists and is not a store"):
        load_files(tmp_path, [files["one"]])
    with pytest.raises(UsageError, match="exists and is not a store"):
        load_files(files["two"], [files["one"]])


_KILLED = """
import sys
from pathlib import Path
from fedkg_compiler.graph.stores import store_writing

moment, store, *files = sys.argv[1:]
write = store_writing._write

def stopping(path, body):
    part = path.with_name(f".{path.name}.part")
    if moment == "during" and path.suffix == ".nt":
        part.write_bytes(body[: len(body) // 2])
    elif moment == "before" and path.name == "fedkg-store.json":
        part.write_bytes(body)
    elif moment == "marked" and path.suffix == ".nt":
        pass
    else:
        write(path, body)
        return
    print("now", flush=True)
    sys.stdin.read()

store_writing._write = stopping
store_writing.load_files(Path(store), [Path(file) for file in files])
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("moment", ["marked", "during", "before"])
def test_a_load_that_is_killed_leaves_the_store_as_it_was(
    store: Path, files: dict[str, Path], moment: str, first: bool
) -> None:
    before = None if first else loaded(store, files["one"])
    child = subprocess.Popen(
        [sys.executable, "-c", _KILLED, moment, str(store), str(files["two"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "now\n"
    if before is not None:
        document, notes = open_store(store)
        assert document is not None
        assert notes == ()  # it is running
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert (store / LOADING).exists()
    if before is not None:
        document, notes = open_store(store)
        assert document is not None
        assert document.content == before.content
        assert [(note.code, note.severity) for note in notes] == [("FKG144", "warning")]
        assert str(files["two"]) in notes[0].message
        assert machines(store) == ["M1"]
    again, _ = load_files(store, [files["two"]])
    assert again is not None
    assert again.recovered
    assert open_store(store)[1] == ()
    assert again.state.content == content_of(TWO if first else ONE + TWO)
    assert {path.name for path in (store / PARTS).iterdir()} == {
        f"{part.content}.nt" for part in again.state.parts
    }
    assert not list(store.glob(".*"))


def test_damage_is_reported_and_nothing_made_of_it(store: Path, files: dict[str, Path]) -> None:
    state = loaded(store, files["one"])
    part = store / PARTS / f"{state.parts[0].content}.nt"
    body = part.read_bytes()
    part.write_bytes(body.replace(b"M1", b"M9"))
    _, problems, _ = load_graph([], {}, [store])
    assert [problem.code for problem in problems] == ["FKG143"]
    assert "not what was written" in problems[0].message
    assert not list((store / CLOSED).glob("*"))
    part.write_bytes(body[:-9])
    assert "are incomplete" in open_store(store)[1][0].message
    with pytest.raises(FedkgError, match="are incomplete"):
        load_files(store, [files["two"]])
    (store / STORE_STATE).write_text("{", encoding="utf-8")
    assert "damaged, or from a newer fedkg" in open_store(store)[1][0].message
    (store / STORE_STATE).write_text(State().model_dump_json(), encoding="utf-8")
    assert "is empty" in open_store(store)[1][0].message


def test_what_follows_is_worked_out_once(
    store: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(store, files["one"])
    assert machines(store) == ["M1"]
    with recording() as inputs:
        monkeypatch.setattr(
            "fedkg_compiler.graph.load._close", lambda *_: pytest.fail("closed again")
        )
        monkeypatch.setattr(
            "fedkg_compiler.graph.stores.stored_triples._bytes",
            lambda *_: pytest.fail("read again"),
        )
        assert machines(store) == ["M1"]
    assert str(store / STORE_STATE) in inputs.files
    monkeypatch.undo()
    loaded(store, files["two"])
    assert not inputs.unchanged()
    assert machines(store) == ["M1", "M2"]


_CLOSING = """
import sys
from pathlib import Path
from fedkg_compiler.graph import load_graph
from fedkg_compiler.graph.stores import closure_cache

moment, store = sys.argv[1:]

def waiting(*_):
    print("now", flush=True)
    sys.stdin.read()

if moment == "triples":
    encoder = closure_cache.json.JSONEncoder
    closure_cache.json.dumps = lambda said, **named: (
        waiting() if "defined" in said else encoder(**named).encode(said)
    )
else:
    Path.rename = waiting
load_graph([], {}, [Path(store)])
"""


@pytest.mark.parametrize("moment", ["triples", "whole"])
def test_a_closure_whose_making_is_killed_is_none(
    store: Path, files: dict[str, Path], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(store, files["one"])
    child = subprocess.Popen(
        [sys.executable, "-c", _CLOSING, moment, str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "now\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    [part] = (store / CLOSED).iterdir()
    assert part.name.startswith(".")
    assert machines(store) == ["M1"]
    [entry] = (store / CLOSED).iterdir()  # the remainder is gone
    assert entry.name == part.name[1:33]
    monkeypatch.setattr("fedkg_compiler.graph.load._close", lambda *_: pytest.fail("closed again"))
    assert machines(store) == ["M1"]


def test_diagnostics_of_the_closure_are_repeated_on_every_load(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "odd.ttl"
    path.write_text(
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . <https://example.org/a> "
        "rdfs:lable 'a' .",
        encoding="utf-8",
    )
    loaded(store, path)
    first, again = (load_graph([], {}, [store]) for _ in range(2))
    assert [problem.code for problem in first[1]] == ["FKG115"]
    assert first[1] == again[1]
    assert first[0].terms() == again[0].terms()
    assert first[2] == again[2]


def test_mappings_that_were_accepted_hold_in_a_store_too(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "mapped.ttl"
    path.write_text(
        ONE.replace(":Mill rdfs:subClassOf :Machine .", "")
        + "@prefix fkg: <https://w3id.org/fedkg/ns#> . [] fkg:mappingSource :Mill ;"
        " fkg:mappingPredicate rdfs:subClassOf ; fkg:mappingTarget :Machine ; fkg:mappingStatus"
        ' "accepted" .',
        encoding="utf-8",
    )
    loaded(store, path)
    assert machines(path) == machines(store) == machines(store) == ["M1"]


@pytest.mark.slow
def test_the_oldest_closures_go(store: Path, tmp_path: Path, files: dict[str, Path]) -> None:
    loaded(store, files["one"])
    for number in range(MOST + 2):
        (tmp_path / "more.nt").write_text(f"<n:a> <n:b> <n:{number}> .\n", encoding="utf-8")
        assert machines(store, tmp_path / "more.nt") == ["M1"]
    (store / CLOSED / ".gone.999999999").mkdir()
    assert machines(store) == ["M1"]
    assert len(list((store / CLOSED).iterdir())) == MOST


def test_a_closure_that_cannot_be_read_is_worked_out_again(
    store: Path, files: dict[str, Path]
) -> None:
    loaded(store, files["one"])
    assert machines(store) == ["M1"]
    (entry,) = (store / CLOSED).iterdir()
    (entry / "said.json").write_text("{", encoding="utf-8")
    assert machines(store) == ["M1"]


def test_a_store_can_be_asked_for_its_triples(store: Path, files: dict[str, Path]) -> None:
    loaded(store, files["one"], files["two"])
    document, _ = open_store(store)
    assert document is not None
    assert len(document.triples) == 7
    assert isinstance(document.triples[0], ox.Quad)
    assert len(document.triples[:2]) == 2
