"""Rules that the server proposes to a site: received, shown, and confirmed by its operator.

    SITE/rules/DIGEST/        an invitation with these rules, signed by the server
    SITE/rules/DIGEST.json    when it came, what it changes, and when the operator confirmed it

The rules of the first invitation need no confirmation: joining accepts them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from fedkg.deploy.federation_folders import (
    INVITATION,
    PACK,
    RULES,
    SIGNER,
    SITE,
    load_site,
    read_json,
    unpack_invitation,
    verify_invitation,
    write_json,
)
from fedkg.deploy.signing import verify_folder
from fedkg.errors import FederationError, MissingExtra, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRules:
    """Rules that the server wants to use from a later round on.

    Attributes:
        pack: their digest, see `fedkg.pack.file.pack_digest`.
        received: when they came (ISO 8601, UTC).
        difference: how they differ from the rules in use, line by line.
        confirmed: when the operator of the site confirmed them; "" if that has not happened.
        automatic: whether `accept_rule_changes` in `site.json` confirmed them.
    """

    pack: str
    received: str
    difference: tuple[str, ...]
    confirmed: str = ""
    automatic: bool = False


def receive_rules(folder: Path, archive: bytes, digest: str, used: Path) -> ProposedRules:
    """Verify and keep an invitation with other rules.

    Args:
        folder: the folder of the site.
        archive: the invitation, a ZIP file.
        digest: of the rules, as the server says.
        used: the pack in use, with which the new one is compared.

    Raises:
        FederationError: the key of the first invitation did not sign it, it is for another site,
            its job or Python code is another one, or the digest does not fit.
        PackError: its rules cannot be read.
    """
    from fedkg.deploy.federation_job_and_pack import JobFiles
    from fedkg.deploy.stated_messages import read_messages

    site = load_site(folder)
    (folder / RULES).mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder / RULES) as scratch:
        unpacked = Path(scratch) / INVITATION
        named = "with the new rules of the server"
        unpack_invitation(BytesIO(archive), unpacked, f"the file {named}")
        if site.signer:  # the key beside the first invitation could have been replaced
            verify_invitation(folder / INVITATION, site.signer)
        verify_folder(unpacked, [folder / INVITATION / SIGNER], name=f"the invitation {named}")
        old = folder / INVITATION
        new, first = JobFiles.read(unpacked), JobFiles.read(old)
        name = read_json(unpacked / SITE, "the server").get("name")
        wrong = [
            what
            for what, fits in (
                ("another site's name", name == site.name),
                (
                    "a job that this site has not joined",
                    new.identity["job"] == first.identity["job"],
                ),
                ("rules that the server has not announced", new.identity["pack"] == digest),
                # the consent to run code covers the files with which the site joined
                ("other Python code", new.identity["code"] == first.identity["code"]),
                ("other messages of its algorithm", read_messages(unpacked) == read_messages(old)),
            )
            if not fits
        ]
        if wrong:
            raise FederationError(
                f"site {site.name} rejects the new rules of the server",
                received=f"an invitation with {', '.join(wrong)}",
                help="the site keeps its rules; ask the operator of the server, over another "
                "channel, who changed them",
            )
        shutil.rmtree(folder / RULES / digest, ignore_errors=True)
        unpacked.rename(folder / RULES / digest)
    now = _now()
    found = ProposedRules(
        pack=digest,
        received=now,
        difference=describe_difference(used, folder / RULES / digest / PACK),
        confirmed=now if site.accept_rule_changes else "",
        automatic=site.accept_rule_changes,
    )
    _save(folder, found)
    return found


def confirm_rules(
    folder: Path, show: Callable[[ProposedRules], None] = lambda rules: None
) -> ProposedRules:
    """Confirm the newest rules that the server proposed.

    Args:
        folder: the folder of the site.
        show: receives these rules before they are confirmed.

    Raises:
        UsageError: nothing waits for a confirmation.
    """
    waiting = [one for one in list_proposed(folder) if not one.confirmed]
    if not waiting:
        raise UsageError(
            f"no rules wait for a confirmation at site {load_site(folder).name}",
            help="the server sends new rules between two rounds; when they have arrived, "
            f"`fedkg site status {folder}` shows them",
        )
    show(waiting[-1])
    found = replace(waiting[-1], confirmed=_now())
    _save(folder, found)
    return found


def list_proposed(folder: Path) -> list[ProposedRules]:
    """All rules that the server has proposed, in the order in which they came."""
    found = []
    by_time = sorted((folder / RULES).glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in by_time:  # `received` has whole seconds
        document = read_json(path, "the server")
        try:
            found.append(ProposedRules(**{**document, "difference": tuple(document["difference"])}))
        except (KeyError, TypeError) as error:
            raise FederationError(
                f"{path} does not describe rules of the server",
                expected="the fields pack, received, difference, confirmed and automatic",
                received=f"the fields {', '.join(document) or 'of nothing'}",
                help="restore it from a copy; or delete it, and the server sends the rules again",
            ) from error
    return sorted(found, key=lambda one: one.received)


def find_proposed(folder: Path, digest: str) -> ProposedRules | None:
    """The proposed rules of this digest."""
    return next((one for one in list_proposed(folder) if one.pack == digest), None)


def find_accepted(folder: Path, digest: str) -> Path | None:
    """The folder with the job and the rules of this digest, if the site has accepted them."""
    from fedkg.deploy.federation_job_and_pack import JobFiles

    if JobFiles.read(folder / INVITATION).identity["pack"] == digest:
        return folder / INVITATION
    found = find_proposed(folder, digest)
    return folder / RULES / digest if found is not None and found.confirmed else None


def describe_difference(old: Path, new: Path) -> tuple[str, ...]:
    """How two packs differ, as `fedkg diff` prints it; without the compiler, the changed texts."""
    from fedkg import authoring

    try:
        found = list(authoring.describe_changes(old, new))
    except MissingExtra:
        found = list(_changed_texts(old, new))
    return tuple(found) or ("the rules mean the same",)


def _changed_texts(old: Path, new: Path) -> Iterator[str]:
    from fedkg.pack import load

    before, after = (
        {rule.name: rule.text for rule in load(path).manifest.rules} for path in (old, new)
    )
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name}: {before.get(name, 'nothing')} -> {after.get(name, 'nothing')}"


def _save(folder: Path, rules: ProposedRules) -> None:
    write_json(folder / RULES / f"{rules.pack}.json", asdict(rules))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
