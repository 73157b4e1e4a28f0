"""Damage to the files of a run is reported with checksums, or repaired to the same bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fedkg.errors import JobError, Stopped
from fedkg.jobs import Event, resume, run_job
from fedkg.jobs.checksum_log import LOG
from fedkg.jobs.checksum_verification import verify
from fedkg.jobs.events import EVENTS
from fedkg.jobs.file_damage import REBUILDABLE
from fedkg.jobs.folder import RESULTS, RunFolder
from fedkg.jobs.reproduce import reproduce

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture
def run(job_fields: dict[str, Any], tmp_path: Path) -> Path:
    return run_job({**job_fields, "corrupt": None}, out=tmp_path / "run").folder


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The files of a run by name, without the log of events, which has no checksum."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != EVENTS
    }


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


def test_every_file_of_a_run_is_in_its_log(run: Path) -> None:
    logged = {"sha256", "size", "file", "previous"}
    entries = [json.loads(line) for line in (run / LOG).read_text().splitlines()]
    assert all(entry.keys() == logged for entry in entries)
    assert {entry["file"] for entry in entries} | {LOG, ".lock"} == bytes_of(run).keys()
    found = verify(run)
    assert found.problems == ()
    assert (found.files, found.entries) == (len(bytes_of(run)) - 2, len(entries))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_damage_to_any_file_is_reported_or_rebuilt(run: Path, tmp_path: Path, damage: Any) -> None:
    whole = bytes_of(run)
    for name in sorted(whole.keys() - {".lock"}):
        copy = shutil.copytree(run, tmp_path / "copy")
        damage(copy / name)
        [problem] = verify(copy).problems
        assert name in problem
        with pytest.raises(JobError, match=name):
            reproduce(copy)
        if (name, damage) == (LOG, cut):
            name = RESULTS  # the log's last entry recorded this file
        events: list[Event] = []
        if name in REBUILDABLE:
            resume(copy, on_event=events.append)
            how = "missing" if damage is Path.unlink else "damaged"
            assert any(f"{name} was {how}: rebuilt from" in event.message for event in events)
            assert bytes_of(copy) == whole | {LOG: (copy / LOG).read_bytes()}
            assert verify(copy).problems == ()
        else:
            with pytest.raises(JobError) as caught:
                resume(copy)
            assert name in str(caught.value)
            assert caught.value.help
        shutil.rmtree(copy)


def test_two_flipped_bytes_in_a_checkpoint_of_a_stopped_run_are_reported(
    job_fields: dict[str, Any], tmp_path: Path
) -> None:
    def interrupt(event: Event) -> None:
        if event.kind == "round":
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_job(job_fields, out=tmp_path / "run", on_event=interrupt)
    [place] = (tmp_path / "run" / "checkpoints").glob("*.safetensors")
    body = bytearray(place.read_bytes())
    body[-3] ^= 1
    body[-9] ^= 4
    place.write_bytes(body)
    with pytest.raises(JobError, match=rf"{place.name} is damaged") as caught:
        resume(tmp_path / "run")
    assert caught.value.expected.startswith("sha256 ")
    assert caught.value.received.startswith("sha256 ")


def test_files_of_two_trainings_that_change_places_are_reported(run: Path) -> None:
    one, other = sorted((run / "checkpoints").glob("*.safetensors"))
    one.rename(run / "x")
    other.rename(one)
    (run / "x").rename(other)
    assert len(verify(run).problems) == 2
    with pytest.raises(JobError, match="is damaged"):
        resume(run)


def test_a_log_that_was_cut_off_is_reported(run: Path, tmp_path: Path) -> None:
    lines = (run / LOG).read_bytes().splitlines(keepends=True)
    for end in (0, 3, len(lines) // 2, len(lines) - 1):
        copy = shutil.copytree(run, tmp_path / "copy")
        (copy / LOG).write_bytes(b"".join(lines[:end]))
        assert verify(copy).problems
        shutil.rmtree(copy)
    (run / LOG).write_bytes(b"".join([*lines[:3], *lines[4:]]))
    with pytest.raises(JobError, match=r"log\.jsonl, line 4 is damaged: it does not continue"):
        resume(run)


def test_a_log_that_was_written_anew_lacks_the_noted_checksum(run: Path) -> None:
    noted = verify(run).checksum
    resume(run)
    assert verify(run, checksum=noted).problems == ()
    names = json.loads((run / "trials.json").read_text())
    (run / "trials.json").write_text(json.dumps(names))
    files = [name for name in bytes_of(run) if name not in (LOG, ".lock")]
    (run / LOG).unlink()
    RunFolder(run).log_files(files)
    assert verify(run).problems == ()
    [problem] = verify(run, checksum=noted).problems
    assert noted in problem


def test_an_edited_job_is_a_difference_and_the_same_job_is_put_back(run: Path) -> None:
    text = (run / "job.yaml").read_text()
    (run / "job.yaml").write_text("# my notes\n" + text)
    resume(run)
    assert (run / "job.yaml").read_text() == text
    (run / "job.yaml").write_text(text.replace("rounds: 3", "rounds: 4"))
    with pytest.raises(JobError, match=r"training\.rounds: 3 -> 4"):
        resume(run)


@pytest.mark.slow
def test_damage_to_rows_of_clients_in_files_is_reported(
    job_fields: dict[str, Any], tmp_path: Path
) -> None:
    training = {**job_fields["training"], "client_memory": 1}
    fields = {**job_fields, "corrupt": None, "compare": {}, "algorithm": "ditto"}
    fields |= {"model": {"hidden": [512, 256]}, "training": training}
    run = run_job(fields, out=tmp_path / "run").folder
    assert verify(run).problems == ()
    assert not reproduce(run).differences
    [rows] = (run / "checkpoints").glob("*.rows")

    def flip_all(path: Path) -> None:
        path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))

    for damage in (flip_all, cut, Path.unlink, shutil.rmtree):
        copy = shutil.copytree(run, tmp_path / "copy")
        place = copy / rows.relative_to(run)
        damage(place if damage is shutil.rmtree else sorted(place.rglob("0.rows"))[0])
        [problem] = verify(copy).problems
        assert rows.name in problem
        with pytest.raises(JobError, match="rows"):
            reproduce(copy)
        with pytest.raises(JobError, match="rows"):
            resume(copy)
        shutil.rmtree(copy)


def test_what_is_left_of_a_run_is_not_overwritten(run: Path, job_fields: dict[str, Any]) -> None:
    (run / LOG).unlink()
    (run / "environment.json").unlink()
    left = bytes_of(run)
    with pytest.raises(JobError, match=r"log\.jsonl is missing"):
        resume(run)
    with pytest.raises(JobError, match=r"log\.jsonl is missing"):
        run_job({**job_fields, "corrupt": None}, out=run)
    assert bytes_of(run) == left
