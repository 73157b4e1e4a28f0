"""Folders of a federation: what the server and each site keep, who is admitted, and with which key.

    FEDERATION/                              SITE/
      federation.json  name, address, sites    site.json     name, sites file
      job.yaml, rules.fkgpack                  invitation/   job, pack, certificate, signature
      keys/            CA, server, signatures  keys/         of the site's node
      invitations/     NAME.zip for each site  state/        private memory of the site
      run/             run folder              site.sock     where the site process answers
      descriptions/    what sites told of their data
      app/             for `flwr run`

A site creates its own key pair and sends the public key to the operator of the server over a
channel that both trust; no private key ever leaves the machine that created it.
"""

from __future__ import annotations

import datetime
import errno
import fcntl
import hashlib
import ipaddress
import json
import lzma
import os
import shutil
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.flower.app_and_environment import APP, write_app
from fedkg.deploy.signing import (
    create_key,
    private_pem,
    public_pem,
    sign_folder,
    verify_folder,
    write_private,
)
from fedkg.errors import FederationError, JobError, UsageError
from fedkg.limits import parse_json, read_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

    from fedkg.deploy.stated_messages import Stated
    from fedkg.jobs.schema.job import Job
    from fedkg.pack import Pack

FEDERATION, SITE, JOB, PACK = "federation.json", "site.json", "job.yaml", "rules.fkgpack"
KEYS, INVITATION, INVITATIONS, STATE, RUN = "keys", "invitation", "invitations", "state", "run"
CA, SIGNER, NODE = "ca.pem", "signing.pub", "node"
SOCKET = "site.sock"
RULES = "rules"
CHANGE, CHANGE_DOCUMENT = "rule-change", "change.json"
PAUSED, LEFT = "paused", "left"
"""Files of a site folder that mark these states."""

LEFTOVERS = (
    ".*.part",
    f".{CHANGE}.*",
    f".{INVITATION}.*",
    f"{RULES}/tmp*",
    f"{RULES}/.*.part",
    f"{STATE}/**/.*.part",
)
"""Files and folders that are incomplete, until they are renamed or deleted."""

YOUNG_S = 3600.0
"""Age in seconds up to which a process may still write one of them."""

MESSAGES = "messages.json"
"""File of an invitation with what own algorithms send."""

DEFAULT_ADDRESS = "localhost:9092"

VALID_DAYS = 3 * 365
"""Days for which certificates are valid."""

MOST_INVITATION_FILES = 20
"""Files of an invitation."""

MOST_INVITATION_BYTES = 1 << 30
"""Largest size of the files of an invitation; packs have a few megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """What `federation.json` states.

    Attributes:
        name: the name of the federation, from its job.
        address: HOST:PORT on which sites reach the server.
        sites: the public key (PEM) of each site; "" before the site is admitted.
    """

    name: str
    address: str
    sites: Mapping[str, str] = field(default_factory=dict)

    def node_keys(self) -> dict[str, bytes]:
        """The public keys of the admitted sites, as Flower compares them."""
        return {site: key.encode() for site, key in self.sites.items() if key}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What `site.json` states.

    Attributes:
        name: the name of the site in the federation.
        sites_file: the sites file with the description of the site's table.
        share_rows: whether the site may hand rows to the server, if the job asks for them.
        accept_rule_changes: whether new rules of the server need no confirmation.
        trust_code: whether the site may run Python code of the invitation.
        signer: the fingerprint of the key that signed the invitation when the site joined; empty:
            any key, for the sites of a simulation.
    """

    name: str
    sites_file: str
    share_rows: bool = False
    accept_rule_changes: bool = False
    trust_code: bool = False
    signer: str = ""


def create_federation(
    job: Path,
    folder: Path,
    *,
    address: str = DEFAULT_ADDRESS,
    sites: Sequence[str] = (),
    trust_code: bool = False,
) -> Federation:
    """Create the folder of a federation with keys, certificates and an invitation for each site.

    Args:
        job: the job file; its rules are compiled.
        folder: a new folder.
        address: HOST:PORT on which sites reach the server.
        sites: the names of the sites; by default those of the job.
        trust_code: whether Python code that the job imports may run at the server; invitations
            then contain it.

    Raises:
        UsageError: the folder exists, the address or a name is wrong, or the job imports code
            without `trust_code`.
        JobError, FedkgError: the job or its rules are wrong.
    """

    host, _ = split_address(address)
    if ":" in host:  # the SuperLink listens on 0.0.0.0
        raise UsageError(
            "the server of a federation cannot have an IPv6 address",
            expected="a host name, or an IPv4 address",
            received=address,
            help="use a name of the server that has an IPv4 address",
        )
    if folder.exists():
        raise UsageError(f"{folder} exists already", help="choose another folder with -o")
    for name in sites:
        check_site_name(name)
    plan = _plan(job, sites, trust_code)
    names = plan.sites
    if len(names) < 2 or len(set(names)) < len(names):
        raise UsageError(
            "a federation needs at least two sites with different names",
            received=", ".join(names) or "no names",
            help="name at least two: with --sites graz,linz,wien, or in the job (`sites`, in a "
            "causal discovery `clients`)",
        )
    for name in names:
        check_site_name(name)
    federation = Federation(
        name=plan.name or job.stem, address=address, sites=dict.fromkeys(sorted(names), "")
    )
    with new_federation_folder(folder, job, plan.pack, federation) as partial:
        for file in plan.code:
            shutil.copy(file, partial / file.name)
        if plan.messages:
            write_json(partial / MESSAGES, plan.messages)
        keys = partial / KEYS
        keys.mkdir(mode=0o700)
        _create_certificates(keys, host)
        create_key(keys)
        write_private(keys / "app.secret", os.urandom(32))
        (partial / INVITATIONS).mkdir()
        for name in federation.sites:
            write_invitation(partial, name)
    return federation


@contextmanager
def new_federation_folder(
    folder: Path,
    job: Path,
    pack: Pack,
    federation: Federation,
    *,
    contract: Mapping[str, object] | None = None,
) -> Iterator[Path]:
    """A folder with the job, the rules, the sites and the Flower app of a federation.

    It has another name during the block, so that no incomplete folder remains after an error.

    Args:
        contract: fields of the section `federation` that the job does not state.
    """
    from fedkg.pack import save

    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        with report_full_disk(folder.parent):
            save(pack, partial / PACK)
            document = _describe_job(job)
            _copy_server_table(job, document, partial)
            if contract:
                document["federation"] = {**contract, **(document.get("federation") or {})}
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
            (partial / JOB).write_text(text, encoding="utf-8")
            save_federation(partial, federation)
            write_app(partial / APP, folder.resolve())
            yield partial
            partial.chmod(0o755)
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def invite_site(folder: Path, name: str) -> Path:
    """Write the invitation of a site again, with the rules in use. Returns its file.

    Raises UsageError, FederationError: no such site.
    """
    _require_site(load_federation(folder), name)
    return write_invitation(folder, name)


def admit_site(folder: Path, name: str, key: Path) -> Federation:
    """Register the public key of a site; a new key replaces the old one.

    Raises UsageError, FederationError: no such site, or not a key of a site.
    """
    federation = load_federation(folder)
    _require_site(federation, name)
    text = _read_public_key(key)
    others = [site for site, known in federation.sites.items() if known == text and site != name]
    if others:
        raise FederationError(
            f"the key {key} is registered for site {others[0]}, so it cannot be that of {name}",
            help=f"ask the operator of {name} for the file keys/{name}.pub; if {key} is this file, "
            f"admit {others[0]} with its own key first",
        )
    return _change_key(folder, name, text)


def dismiss_site(folder: Path, name: str) -> Federation:
    """Remove the key of a site: the server sends nothing to its node any more.

    Raises UsageError, FederationError: no such site.
    """
    _require_site(load_federation(folder), name)
    return _change_key(folder, name, "")


def join_federation(
    invitation: Path,
    sites_file: Path,
    folder: Path | None = None,
    *,
    fingerprint: str = "",
    share_rows: bool = False,
    accept_rule_changes: bool = False,
    trust_code: bool = False,
) -> tuple[Path, Site, str]:
    """Verify an invitation, unpack it into a new folder and create the key pair of the site.

    Args:
        invitation: the ZIP file from the operator of the server.
        sites_file: the sites file with the description of the site's table.
        folder: the folder to create; None: the name of the site.
        fingerprint: what the operator of the server says `federation init` printed; empty: the
            invitation is only compared with its own key, which detects damage but no forgery. From
            then on, the site accepts no other key.
        share_rows: see `Site`.
        accept_rule_changes: see `Site`.
        trust_code: see `Site`.

    Returns:
        The site's folder, the site, and the fingerprint of the key that signed the invitation.

    Raises:
        UsageError: a file is missing, the folder exists, or the invitation contains code without
            `trust_code`.
        FederationError: the invitation is damaged, forged or signed by another key.
        TableError: the sites file does not describe the site.
    """
    from fedkg.sites import load_sites
    from fedkg.sites.sites_file import find_site

    with tempfile.TemporaryDirectory() as scratch:
        unpacked = Path(scratch) / INVITATION
        unpack_invitation(invitation, unpacked)
        signer = verify_invitation(unpacked, fingerprint, str(invitation))
        if not (unpacked / SITE).is_file():
            raise _not_an_invitation(str(invitation), f"a file {SITE} in it")
        name = str(read_json(unpacked / SITE, "`fedkg federation init`").get("name", ""))
        check_site_name(name)
        require_trusted_code(unpacked, trust_code, f"the invitation {invitation}")
        site = Site(
            name=name,
            sites_file=str(sites_file.resolve()),
            share_rows=share_rows,
            accept_rule_changes=accept_rule_changes,
            trust_code=trust_code,
            signer=signer,
        )
        find_site(load_sites(sites_file), site.name)
        folder = folder or Path(site.name)
        if folder.exists():
            raise UsageError(f"{folder} exists already", help="choose another folder with -o")
        folder.mkdir(parents=True, mode=0o700)
        try:
            with report_full_disk(folder):
                shutil.copytree(unpacked, folder / INVITATION)
                (folder / STATE).mkdir(mode=0o700)
                _create_node_key(folder / KEYS, site.name)
                write_json(folder / SITE, asdict(site))
        except BaseException:
            shutil.rmtree(folder)
            raise
    return folder, site, signer


def require_trusted_code(folder: Path, trusted: bool, what: str) -> None:
    """Raise UsageError if an unpacked invitation contains Python code that may not run.

    Args:
        folder: the unpacked invitation.
        trusted: whether its code may run.
        what: the invitation, for the message.
    """
    code = find_code(folder)
    if code and not trusted:
        from fedkg.deploy.stated_messages import describe_messages, read_messages

        sent = "".join(f"\n  {line}" for line in describe_messages(read_messages(folder)))
        raise UsageError(
            f"{what} contains Python code that this site would run: "
            + ", ".join(file.name for file in code)
            + (f"\nits algorithm sends in each round, as the signer states:{sent}" if sent else ""),
            expected="the consent of the site's operator: the code can read all that you can read",
            help="unzip the invitation and read the code; if you trust it and the operator of the "
            "server, use `fedkg site join --trust-code`",
        )


def verify_invitation(folder: Path, fingerprint: str = "", name: str = "") -> str:
    """Compare an unpacked invitation with its signature.

    Args:
        folder: the unpacked invitation.
        fingerprint: of the key that must have signed it; empty: the key in the invitation.
        name: the invitation in messages; empty: the folder.

    Returns:
        The fingerprint of the key that signed it.

    Raises:
        FederationError: a file was changed, or another key signed it.
    """
    key = folder / SIGNER
    if not key.is_file():
        raise _not_an_invitation(name or str(folder), f"a file {SIGNER} in it")
    found = compute_fingerprint(key)
    if fingerprint and fingerprint.replace(":", "").lower() != found.replace(":", ""):
        raise FederationError(
            f"{name or folder} is not signed by the key that you expect",
            expected=fingerprint,
            received=found,
            help="do not use it; ask the operator of the server for the right fingerprint, over "
            "another channel, such as the telephone",
        )
    verify_folder(folder, [key], name=name)
    return found


def _not_an_invitation(name: str, expected: str, received: str = "") -> FederationError:
    return FederationError(
        f"{name} is not an invitation",
        expected=expected,
        received=received,
        help="ask the operator of the server for the file invitations/NAME.zip",
    )


def find_code(folder: Path) -> list[Path]:
    """The Python files of the job in the folder of a server, or in an invitation."""
    return sorted(folder.glob("*.py"))


def compute_fingerprint(key: Path) -> str:
    """Half of the SHA-256 of a public key's file, as eight groups of four digits."""
    digits = hashlib.sha256(key.read_bytes()).hexdigest()[:32]
    return ":".join(digits[i : i + 4] for i in range(0, 32, 4))


def load_federation(folder: Path) -> Federation:
    """The federation in a folder: of the server, or an invitation.

    Raises UsageError if there is none, FederationError if its file is wrong.
    """
    document = read_json(folder / FEDERATION, "`fedkg federation init JOB.yaml -o FEDERATION`")
    try:
        found = Federation(
            name=str(document["name"]),
            address=str(document["address"]),
            sites={str(name): str(key) for name, key in dict(document["sites"]).items()},
        )
        split_address(found.address)
    except UsageError as error:
        raise UsageError(
            f"{folder / FEDERATION}: `address` must be a host and a port",
            expected=error.expected,
            received=error.received,
            help="restore the file from a copy, or create the federation again: fedkg federation "
            "init JOB.yaml -o FEDERATION --address HOST:PORT",
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise FederationError(
            f"{folder / FEDERATION} does not describe a federation",
            expected='{"name": ..., "address": "HOST:PORT", "sites": {NAME: KEY, ...}}',
            received=f"no field {error}"
            if isinstance(error, KeyError)
            else "`sites` of another form",
            help="restore it from a copy, or create the federation again: fedkg federation init "
            "JOB.yaml -o FEDERATION",
        ) from error
    return found


def load_site(folder: Path) -> Site:
    """The site in a folder. Raises UsageError, FederationError like `load_federation`."""
    document = read_json(folder / SITE, "`fedkg site join INVITATION.zip --sites SITES.yaml`")
    try:
        return Site(
            name=str(document["name"]),
            sites_file=str(document["sites_file"]),
            share_rows=document.get("share_rows") is True,  # consent is never guessed
            accept_rule_changes=document.get("accept_rule_changes") is True,
            trust_code=document.get("trust_code") is True,
            signer=str(document.get("signer", "")),
        )
    except KeyError as error:
        raise FederationError(
            f"{folder / SITE} does not describe a site",
            expected="the fields `name` and `sites_file`",
            received=f"no field {error}",
            help="restore it from a copy, or join again: fedkg site join INVITATION.zip --sites "
            "SITES.yaml",
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Delete what processes that were killed have left of files that they replaced, in the folder
    of a server or of a site. A process may still write what is young.
    """
    for pattern in LEFTOVERS:
        for path in folder.glob(pattern):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - YOUNG_S:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def save_federation(folder: Path, federation: Federation) -> None:
    """Write `federation.json`."""
    write_json(folder / FEDERATION, asdict(federation))


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address HOST:PORT. Raises UsageError."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    is_port = port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536
    # certificates and the resolver of host names take ASCII only
    if not host or not host.isascii() or "/" in host or not is_port:
        raise UsageError(
            "the address of a server must be a host and a port",
            expected="HOST:PORT, such as fed.example.org:9092: a host in ASCII characters, and a "
            "port from 1 to 65535",
            received=address,
        )
    return host, int(port)


def private_key_problems(folder: Path) -> list[str]:
    """The private keys in a folder that other users may read."""
    return [
        f"other users may read {path}; run: chmod 600 {path}"
        for path in sorted((folder / KEYS).glob("*"))
        if path.suffix not in (".pub", ".pem") and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]


def _change_key(folder: Path, name: str, key: str) -> Federation:
    """Change the key of a site; another process that does so too waits."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        federation = load_federation(folder)
        changed = replace(federation, sites={**federation.sites, name: key})
        save_federation(folder, changed)
    finally:
        os.close(descriptor)  # ends the lock
    return changed


def _require_site(federation: Federation, name: str) -> None:
    if name not in federation.sites:
        raise UsageError(
            f"the federation {federation.name} has no site {name}",
            expected=f"one of {', '.join(federation.sites)}",
        )


def check_site_name(name: str) -> None:
    """Raise UsageError if a name is not that of a folder and a file."""
    letters = name.replace("-", "").replace("_", "")
    if not (letters.isascii() and letters.isalnum()) or len(name) > 64:
        raise UsageError(
            "fedkg names files after a site, and this name is not usable for a file",
            expected="at most 64 ASCII letters, digits, - and _, and not - and _ alone",
            received=name or "an empty name",
            help="choose another name for the site",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a federation takes from its job: name, sites, rules, files with Python code, and what
    its own algorithms send.
    """

    name: str
    sites: Sequence[str]
    pack: Pack
    code: Sequence[Path] = ()
    messages: Stated = field(default_factory=dict)


def _plan(job: Path, sites: Sequence[str], trust_code: bool) -> _Plan:
    """What a federation takes from a job file.

    Args:
        job: the job file.
        sites: the names of the sites; empty: those of the job.
        trust_code: whether code that the job imports may run.

    Raises:
        UsageError: the job imports code that may not run.
        JobError, FedkgError: the job or its rules are wrong, or sites cannot run it.
    """
    from fedkg.deploy.federation_job_and_pack import reject_pooled_rows
    from fedkg.deploy.stated_messages import state_messages
    from fedkg.jobs.causes.job_file import is_causes_job
    from fedkg.jobs.code_trust import list_files, require_trust
    from fedkg.jobs.rule_pack import load_rules
    from fedkg.jobs.trial_expansion import plan_trials

    if job.is_file() and is_causes_job(job):
        return _plan_discovery(job, sites)
    found = _read_job_of_sites(job, sites)
    require_trust((found,), trust_code)
    if found.model.graph:
        raise JobError(
            f"{job}: `model.graph` names files that invitations do not contain",
            help="use a model without a graph, or one that builds its graph in its own file "
            "(`model.path: net.py:Net`)",
        )
    pack, _ = load_rules(found)
    reject_pooled_rows(found, plan_trials(found), pack)
    names = list(sites) or (list(found.sites) if isinstance(found.sites, dict) else [])
    quorum = found.federation.quorum
    if isinstance(quorum, int) and 0 < len(names) < quorum:
        raise JobError(
            f"{job}: `federation.quorum` is above the number of sites",
            expected=f"at most {len(names)}, the number of {', '.join(names)}; or `all`",
            received=str(quorum),
            help="write `quorum: all`, or name more sites with --sites",
        )
    code = _check_code(job.parent, list_files(found))
    return _Plan(
        name=found.name,
        sites=names,
        pack=pack,
        code=code,
        messages=state_messages(found, pack, names) if code and names else {},
    )


def _check_code(base: Path, named: Sequence[Path]) -> Sequence[Path]:
    """The files that a job in this folder names. Raises JobError for one that an invitation cannot
    contain.
    """
    files = [(base / file).resolve() for file in named]
    for file in files:
        if not file.is_file():
            raise JobError(
                f"{file} does not exist, and the job imports it",
                help="correct the path in the job; paths are relative to the job file",
            )
        if not file.stem.replace("_", "").isalnum():
            raise JobError(
                f"an invitation cannot contain the Python file {file.name}, which the job imports",
                expected="a name of letters, digits and _ before .py",
                help="rename the file, also in the job",
            )
    return files


def _plan_discovery(job: Path, sites: Sequence[str]) -> _Plan:
    """The same for a causal discovery."""
    from fedkg.deploy.federation_job_and_pack import reject_pooled_measurements
    from fedkg.jobs.causes.job_file import read_causes_job
    from fedkg.jobs.causes.run import compile_causes
    from fedkg.jobs.run_initial_files import ELSEWHERE

    found = read_causes_job(job, sites_file=ELSEWHERE)
    reject_pooled_measurements(found)
    names = list(found.clients) or list(sites)
    if sites and set(sites) != set(names):
        raise UsageError(
            f"{job}: `clients` and --sites differ",
            expected=", ".join(names),
            received=", ".join(sites),
            help="leave out --sites, or name the same sites",
        )
    return _Plan(name=found.name, sites=names, pack=compile_causes(found))


def _read_job_of_sites(job: Path, sites: Sequence[str]) -> Job:
    """The job, where each site has its own tables: none is named, and the server may get no rows.

    Raises JobError, UsageError: the file is missing or wrong.
    """
    from fedkg.jobs.run_initial_files import ELSEWHERE
    from fedkg.jobs.schema.job_reader import parse_job, read_job, read_job_text

    document = yaml.safe_load(read_job_text(job)) if job.is_file() else None
    data = document.get("data") if isinstance(document, dict) else None
    listed = document.get("sites") if isinstance(document, dict) else None
    names = list(sites) or (list(listed) if isinstance(listed, dict | list) else [])
    if not isinstance(document, dict) or not isinstance(data, dict | None) or not names:
        return read_job(job)  # names what is wrong
    data = {name: value for name, value in (data or {}).items() if name != "path"}
    own = {"data": {**data, "sites_file": ELSEWHERE}, "sites": {str(name): {} for name in names}}
    return parse_job({**document, **own}, name=str(job), base=job.parent)


def _copy_server_table(job: Path, document: dict[str, Any], folder: Path) -> None:
    """Copy `data.server_table` to the folder of the server, and name the copy in the job.

    Invitations do not contain it: sites never read it. Raises JobError if it does not exist.
    """
    data = document.get("data")
    if not isinstance(data, dict) or data.get("server_table") is None:
        return
    source = job.parent / Path(str(data["server_table"])).expanduser()
    if not source.is_file():
        raise JobError(
            f"{job}: data.server_table: file {source} does not exist",
            help="correct the path; it is relative to the job file",
        )
    if not os.access(source, os.R_OK):
        raise JobError(
            f"{job}: data.server_table: you may not read the file {source}",
            help="ask its owner for the permission to read it",
        )
    data["server_table"] = f"server_table{source.suffix}"
    shutil.copy(source, folder / data["server_table"])  # with its permissions


def _describe_job(job: Path) -> dict[str, Any]:
    """The job as sites and server read it: with the pack, and without the sites' paths."""
    document = yaml.safe_load(job.read_text(encoding="utf-8-sig"))
    document.pop("rules", None)
    document["pack"] = PACK
    for name in ("sites_file", "path"):
        if isinstance(document.get("data"), dict):
            document["data"].pop(name, None)
    if isinstance(document.get("sites"), dict):
        for place, site in document["sites"].items():
            if site and (site.get("knowledge") or site.get("trust") is not None):
                raise JobError(
                    f"{job}: sites.{place}: `knowledge` and `trust` cannot be in a job that sites "
                    "receive",
                    help="move them to `settings` in the sites file of the site, and set "
                    "`model: {inject: true}` in the job",
                )
            for name in ("table", "columns"):
                (site or {}).pop(name, None)
    for section in (document.get("model"), *(document.get("algorithms") or {}).values()):
        if isinstance(section, dict) and section.get("path"):
            section["path"] = _code_name(section["path"])
        rule = section.get("aggregate") if isinstance(section, dict) else None
        if isinstance(rule, dict) and isinstance(rule.get("own"), dict):
            rule["own"]["path"] = _code_name(rule["own"].get("path"))
        elif isinstance(section, dict) and isinstance(rule, str):
            section["aggregate"] = _code_name(rule)
    document |= {"algorithm": _code_name(document["algorithm"])} if "algorithm" in document else {}
    compared = document.get("compare")
    if isinstance(compared, dict) and isinstance(compared.get("algorithm"), list):
        compared["algorithm"] = [_code_name(one) for one in compared["algorithm"]]
    return cast(dict[str, Any], document)


def _code_name(text: Any) -> Any:
    """The name of code without the folder of its file; other fields unchanged. `Any`: YAML."""
    is_code = isinstance(text, str) and text.rpartition(":")[0].endswith(".py")
    return Path(text).name if is_code else text


def write_invitation(
    folder: Path, name: str, *, pack: Path | None = None, target: Path | None = None
) -> Path:
    """Write the invitation of a site: a signed folder as a ZIP file.

    Args:
        folder: the folder of the server.
        name: the site.
        pack: its rules; None: those that the server uses.
        target: the file; None: `invitations/NAME.zip`.
    """
    target = target or folder / INVITATIONS / f"{name}.zip"
    federation = load_federation(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{INVITATION}.") as scratch:
        content = Path(scratch)
        shutil.copy(folder / JOB, content / JOB)
        shutil.copy(pack or folder / PACK, content / PACK)
        messages = [folder / MESSAGES] if (folder / MESSAGES).is_file() else []
        for file in (*find_code(folder), *messages):
            shutil.copy(file, content / file.name)
        names = dict.fromkeys(federation.sites, "")  # the keys of other sites stay here
        save_federation(content, replace(federation, sites=names))
        shutil.copy(folder / KEYS / CA, content / CA)
        shutil.copy(folder / KEYS / SIGNER, content / SIGNER)
        write_json(content / SITE, {"name": name})
        sign_folder(content, folder / KEYS / "signing.key")
        body = BytesIO()
        with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(content.iterdir()):
                archive.write(path, path.name)
        replace_file(target, body.getvalue())
    return target


def unpack_invitation(invitation: Path | BytesIO, folder: Path, name: str = "") -> None:
    """Unpack an invitation: plain files in one folder, of a limited size.

    Args:
        invitation: the ZIP file, or its bytes.
        folder: the folder to create.
        name: the invitation in messages; empty: the path of the file.

    Raises FederationError, UsageError: it is something else, or damaged.
    """
    try:
        with zipfile.ZipFile(invitation) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            wrong = [
                entry.filename
                for entry in entries
                if "/" in entry.filename or "\\" in entry.filename or entry.filename.startswith(".")
            ]
            if len(entries) > MOST_INVITATION_FILES or size > MOST_INVITATION_BYTES or wrong:
                raise _not_an_invitation(
                    name or str(invitation),
                    f"at most {MOST_INVITATION_FILES} files of {MOST_INVITATION_BYTES >> 20} MiB "
                    "together, without folders and hidden files",
                    f"{len(entries)} files of {size >> 20} MiB"
                    + (f", such as {wrong[0]!r}" if wrong else ""),
                )
            archive.extractall(folder)
    except (
        *(OSError, EOFError, RuntimeError, ValueError),
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    ) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise _full_disk(
                folder,
                error,
                "free space on its disk; the environment variable TMPDIR chooses another folder "
                "for temporary files",
            ) from error
        raise UsageError(
            f"cannot read {name or f'the invitation {invitation}'}",
            received=(error.strerror if isinstance(error, OSError) else "") or str(error),
            help="check the path; if the file is damaged, ask the operator of the server for "
            "invitations/NAME.zip again",
        ) from error


@contextmanager
def report_full_disk(folder: Path) -> Iterator[None]:
    """Raise UsageError if the block cannot write into a folder."""
    try:
        yield
    except OSError as error:
        raise _full_disk(folder, error) from error


def _full_disk(
    folder: Path,
    error: OSError,
    help: str = "free space on its disk, or choose a folder that you may write to",
) -> UsageError:
    return UsageError(
        f"cannot write to the folder {folder}", received=error.strerror or str(error), help=help
    )


def _create_certificates(keys: Path, host: str) -> None:
    """A certificate authority and a certificate of the server, which names its host and this
    machine (RFC 5280; elliptic curve P-384)."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    signs_certificates = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    authority = _certify(
        authority_key, "fedkg federation", authority_key, None,
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (signs_certificates, True),
    )  # fmt: skip
    names = [_subject_name(name) for name in dict.fromkeys((host, "localhost", "127.0.0.1"))]
    server = _certify(
        server_key, host, authority_key, authority,
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.SubjectAlternativeName(names), False),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
    )  # fmt: skip
    (keys / CA).write_bytes(_pem(authority))
    (keys / "server.pem").write_bytes(_pem(server))
    write_private(keys / "ca.key", private_pem(authority_key))
    write_private(keys / "server.key", private_pem(server_key))


def _certify(
    key: EllipticCurvePrivateKey,
    name: str,
    authority_key: EllipticCurvePrivateKey,
    authority: Certificate | None,
    *extensions: tuple[Any, bool],
) -> Certificate:
    """A certificate of a key. `Any`: an extension, whether it is critical."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), False
        )
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(authority_key, hashes.SHA384())


def _subject_name(host: str) -> Any:
    """A host in a certificate. `Any`: a general name of X.509."""
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _create_node_key(keys: Path, name: str) -> None:
    """The key pair of a site's node: P-384, as Flower wants it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    keys.mkdir(mode=0o700)
    key = ec.generate_private_key(ec.SECP384R1())
    body = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    write_private(keys / f"{NODE}.key", body)
    write_private(keys / "app.secret", os.urandom(32))
    (keys / f"{name}.pub").write_bytes(public_pem(key.public_key()))


def _read_public_key(path: Path) -> str:
    """The public key in a file, in the form in which Flower compares it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = serialization.load_pem_public_key(read_file(path))
    except OSError as error:
        raise UsageError(
            f"cannot read the key {path}",
            received=error.strerror or str(error),
            help="check the path; the operator of the site sends this file (keys/NAME.pub)",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _wrong_key(path) from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
        raise _wrong_key(path)
    return public_pem(key).decode()


def _wrong_key(path: Path) -> FederationError:
    return FederationError(
        f"{path} is not the public key of a site",
        expected="the file keys/NAME.pub that `fedkg site join` created in the folder of the site",
        help="ask the operator of the site for this file",
    )


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Replace a JSON file in one step."""
    replace_file(path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path, command: str) -> dict[str, Any]:
    """A JSON object. `Any`: JSON."""
    try:
        found = parse_json(read_file(path), str(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            f"there is no file {path}", help=f"check the path; {command} creates the file"
        ) from error
    except OSError as error:
        raise UsageError(
            f"cannot read the file {path}",
            received=error.strerror or str(error),
            help="use an ordinary file that you may read",
        ) from error
    except ValueError as error:
        raise FederationError(
            f"{path} is not JSON",
            received=str(error),
            help=f"restore it from a copy; {command} creates it",
        ) from error
    if not isinstance(found, dict):
        raise FederationError(
            f"{path} must contain a JSON object",
            expected="{...}",
            help=f"restore it from a copy; {command} creates it",
        )
    return found
