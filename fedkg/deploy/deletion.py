"""Delete what a server has of one site. The models and sums over several sites remain."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.causes_server import LEARNING, SUFFIX
from fedkg.deploy.federation_folders import (
    CHANGE,
    CHANGE_DOCUMENT,
    INVITATIONS,
    RUN,
    dismiss_site,
    read_json,
    write_json,
)
from fedkg.deploy.kept_descriptions import forget_site
from fedkg.deploy.rule_change import locked_change
from fedkg.deploy.server_lifecycle import (
    SiteStatus,
    is_running,
    load_change_fields,
    read_status,
    save_status,
)
from fedkg.errors import FederationError, MissingExtra
from fedkg.jobs.events import EVENTS
from fedkg.jobs.folder import CSV_FIELDS, LEARNED, NOTE_SEPARATOR, RESULTS, SPLIT, RunFolder

DELETIONS = "deletions.json"
"""File of a server with every deletion: of which site, when, what, and what remains."""

REMAINS = (
    "the models: each is an average with its updates, from which they cannot be removed",
    "figures over all sites (rounds.csv, rules.csv, checks.csv, results.json)",
    "its name in the job and in the record of its deletion",
    "copies of the run folder elsewhere, trackers and notifications",
)
"""What a server keeps, or cannot delete."""

MENTIONS = {"example": "\n", "notes": NOTE_SEPARATOR, "confirmed": "; ", "not_confirmed": "; "}
"""Columns of tables over all sites with parts that may name one, and what separates these parts."""

ANSWERS = frozenset(("confirmed", "problems"))
"""Fields of a change of the rules that list sites."""

DISCOVERED = (
    "what follows from its states (edges.csv, losses.csv, learned.json, results.json, report.html)"
)
"""What it keeps of a causal discovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What was deleted of a site.

    Attributes:
        site: its name.
        time: when, in seconds since 1970.
        requested: whether the site asked for it.
        deleted: what was deleted.
        remains: what was not.
    """

    site: str
    time: float
    requested: bool
    deleted: tuple[str, ...]
    remains: tuple[str, ...] = REMAINS


def delete_site(folder: Path, name: str) -> Deletion:
    """Delete what a server has of a site: key, invitation, record of contact, and its rows in the
    tables, events and report of every run. The deletion is recorded.

    Args:
        folder: the folder of the server.
        name: the site.

    Raises:
        UsageError: the federation has no such site.
        FederationError: the server is running.
        JobError: a run is damaged, or another process uses it.
    """
    status = read_status(folder)
    if is_running(status):
        raise FederationError(
            f"the server of {folder} is running and uses the data of {name}",
            help="stop the server with Ctrl-C, and run this command again; afterwards `fedkg "
            f"server run {folder} --without {name}` trains without the site",
        )
    deleted, remains = ["its key"], list(REMAINS)
    interrupted = {"site": name, "deleted": deleted}
    earlier = [one for one in list_deletions(folder) if not interrupted.items() <= one.items()]
    dismiss_site(folder, name)
    found = Deletion(
        site=name, time=time.time(), requested=status.sites[name].deletion, deleted=tuple(deleted)
    )
    # first: the record of a deletion that is interrupted
    write_json(folder / DELETIONS, {"deletions": [*earlier, asdict(found)]})
    for path in (folder / INVITATIONS / f"{name}.zip", folder / CHANGE / f"{name}.zip"):
        if path.exists():
            path.unlink(missing_ok=True)  # `change-rules` may run
            deleted.append(str(path.relative_to(folder)))
    if forget_site(folder, name):
        deleted.append("what it told about its data")
    deleted += _delete_from_change(folder, name)
    for path in sorted(folder.glob(f"{LEARNING}*{SUFFIX}")):
        path.unlink()
        deleted.append(f"{path.name}: the last epoch of an unfinished discovery")
    for path in sorted(folder.glob(f"{RUN}*")):
        run = RunFolder(path)
        if run.exists():
            with run.locked():
                deleted += [f"{path.name}: {what}" for what in _delete_from_run(run, name)]
            if _is_discovery(run) and name in run.read_json(RESULTS)["clients"]:
                remains.append(f"{path.name}: {DISCOVERED}")
    deleted.append("times and sizes of its messages")
    found = replace(found, deleted=tuple(deleted), remains=tuple(remains))
    write_json(folder / DELETIONS, {"deletions": [*earlier, asdict(found)]})
    status.sites[name] = SiteStatus(left=True)  # last: a deletion that is interrupted stays asked
    save_status(folder, status)
    return found


def list_deletions(folder: Path) -> list[dict[str, Any]]:
    """All recorded deletions, as fields of `Deletion`. `Any`: JSON."""
    path = folder / DELETIONS
    if not path.exists():
        return []
    found = read_json(path, "a deletion").get("deletions")
    if not isinstance(found, list):
        raise FederationError(
            f"{path} does not list deletions",
            expected='{"deletions": [...]}',
            help="restore it from a copy",
        )
    return found


def _delete_from_change(folder: Path, name: str) -> list[str]:
    """Delete what an open change of the rules records about a site."""
    with locked_change(folder):
        change = load_change_fields(folder)
        listed = ANSWERS & change.keys()
        kept = {**change, **{key: _without_key(change[key], name) for key in listed}}
        if kept == change:
            return []
        write_json(folder / CHANGE / CHANGE_DOCUMENT, kept)
    return [f"its answers in {CHANGE}/{CHANGE_DOCUMENT}"]


def _delete_from_run(run: RunFolder, name: str) -> list[str]:
    """Delete the rows about a site from a run, and draw its report again."""
    run.recover()
    found: list[str] = []
    for table, columns in CSV_FIELDS.items():
        rows = run.rows(table)
        kept = [
            {column: _without_mention(column, text, name) for column, text in row.items()}
            for row in rows
            if row.get("client") != name
        ]
        if kept != rows:
            run.rewrite(table, kept)
            found.append(
                f"{len(rows) - len(kept)} rows of {table}"
                if "client" in columns
                else f"what names it in {table}"
            )
    if SPLIT in run.log.states():
        split = run.read_json(SPLIT)
        kept_split = _without_key(split, name)
        if kept_split != split:
            run.write_json(SPLIT, kept_split)
            found.append(f"its counts in {SPLIT}")
    events = run.path / EVENTS
    if events.exists():
        lines = events.read_text(encoding="utf-8").splitlines(keepends=True)
        rest = [line for line in lines if not _is_about(line, name)]
        if rest != lines:
            replace_file(events, "".join(rest).encode())
            found.append(f"{len(lines) - len(rest)} events")
    if run.is_finished() and not _is_discovery(run):
        try:
            from fedkg.report import write_report

            write_report(run.path)
            found.append("its rows in the report")
        except MissingExtra:  # without the libraries of reports none was written
            pass
    return found


def _without_mention(column: str, text: str, name: str) -> str:
    """A cell without the parts that name a site."""
    separator = MENTIONS.get(column)
    if separator is None:
        return text
    return separator.join(part for part in text.split(separator) if not _names(part, name))


def _names(text: str, name: str) -> bool:
    """Whether a text has the name of a site as a word."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _is_discovery(run: RunFolder) -> bool:
    """Whether a run is a finished causal discovery."""
    return run.is_finished() and LEARNED in run.log.states()


def _without_key(value: Any, name: str) -> Any:
    """JSON without this key at any depth. `Any`: JSON."""
    if isinstance(value, dict):
        return {key: _without_key(one, name) for key, one in value.items() if key != name}
    return [_without_key(one, name) for one in value] if isinstance(value, list) else value


def _is_about(line: str, name: str) -> bool:
    """Whether an event is about a site, or names it."""
    try:
        event = json.loads(line)
    except ValueError:
        return False
    return event.get("site") == name or _names(str(event.get("message", "")), name)
