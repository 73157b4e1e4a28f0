"""The run folder: every file of a run, written so that a process may die at any moment.

Whole files are written beside their place and renamed; the CSV files only grow. A line that was cut off, or that belongs to rounds after
the last checkpoint, is removed when the run goes on.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedkg.errors import JobError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB, ENVIRONMENT, PACK, ARMS = "job.yaml", "environment.json", "pack.fkgpack", "arms.json"
RESULTS, SPLIT, REPORT, CHECKPOINTS, LOCK, THEORY = "results.json", "split.json", "report.html", "checkpoints", ".lock", "theory.json"

LEARNED = "learned.json"
"""What a learning of causes has found, as `fedkg.learned.Learned`."""

CSV_FIELDS: dict[str, tuple[str, ...]] = {
    "rounds.csv": (
        "arm",
        "round",
        "f1",
        "precision",
        "recall",
        "accuracy",
        "rmse",
        "mse",
        "loss",
        "train_loss",
        "threshold",
        "rho_worst",
        "rho_mean",
        "zone",
        "bytes",
        "bytes_up",
        "bytes_down",
        "bytes_paper",
        "seconds",
        "notes",
    ),
    "clients.csv": ("arm", "round", "client", "samples", "validity", "alpha", "share", "status"),
    "sites.csv": (
        *("arm", "client", "samples", "test_rows", "positives"),
        *("f1", "precision", "recall", "accuracy", "rmse", "mse", "loss", "violation"),
    ),
    "rules.csv": ("arm", "rule", "title", "kind", "rate", "bound_rows", "violated", "applied", "vacuous", "example"),
    "forecasts.csv": ("arm", "by", "mse", "mse_half", "sequences", "sequences_half", "steps", "steps_half", "sites"),
    "privacy.csv": ("arm", "unit", "what", "noise", "rate", "each", "releases", "epsilon", "delta", "clip", "accountant", "budget"),
    "sets.csv": ("arm", "client", "distance", "sparsity"),
    "properties.csv": ("arm", "client", "inference", "number", "value", "unit", "traces", "epsilon", "from", "to"),
    "causes.csv": ("arm", "driver", "driven", "strength", "lag"),
    "theory.csv": (
        *("arm", "round", "objective", "gradient2", "heterogeneity", "constrained", "gamma", "variance", "smoothness", "steepest", "valid"),
    ),
    "constants.csv": (
        *("arm", "local_steps", "clients", "theta", "theta_low", "theta_high", "draws", "radius"),
        *("infeasibility", "slope", "penalty", "limit", "upper", "bound", "lower", "note"),
    ),
    "checks.csv": ("rule", "title", "kind", "violated", "evaluations", "rate", "example"),
}
"""Files that grow, with their columns."""

CLOSING = ("rules.csv", "sites.csv", "forecasts.csv", "sets.csv", "properties.csv")
"""Those that a training writes once it is over."""

NOTES = " | "
"""What stands between two notes of a round."""

EXECUTOR = "executor: "
"""How the note begins that says by which executor a training is carried out, and why."""

Row = Mapping[str, Any]
"""One line of a CSV file by column. `Any`: a text or a number."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with the files of one run."""

    path: Path

    def exists(self) -> bool:
        """Whether a run has begun here."""
        return (self.path / ENVIRONMENT).is_file()

    def create(self) -> None:
        """Make the folder. Raises UsageError when something else is in its place."""
        try:
            (self.path / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(f"cannot make the run folder {self.path}", received=why, help="choose another --out") from error
        foreign = [name for name in (JOB, ARMS) if (self.path / name).exists()]
        if foreign and not self.exists() and not (self.path / LOCK).exists():
            raise UsageError(
                f"{self.path} holds part of something that is not a run", received=", ".join(foreign), help="choose another --out"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the run while in the block; the lock dies with the process. Raises UsageError when taken."""
        with (self.path / LOCK).open("w") as handle:
            _lock(handle, self.path)
            yield

    def write_text(self, name: str, text: str) -> Path:
        """Write a file whole or not at all."""
        return self.write_bytes(name, text.encode("utf-8"))

    def write_bytes(self, name: str, body: bytes) -> Path:
        """Write a file whole or not at all."""
        place = self.path / name
        partial = place.with_name(f".{place.name}.part")
        with partial.open("wb") as handle:
            handle.write(body)
            handle.flush()
            os.fsync(handle.fileno())
        partial.replace(place)
        return place

    def write_json(self, name: str, content: Any) -> Path:
        """Write JSON whole or not at all. `Any`: JSON."""
        return self.write_text(name, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def read_json(self, name: str) -> Any:
        """The content of a JSON file. Raises JobError when it is missing or damaged. `Any`: JSON."""
        place = self.path / name
        try:
            return json.loads(place.read_text(encoding="utf-8"))
        except OSError as error:
            raise JobError(
                f"{place} is missing: the run cannot go on",
                received=error.strerror or str(error),
                help="restore it from a copy, or start a new run with another --out",
            ) from error
        except ValueError as error:
            raise JobError(
                f"{place} is damaged: the run cannot go on",
                received=str(error),
                help="restore it from a copy, or start a new run with another --out",
            ) from error

    def environment(self) -> dict[str, Any]:
        """What the run was begun with. Raises JobError when it is missing or damaged, UsageError of a learning of causes. `Any`: JSON."""
        found = self.read_json(ENVIRONMENT)
        if isinstance(found, dict) and found.get("kind") == "causes":
            raise UsageError(
                f"{self.path} holds a learning of causes, which is done in one go: it has no rounds to count, to go on with or to repeat",
                help=f"what it found is in {self.path / 'report.html'}; for another run choose another --out",
            )
        sources = found.get("sources") if isinstance(found, dict) else None
        whole = isinstance(sources, list) and all(isinstance(source, dict) and {"path", "sha256"} <= source.keys() for source in sources)
        if not whole or not isinstance(found.get("job"), dict) or "pack_sha256" not in found:
            raise JobError(
                f"{self.path / ENVIRONMENT} is damaged: the run cannot go on",
                received="not what a run is begun with",
                help="restore it from a copy, or start a new run with another --out",
            )
        return dict(found)

    def records(self, arms: Sequence[str]) -> dict[str, dict[str, Any]]:
        """How far each arm is. Raises JobError when the list is missing, damaged or one of other arms. `Any`: JSON."""
        found = self.read_json(ARMS)
        if not isinstance(found, list) or [isinstance(entry, dict) and "done" in entry and entry.get("id") for entry in found] != list(
            arms
        ):
            raise JobError(
                f"{self.path / ARMS} is damaged: the run cannot go on",
                received="not the list of its trainings",
                help="restore it from a copy, or start a new run with another --out",
            )
        return {entry["id"]: entry for entry in found}

    def append(self, name: str, rows: Sequence[Row]) -> None:
        """Add lines to one of the growing files."""
        place = self.path / name
        fresh = not place.exists() or place.stat().st_size == 0
        text = _csv_text(CSV_FIELDS[name], rows, header=fresh)
        with place.open("a", encoding="utf-8", newline="") as handle:
            handle.write(text)

    def rows(self, name: str) -> list[dict[str, str]]:
        """The whole lines of a growing file; a last line that was cut off is left out."""
        place = self.path / name
        if not place.exists():
            return []
        text = place.read_bytes().decode("utf-8", errors="replace")
        whole = text[: text.rfind("\n") + 1]
        fields = CSV_FIELDS[name]
        return [
            row for row in csv.DictReader(io.StringIO(whole)) if None not in row and all(row.get(field) is not None for field in fields)
        ]

    def rewrite(self, name: str, rows: Sequence[Row]) -> None:
        """Replace a growing file by these lines, whole or not at all."""
        self.write_text(name, _csv_text(CSV_FIELDS[name], rows, header=True))


def next_folder(name: str, under: Path) -> Path:
    """The first of ``NAME-001``, ``NAME-002``, ... that is not there yet."""
    number = 1
    while (under / f"{name}-{number:03d}").exists():
        number += 1
    return under / f"{name}-{number:03d}"


def _csv_text(fields: Sequence[str], rows: Sequence[Row], *, header: bool) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fields, lineterminator="\n")
    if header:
        writer.writeheader()
    for row in rows:
        writer.writerow({field: _cell(row.get(field)) for field in fields})
    return out.getvalue()


def _cell(value: Any) -> str:
    """A cell's text; numbers keep every bit, unknown ones are empty, line breaks become blanks. `Any`: a text, a number or None."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return repr(float(value)) if isinstance(value, float) else " ".join(str(value).split("\n"))


def _lock(handle: IO[str], path: Path) -> None:
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows: runs there are not kept apart
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise UsageError(f"another process is working in {path}", help="wait for it, or choose another --out") from error
