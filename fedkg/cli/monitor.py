"""`fedkg monitor`: evaluate rules on a stream of rows."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedkg._internal.safe_text import count_noun, escape_hidden
from fedkg.cli.console import print_note
from fedkg.cli.evaluate import require_table
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.cli.site_options import SiteName, SitesPath, load_selected, require_sites
from fedkg.errors import Stopped, TableError, UsageError

if TYPE_CHECKING:
    from fedkg.evaluation.stream import RowVerdict, RuleStream
    from fedkg.pack import Pack
    from fedkg.tables import Table
    from fedkg.tables.row_stream import RowStream
    from fedkg.tables.times import DateOrder

PIECE = 1 << 18
"""Bytes that are read at once."""

WAIT = 0.2
"""Seconds between two looks at a growing file."""

STATE_FORMAT = 1
"""Version of the state file."""

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """When rates are written: after so many rows, or so many seconds; 0: at the end alone."""

    rows: int = 0
    seconds: float = 0.0


def monitor(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="PACK|RULES... [FILE|-]",
            help="A pack, or rule files and graphs; then a CSV file, or - for standard input.",
        ),
    ],
    sites: SitesPath = None,
    site: SiteName = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for further rows of the file.")
    ] = False,
    every: Annotated[
        str,
        typer.Option(
            "--every", metavar="N", help="Write rates after N rows, or after a time such as 10s."
        ),
    ] = "",
    verdicts: Annotated[
        Literal["violated", "all", "none"],
        typer.Option("--verdicts", help="Which verdicts get a line."),
    ] = "violated",
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="RUN|OLD.json",
            help="A run folder, or a result of `eval --json`, to compare violation rates with.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Save the state here, and continue from it."),
    ] = None,
    dates: Annotated[
        Literal["day-first", "month-first"] | None,
        typer.Option("--dates", help="Order of day and month in dates such as 03/04/2024."),
    ] = None,
    skip_missing: Annotated[
        bool,
        typer.Option("--skip-missing", help="Skip rules that need missing columns, and list them."),
    ] = False,
) -> None:
    """Evaluate rules on rows as they arrive, with bounded memory.

    Rows are CSV lines with a header first, on standard input or in a file, in order of time. Every
    line of the output is a JSON object: a violation as soon as no later row can change it, rates
    with --every, and the end. The counts are those of `fedkg eval` on all rows. Rules that need all
    rows are listed and not evaluated.

    With --baseline, rates have the field `drift`, and exit code 1 means that a violation rate is
    significantly higher: the 95 % interval of the difference is above 0.

    \b
    Examples:
      logger | fedkg monitor rules.fkg --every 10s
      fedkg monitor plant.fkgpack history.csv --follow --state monitor.json
      fedkg monitor rules.fkg --sites sites.yaml --site north - --baseline runs/tuesday
    """
    from fedkg import authoring
    from fedkg.cli.run_job import stop_on_sigterm

    began = time.monotonic()
    require_sites(sites, site)
    if sites is not None and not site:
        raise UsageError(
            "--sites requires --site: fedkg monitor reads the rows of one site",
            help="add --site NAME",
        )
    often = parse_every(every)
    if state is not None:
        check_output_path(state, "monitor.json", option="--state", inputs=[*files, sites, baseline])
    *rules, data = authoring.parse_sources(files)
    if authoring.is_authored(data) or str(data).lower().endswith(".fkgpack"):
        rules, data = [*rules, data], Path("-")
    if not rules:
        raise UsageError("the rules are missing", help="fedkg monitor rules.fkg table.csv")
    path = None if str(data) == "-" else Path(data)
    if path is None and follow:
        raise UsageError(
            "--follow requires a file",
            help="leave out --follow, because fedkg reads standard input until its end; "
            "or name a file",
        )
    if path is not None:
        require_table(path, "a CSV file, or - for standard input")
    pack, _ = authoring.load_or_compile(rules)
    watch = _Monitor(
        pack,
        name="standard input" if path is None else str(path),
        site=(sites, site) if sites is not None else None,
        dates=dates,
        skip_missing=skip_missing,
        verdicts=verdicts,
        before=None if baseline is None else read_rates(baseline, pack),
        state=state,
    )
    watch.load(again=path is None)
    try:
        with stop_on_sigterm():
            pieces = (
                _read_input()
                if path is None
                else _read_file(path, watch.consumed, follow, has_state=state is not None)
            )
            watch.run(pieces, often, began)
    except KeyboardInterrupt as error:
        watch.save()
        raise Stopped(
            f"stopped after {count_noun(watch.stream.rows, 'row')}",
            help=f"the same command continues from {state}"
            if state is not None
            else "add --state FILE; the same command then continues",
        ) from error
    if any(one["drift"]["state"] == "higher" for one in watch.rates().values() if "drift" in one):
        raise typer.Exit(1)


class _Monitor:
    """One stream: its rows, its verdicts and its state file."""

    def __init__(
        self,
        pack: Pack,
        *,
        name: str,
        site: tuple[Path, str] | None,
        dates: DateOrder | None,
        skip_missing: bool,
        verdicts: str,
        before: dict[str, tuple[int, int]] | None,
        state: Path | None,
    ) -> None:
        from fedkg.evaluation.stream import KINDS, RuleStream
        from fedkg.tables.row_stream import RowStream

        self._pack, self._dates, self._before, self._state = pack, dates, before, state
        self._site, dialect = None, None
        if site is not None:
            described, _ = load_selected(*site)
            self._site = (described, site[1])
            dialect = described.sites[site[1]].dialect.dialect()
        self.rows: RowStream = RowStream(name, dialect)
        missing: Literal["skip", "error"] = "skip" if skip_missing else "error"
        self.stream: RuleStream = RuleStream(pack, missing=missing)
        self._report = KINDS if verdicts == "all" else KINDS[1:2] if verdicts == "violated" else ()
        self._told: set[str] = set()

    @property
    def consumed(self) -> int:
        """Bytes of the stream that the state contains."""
        return self.rows.consumed

    def run(self, pieces: Iterator[bytes], often: Every, began: float) -> None:
        """Evaluate the pieces of the stream to its end; an empty piece says that time passes."""
        rows, moment = self.stream.rows, time.monotonic()
        for piece in pieces:
            if piece:
                self._add(self.rows.feed(piece))
            due = often.rows and self.stream.rows - rows >= often.rows
            if due or (often.seconds and time.monotonic() - moment >= often.seconds):
                rows, moment = self.stream.rows, time.monotonic()
                self._tell(self._summary("rates", began))
                self.save()
        if self._state is None:  # otherwise the stream continues, perhaps within a row
            self._add(self.rows.feed(b"", end=True))
        if not self.rows.headers:
            raise TableError(
                f"{self.rows.name} contains no complete header line",
                expected="a header line that ends with a line break, then rows of data",
            )
        if self._state is None:
            self._tell_verdicts(self.stream.finish(self._report))
        self.save()
        self._tell(self._summary("end", began))

    def _add(self, table: Table) -> None:
        if not table.headers or not (table.rows or self.stream.rows == 0):
            return
        for note in table.found.notes:
            print_note(f"note: {note}")
        self._tell_verdicts(self.stream.add(self._converted(table), self._report))
        for rule, reason in self.stream.not_monitored.items():
            if rule not in self._told:
                self._told.add(rule)
                print_note(f"note: {rule} is not evaluated on a stream: {reason}")

    def _converted(self, table: Table) -> Table:
        """The rows in the units of the rules."""
        from dataclasses import replace

        if self._site is not None:
            from fedkg.sites.reader import read_rows

            contract = self._pack.manifest.contract
            return read_rows(self._site[0], self._site[1], table, contract)
        return replace(table, dates=self._dates)

    def _tell_verdicts(self, found: list[RowVerdict]) -> None:
        for one in found:
            line = asdict(one)
            known = math.isfinite(one.robustness)
            self._tell(
                {"event": line.pop("verdict")}
                | {key: value for key, value in line.items() if value != ""}
                | {"robustness": one.robustness if known else None}
            )

    def rates(self) -> dict[str, dict[str, Any]]:
        """By rule the counts, the rate, and the drift with a baseline. `Any`: JSON."""
        from fedkg.evaluation.violation_rate_drift import measure_drift

        found = self.stream.rule_counts()
        for name, one in found.items():
            if self._before is not None:
                decided = one["satisfied"] + one["violated"]
                drift = measure_drift(one["violated"], decided, self._before.get(name))
                one["drift"] = asdict(drift)
            if name in self.stream.not_monitored:
                one["not_monitored"] = self.stream.not_monitored[name]
        return found

    def _summary(self, event: str, began: float) -> dict[str, Any]:
        from fedkg.evaluation.violation_rate_drift import METHOD

        return {
            "event": event,
            "rows": self.stream.rows,
            "waiting": self.stream.waiting,
            "held": self.stream.held,
            "seconds": round(time.monotonic() - began, 3),
            "rules": self.rates(),
            **({} if self._before is None else {"interval": METHOD}),
        }

    def _tell(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False, allow_nan=False)
        typer.echo(escape_hidden(text))
        sys.stdout.flush()

    def load(self, *, again: bool) -> None:
        """Continue from the state file, if it exists.

        Args:
            again: whether the stream begins with its header again.

        Raises UsageError: the file is no state of a stream under these rules.
        """
        from fedkg.limits import parse_json, read_file

        if self._state is None or not self._state.exists():
            return
        try:
            document = parse_json(read_file(self._state), str(self._state))
            if document["format"] != STATE_FORMAT or document["rules"] != self._digest():
                raise ValueError("the state of other rules, another site or another fedkg version")
            empty = self.rows.restore(document["stream"], again=again)
            self.stream.restore(document["evaluation"], self._converted(empty))
            if self.rows.consumed < 0:
                raise ValueError(f"a negative position, {self.rows.consumed}")
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise UsageError(
                f"{self._state} does not hold the state of this stream with these rules",
                received=str(error)
                if isinstance(error, ValueError)
                else "a file without the fields of a state, or with other values in them",
                help="choose another --state, or remove the file to start again",
            ) from error

    def save(self) -> None:
        """Write the state file in one step."""
        if self._state is not None:
            document = {
                "format": STATE_FORMAT,
                "rules": self._digest(),
                "stream": self.rows.to_json(),
                "evaluation": self.stream.to_json(),
            }
            write_atomically(self._state, json.dumps(document, ensure_ascii=False))

    def _digest(self) -> str:
        from fedkg.pack.file import pack_digest

        site = "" if self._site is None else self._site[1]
        return hashlib.sha256(f"{pack_digest(self._pack)} {site}".encode()).hexdigest()


def parse_every(text: str) -> Every:
    """The option `--every`: a number of rows, or a time in s, min or h. Raises UsageError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|)\s*", text)
    if not text:
        return Every()
    value = 0.0 if match is None else float(match.group(1))
    if match is None or not value or (not match.group(2) and not value.is_integer()):
        raise UsageError(
            "--every takes a number of rows or a time",
            expected="1000, 10s, 5 min or 1 h",
            received=text,
        )
    if match.group(2):
        return Every(seconds=value * UNITS[match.group(2)])
    return Every(rows=int(value))


def read_rates(path: Path, pack: Pack) -> dict[str, tuple[int, int]]:
    """Violated and decided evaluations by rule, of a run folder or of a result of `eval --json`.

    Of a run, rules about the data alone count on the tables of all sites, and rules about the
    output on the test samples of the trial that `trial_to_use` chooses, which a note names. Rules
    of `pack` under another name get the counts of their old name. Those with another meaning than
    in the run are left out, and notes name them.

    Raises:
        UsageError, JobError, PackError: it is neither, or damaged.
        MissingExtra: the rules of the run differ, and the compiler is not installed.
    """
    from fedkg.evaluation.earlier_evaluation_comparison import baseline_counts, load_baseline

    if not path.is_dir():
        return baseline_counts(load_baseline(path), str(path))
    from fedkg import authoring
    from fedkg.jobs.file_damage import require_run
    from fedkg.jobs.folder import PACK, TRIALS, RunFolder
    from fedkg.jobs.rule_pack import with_trained_output
    from fedkg.jobs.schema.job_reader import parse_job
    from fedkg.jobs.trial_expansion import plan_trials, trial_to_use
    from fedkg.pack.file import pack_digest, read_pack

    folder = RunFolder(path)
    require_run(folder)
    environment = folder.environment()  # a causal discovery has no trials
    job = parse_job(environment["job"], name=str(path), base=path)
    chosen = str(folder.read_json(TRIALS)[0]["id"])
    if len(folder.read_json(TRIALS)) > 1:
        chosen = trial_to_use(plan_trials(job)).id
        print_note(f"baseline: trial {chosen} of {path}")
    rows = [
        *folder.rows("checks.csv"),
        *(row for row in folder.rows("rules.csv") if row["trial"] == chosen),
    ]
    before = {
        row["rule"]: (int(row["violated"] or 0), int(row["evaluations"] or 0)) for row in rows
    }
    trained = read_pack(folder.read_bytes(PACK), name=str(path / PACK))
    pack = with_trained_output(job, pack)
    if pack_digest(trained) != pack_digest(pack):
        for rule in authoring.compare_packs(trained, pack):
            if rule.change == "renamed" and not rule.because:
                if rule.was in before:
                    before[rule.name] = before.pop(rule.was)
            elif rule.change not in ("same", "removed"):
                before.pop(rule.name, None)
                change = "; ".join(line.strip() for line in rule.lines()[:2])
                print_note(f"note: no drift of a rule that differs from {path}: {change}")
    return before


def _read_input() -> Iterator[bytes]:
    """Pieces of standard input; an empty one when nothing arrives for a while."""
    source = sys.stdin.buffer.fileno()
    while True:
        try:
            ready = select.select([source], [], [], WAIT)[0]
        except (OSError, ValueError):  # a kind of input that cannot be waited for
            ready = [source]
        if not ready:
            yield b""
            continue
        piece = os.read(source, PIECE)
        if not piece:
            return
        yield piece


def _read_file(path: Path, start: int, follow: bool, *, has_state: bool) -> Iterator[bytes]:
    """Pieces of a file from a position on; with `follow`, of what is written to it later.

    Raises TableError if the file becomes shorter, or another file takes its place.
    """
    with path.open("rb") as file:
        number = os.fstat(file.fileno()).st_ino
        at = start
        if os.fstat(file.fileno()).st_size < start:
            raise _replaced(path, has_state)
        file.seek(start)
        while True:
            piece = file.read(PIECE)
            at += len(piece)
            if piece:
                yield piece
                continue
            if not follow:
                return
            yield b""
            time.sleep(WAIT)
            now = path.stat()
            if now.st_ino != number or now.st_size < at:
                raise _replaced(path, has_state)


def _replaced(path: Path, has_state: bool) -> TableError:
    return TableError(
        f"{path} became shorter, or was replaced by another file",
        help="append rows to one file; for a new file "
        + ("choose another --state" if has_state else "start the command again"),
    )
