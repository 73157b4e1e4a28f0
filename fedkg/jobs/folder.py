"""The run folder: every file of a run, written so that the process may die at any moment.

fedkg writes a file under a temporary name, appends its checksum to the log (`checksum_log`),
then renames it. If the process dies between the last two steps, the logged content is still there
under the temporary name, where reading finds it.

The CSV files only grow. fedkg logs their checksums before the next whole file, so a checkpoint
never has more rounds than the tables. On resume it removes unlogged lines and rounds after the last
checkpoint.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedkg._internal.safe_text import escape_csv_cell
from fedkg.errors import JobError, UsageError
from fedkg.jobs.checksum_log import EMPTY_FILE, LOG, FileState, RunLog, state_of
from fedkg.jobs.comparison_metric import FIGURE_COLUMNS
from fedkg.limits import parse_json, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JOB, ENVIRONMENT, PACK, TRIALS = "job.yaml", "environment.json", "pack.fkgpack", "trials.json"
RESULTS, SPLIT, REPORT, CHECKPOINTS, LOCK, THEORY = (
    "results.json",
    "split.json",
    "report.html",
    "checkpoints",
    ".lock",
    "theory.json",
)

INCIDENTS = "incidents.json"
"""Where the data violate rules, as `fedkg.evaluation.incidents.find_incidents` returns it.

Absent if they violate none, in private runs, and in runs over sites that keep their data."""

PREDICTION_INCIDENTS = "prediction_incidents.json"
"""The same for the answers of one model, with the `trial`, on test samples."""

LEARNED = "learned.json"
"""Findings of a causal discovery, as `fedkg.learned_knowledge_records.LearnedKnowledge`."""

REVIEWS = "reviews.jsonl"
"""Decisions about suggested rules (`fedkg suggest`), made after the run."""

CSV_FIELDS: dict[str, tuple[str, ...]] = {
    "rounds.csv": (
        "trial",
        "round",
        *FIGURE_COLUMNS,
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
    "clients.csv": ("trial", "round", "client", "samples", "validity", "alpha", "share", "status"),
    "exclusions.csv": (
        *("trial", "round", "client", "state", "decided_by", "reason", "since", "rounds", "help"),
    ),
    "rule_changes.csv": (
        *("trial", "round", "time", "pack", "previous"),
        *("confirmed", "not_confirmed", "difference"),
    ),
    "sites.csv": (
        *("trial", "client", "samples", "test_rows", "positives"),
        *(*FIGURE_COLUMNS, "violation", "violated", "evaluations"),
    ),
    "rules.csv": (
        "trial",
        "rule",
        "title",
        "kind",
        "rate",
        "bound_rows",
        "violated",
        "evaluations",
        "applied",
        "not_evaluated",
        "reason",
        "example",
    ),
    "knowledge.csv": (
        *("trial", "client", "test_rows", "figure", "model", "violation", "predicted"),
        *("knowledge", "contained", "masked"),
    ),
    "forecasts.csv": (
        "trial",
        "by",
        "mse",
        "mse_half",
        "sequences",
        "sequences_half",
        "steps",
        "steps_half",
        "sites",
    ),
    "privacy.csv": (
        "trial",
        "unit",
        "what",
        "noise",
        "rate",
        "each",
        "releases",
        "epsilon",
        "delta",
        "clip",
        "accountant",
        "budget",
        "randomness",
    ),
    "disclosures.csv": (*("trial", "message", "content", "direction", "when", "bytes", "readers"),),
    "sets.csv": ("trial", "client", "distance", "sparsity"),
    "properties.csv": (
        "trial",
        "client",
        "inference",
        "number",
        "value",
        "unit",
        "traces",
        "epsilon",
        "from",
        "to",
    ),
    "causes.csv": ("trial", "driver", "driven", "strength", "lag"),
    "baselines.csv": ("trial", "client", "by", "mse", "values"),
    "forecast_values.csv": (
        *("trial", "client", "channel", "unit", "time", "when"),
        *("actual", "model", "persistence", "seasonal", "mean"),
    ),
    "theory.csv": (
        *(
            "trial",
            "round",
            "objective",
            "gradient2",
            "heterogeneity",
            "constrained",
            "gamma",
            "gamma_samples",
            "divergence",
            "clipped",
            "variance",
            "smoothness",
            "steepest",
            "valid",
        ),
    ),
    "constants.csv": (
        *("trial", "local_steps", "clients", "theta", "theta_low", "theta_high", "draws", "radius"),
        *("infeasibility", "slope", "penalty", "limit", "upper", "bound", "lower", "note"),
    ),
    "checks.csv": (
        *("rule", "title", "kind", "violated", "evaluations", "rate", "reason", "example"),
    ),
}
"""The growing files with their columns."""

FINAL_TABLES = ("rules.csv", "sites.csv", "forecasts.csv", "sets.csv", "properties.csv")
"""Growing files that a trial writes at its end."""

RULE_CHANGES = "rule_changes.csv"
"""Changes of the rules between two rounds of a federation, by their first round; absent if there is
none. `pack-DIGEST.fkgpack` are the rules before."""

CHECKSUM_KEY = "checksums.key"
"""The key of a protected run's file checksums.

Without it `environment.json` reveals nothing about the content of data files.
"""

SWEEP_PLAN, FAILED_RUNS, COMPARISON_TABLE = "sweep.json", "failed.json", "comparison.csv"
"""Files of a sweep: the plan, the reasons of failed runs, the comparison as a table."""

RUN_FILES = frozenset(
    (
        *(
            JOB,
            ENVIRONMENT,
            PACK,
            TRIALS,
            RESULTS,
            SPLIT,
            REPORT,
            THEORY,
            LEARNED,
            INCIDENTS,
            PREDICTION_INCIDENTS,
            REVIEWS,
            CHECKSUM_KEY,
            *CSV_FIELDS,
        ),
        *("edges.csv", "losses.csv", SWEEP_PLAN, FAILED_RUNS, COMPARISON_TABLE),
    )
)
"""Names of the files that runs, sweeps and causal discovery write.

Each must have an entry in the log.
"""

READ_ATTEMPTS = 3
"""Attempts to read a file that another process may be replacing."""

RESTORE_HELP = "restore it from a copy, or start a new run in another folder"

NOTE_SEPARATOR = " | "
"""Separates the notes of a round."""

EXECUTOR_PREFIX = "executor: "
"""Start of the note that names the executor of a trial and the reason for it."""

Row = Mapping[str, Any]
"""A row of a CSV file by column. `Any`: a text or a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file that differs from what the run wrote.

    Attributes:
        file: path within the run folder.
        missing: whether the file does not exist.
        expected: the logged content.
        received: the content found.
    """

    file: str
    missing: bool
    expected: str
    received: str

    def error(self, folder: Path, help: str = RESTORE_HELP) -> JobError:
        """The error that reports this damage."""
        return JobError(
            f"{folder / self.file} is {'missing' if self.missing else 'damaged'}",
            expected=self.expected,
            received=self.received,
            help=help,
        )


class _GrowingFile:
    """Hash and size of a growing file, so that appending a line needs no second read."""

    def __init__(self, body: bytes) -> None:
        self.hash, self.size, self.is_logged = hashlib.sha256(body), len(body), True

    def add(self, body: bytes) -> None:
        self.hash.update(body)
        self.size += len(body)
        self.is_logged = False

    def state(self) -> FileState:
        return FileState(self.hash.hexdigest(), self.size)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with the files of one run.

    Attributes:
        path: the folder.
        log: the checksums of its files.
    """

    path: Path
    log: RunLog = field(init=False, repr=False, compare=False)
    _growing: dict[str, _GrowingFile] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "log", RunLog(self.path))

    def exists(self) -> bool:
        """Whether the folder contains a run. Raises JobError if its log is damaged."""
        return (self.path / ENVIRONMENT).is_file() or ENVIRONMENT in self.log.states()

    def is_finished(self) -> bool:
        """Whether the run, or the sweep, is finished. Raises JobError if its log is damaged."""
        return RESULTS in self.log.states()

    def create(self) -> None:
        """Create the folder. Raises UsageError if other files are in its place."""
        try:
            (self.path / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(
                f"cannot make the run folder {self.path}", received=why, help="choose another --out"
            ) from error
        foreign = [name for name in (JOB, TRIALS) if (self.path / name).exists()]
        if foreign and not self.exists() and not (self.path / LOCK).exists():
            raise UsageError(
                f"{self.path} contains files that do not belong to a run",
                received=", ".join(foreign),
                help="choose another --out",
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out while in the block; the lock ends with the process.

        Raises:
            UsageError: another process holds the lock.
        """
        with (self.path / LOCK).open("w") as handle:
            _lock(handle, self.path)
            yield

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file atomically."""
        return self.write_bytes(name, text.encode("utf-8"))

    def write_bytes(self, name: str, body: bytes, *, mode: int = 0o666) -> Path:
        """Write a file atomically; log its checksum and those of files that have grown.

        Args:
            mode: permissions, as for `os.open`.
        """
        target, state = self.path / name, state_of(body)
        grown = [(other, found) for other, found in self._growing.items() if not found.is_logged]
        for other, _ in grown:
            _sync(self.path / other)
        states = [(other, found.state()) for other, found in grown if other != name]
        if self.log.states().get(name) != state or not _has_state(target, state, growing=False):
            partial = _partial(target)
            partial.unlink(missing_ok=True)
            with open(
                partial, "wb", opener=lambda path, flags: os.open(path, flags, mode)
            ) as handle:
                handle.write(body)
                handle.flush()
                os.fsync(handle.fileno())
            self.log.add([*states, (name, state)])
            partial.replace(target)
        elif states:
            self.log.add(states)
        for _, found in grown:
            found.is_logged = True
        self._growing.pop(name, None)
        return target

    def log_files(self, names: Iterable[str]) -> None:
        """Log the checksums of files that other code writes, if they have changed."""
        found = [(name, state_of((self.path / name).read_bytes())) for name in names]
        changed = [(name, state) for name, state in found if self.log.states().get(name) != state]
        if changed:
            self.log.add(changed)

    def verify(self, name: str) -> Path:
        """The path of a file that matches its checksum.

        Raises JobError if it is missing or damaged.
        """
        if (damage := self._no_log() or self._damage(name)) is not None:
            raise damage.error(self.path)
        return self.path / name

    def read_bytes(self, name: str) -> bytes:
        """The logged content of a file.

        Raises JobError if the file or the log is missing or damaged.
        """
        for attempt in range(READ_ATTEMPTS):
            time.sleep(0.02 * attempt)
            state = self._state(name)
            if state is None:
                break
            for target in (self.path / name, _partial(self.path / name)):
                try:
                    body = read_file(target)
                except OSError:
                    continue
                body = body[: state.size] if name in CSV_FIELDS else body
                if state_of(body) == state:
                    return body
        raise (self._no_log() or self._difference(name)).error(self.path)

    def damage(self) -> tuple[Damage, ...]:
        """Every file that differs from the log, in the order of names.

        Client state in files (`*.rows`) belongs to a checkpoint, which has its checksums. Raises
        JobError if the log is damaged.
        """
        states = self.log.states()
        if (found := self._no_log()) is not None:
            return (found,)
        if not states:
            return ()
        there = {path.name for path in self.path.iterdir() if path.is_file()} & RUN_FILES
        there |= {
            f"{CHECKPOINTS}/{path.name}"
            for path in self.path.glob(f"{CHECKPOINTS}/[!.]*.safetensors")
        }
        damages = (self._damage(name) for name in sorted(there | states.keys()))
        return tuple(damage for damage in damages if damage is not None)

    def _no_log(self) -> Damage | None:
        """The damage if a run has no log; None if it has one or there is nothing to log."""
        gone = not (self.path / LOG).is_file()
        own = RUN_FILES - {JOB}  # a job file alone is not part of a run
        if self.log.states() or not any((self.path / name).exists() for name in own):
            return None
        return Damage(
            file=LOG,
            missing=gone,
            expected="a checksum of every file of the run",
            received="no such file" if gone else "no entries",
        )

    def _state(self, name: str) -> FileState | None:
        """The required content of a file.

        What was logged, plus lines that this object has appended.
        """
        own = self._growing.get(name)
        return self._logged(name) if own is None else own.state()

    def _logged(self, name: str) -> FileState | None:
        """The logged state of a file. A growing file of an unfinished run starts empty: its first
        lines are logged with the next whole file, and a process may die before that."""
        may_start = name in CSV_FIELDS and not self.is_finished()
        return self.log.states().get(name, EMPTY_FILE if may_start else None)

    def _damage(self, name: str) -> Damage | None:
        """The damage of a file, or None."""
        target = self.path / name
        for attempt in range(READ_ATTEMPTS):
            time.sleep(0.02 * attempt)
            state = self._logged(name)
            growing = name.endswith(f"/{LOG}") or (name in CSV_FIELDS and not self.is_finished())
            if state is not None and any(
                _has_state(path, state, growing=growing) for path in (target, _partial(target))
            ):
                return None
        return self._difference(name)

    def _difference(self, name: str) -> Damage:
        """The logged and the found content of a damaged file."""
        target, state = self.path / name, self._state(name)
        try:
            with target.open("rb") as file:
                body = hashlib.file_digest(file, "sha256").hexdigest()
                received = str(FileState(body, file.tell()))
        except OSError as error:
            received = error.strerror or str(error)
        return Damage(
            file=name,
            missing=not target.exists(),
            expected=f"no such file: {LOG} has no entry for it" if state is None else str(state),
            received=received,
        )

    def recover(self) -> list[str]:
        """Finish interrupted writes: rename logged files and remove other leftovers.

        Returns:
            The growing files of a finished run that had more lines than the log.
        """
        cut = []
        if not self.is_finished():
            for name in CSV_FIELDS.keys() - self.log.states().keys():
                (self.path / name).unlink(missing_ok=True)
        for name, state in self.log.states().items():
            target = self.path / name
            partial = _partial(target)
            if partial.exists():
                if not _has_state(target, state, growing=False) and _has_state(
                    partial, state, growing=False
                ):
                    partial.replace(target)
                partial.unlink(missing_ok=True)
            if (
                name in CSV_FIELDS
                and target.is_file()
                and target.stat().st_size > state.size
                and _has_state(target, state, growing=True)
            ):
                os.truncate(target, state.size)
                cut += [name] if self.is_finished() else []
        return cut

    def restore(self, name: str, body: bytes) -> bool:
        """Restore a file if this is its logged content; return whether it is."""
        target = self.path / name
        if self.log.states().get(name) != state_of(body):
            return False
        partial = _partial(target)
        partial.write_bytes(body)
        _sync(partial)
        partial.replace(target)
        return True

    def write_json(self, name: str, content: Any) -> Path:
        """Write JSON atomically. `Any`: JSON."""
        return self.write_text(name, json_text(content))

    def read_json(self, name: str) -> Any:
        """The content of a JSON file. Raises JobError if it is missing or damaged. `Any`: JSON."""
        try:
            return parse_json(self.read_bytes(name), str(self.path / name))
        except ValueError as error:
            raise JobError(
                f"{self.path / name} is damaged: the run cannot continue",
                received=str(error),
                help=RESTORE_HELP,
            ) from error

    def environment(self) -> dict[str, Any]:
        """What the run started with. `Any`: JSON.

        Raises:
            JobError: the file is missing or damaged.
            UsageError: the folder holds a causal discovery.
        """
        found = self.read_json(ENVIRONMENT)
        if isinstance(found, dict) and found.get("kind") == "causes":
            raise UsageError(
                f"{self.path} contains a causal discovery, which has no rounds to list, "
                "resume or repeat",
                help=f"see its results in {self.path / 'report.html'}; name the folder of a "
                "training run, or for a new run another --out",
            )
        sources = found.get("sources") if isinstance(found, dict) else None
        whole = isinstance(sources, list) and all(
            isinstance(source, dict) and {"path", "sha256"} <= source.keys() for source in sources
        )
        if not whole or not isinstance(found.get("job"), dict) or "pack_sha256" not in found:
            raise JobError(
                f"{self.path / ENVIRONMENT} is damaged: the run cannot continue",
                received="required fields are missing",
                help=RESTORE_HELP,
            )
        return dict(found)

    def records(self, trial_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The progress of each trial. `Any`: JSON.

        Raises:
            JobError: the list is missing, damaged, or has other trials.
        """
        found = self.read_json(TRIALS)
        if not isinstance(found, list) or [
            isinstance(entry, dict) and "done" in entry and entry.get("id") for entry in found
        ] != list(trial_ids):
            raise JobError(
                f"{self.path / TRIALS} is damaged: the run cannot continue",
                received="not the list of its trials",
                help=RESTORE_HELP,
            )
        return {entry["id"]: entry for entry in found}

    def append(self, name: str, rows: Sequence[Row]) -> None:
        """Append rows to a growing file. Raises JobError if the file is damaged."""
        growing = self._growing.get(name)
        if growing is None:
            begun = name in self.log.states()
            growing = self._growing[name] = _GrowingFile(self.read_bytes(name) if begun else b"")
        body = _csv_text(CSV_FIELDS[name], rows, header=growing.size == 0).encode("utf-8")
        with (self.path / name).open("ab") as handle:
            handle.truncate(growing.size)
            handle.write(body)
        growing.add(body)

    def rows(self, name: str, *, unlogged: bool = False) -> list[dict[str, str]]:
        """The rows of a growing file; none if the file does not exist.

        Args:
            unlogged: whether to include complete lines that are not logged yet, for a run that
                another
                process continues.

        Raises:
            JobError: the file is missing or damaged.
        """
        target = self.path / name
        if not target.exists() and name not in self.log.states():
            return []
        body = self.read_bytes(name)
        if unlogged:
            more = read_file(target)[len(body) :]
            body += more[: more.rfind(b"\n") + 1]
        text = io.StringIO(body.decode("utf-8", errors="replace"))
        return [
            row
            for row in csv.DictReader(text)
            if None not in row and all(row.get(field) is not None for field in CSV_FIELDS[name])
        ]

    def rewrite(self, name: str, rows: Sequence[Row]) -> None:
        """Replace the rows of a growing file atomically."""
        self.write_text(name, table_text(name, rows))


def json_text(content: Any) -> str:
    """A document in the form of the run folder's JSON files. `Any`: JSON."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def table_text(name: str, rows: Sequence[Row]) -> str:
    """The content of a growing file with these rows."""
    return _csv_text(CSV_FIELDS[name], rows, header=True)


def _partial(target: Path) -> Path:
    """The temporary name of a file."""
    return target.with_name(f".{target.name}.part")


def _has_state(target: Path, state: FileState, *, growing: bool) -> bool:
    """Whether a file has this content; for a growing file unlogged lines may follow."""
    try:
        with target.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < state.size or (size > state.size and not growing):
                return False
            if growing:
                return state_of(file.read(state.size)) == state
            return hashlib.file_digest(file, "sha256").hexdigest() == state.sha256
    except OSError:
        return False


def _sync(target: Path) -> None:
    """Flush a file to disk."""
    with target.open("rb+") as file:
        os.fsync(file.fileno())


def next_free_folder(name: str, under: Path) -> Path:
    """The first of ``NAME-001``, ``NAME-002``, ... that does not exist."""
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
        writer.writerow({field: escape_csv_cell(_cell(row.get(field))) for field in fields})
    return out.getvalue()


def _cell(value: Any) -> str:
    """The text of a cell. `Any`: a text, a number or None.

    Numbers keep every bit, unknown ones are empty, and line breaks become spaces.
    """
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return repr(float(value)) if isinstance(value, float) else " ".join(str(value).split("\n"))


def _lock(handle: IO[str], path: Path) -> None:
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows has no such locks
        return
    for attempt in range(READ_ATTEMPTS):  # `fedkg watch` holds it for a moment to look at it
        time.sleep(0.02 * attempt)
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
    raise UsageError(
        f"another process is working in {path}",
        help="wait until it ends, or start a new run with another --out",
    )
