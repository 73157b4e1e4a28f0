"""The folders of a federation: keys are private, invitations are verified, names are checked."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from command import call
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from federation_folders import SITES, create_folders, write_inputs

from fedkg.deploy import federation_folders, server_lifecycle
from fedkg.deploy import offline_install_bundle as bundle
from fedkg.deploy.federation_folders import (
    INVITATION,
    KEYS,
    SIGNER,
    admit_site,
    compute_fingerprint,
    create_federation,
    dismiss_site,
    join_federation,
    load_federation,
    load_site,
)
from fedkg.deploy.offline_install_bundle import list_packages
from fedkg.errors import FederationError, FedkgError, JobError, MissingExtra, UsageError
from fedkg.jobs.events import Event, Listener
from fedkg.jobs.folder import RunFolder
from fedkg.pack import load


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folders")
    create_folders(folder, admitted=())
    return folder


@pytest.fixture
def own(folders, tmp_path):
    """A copy that a test may change."""
    shutil.copytree(folders, tmp_path / "own")
    return tmp_path / "own"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_private_keys_are_private_and_stay_where_they_were_created(folders):
    private = [*(folders / "plants" / KEYS).glob("*.key"), *folders.glob("*/keys/*.secret")]
    private += folders.glob("*/keys/node.key")

    assert len(private) == 3 + 4 + 3
    assert {mode(path) for path in private} == {0o600}
    assert {mode(folders / name / KEYS) for name in (*SITES, "plants")} == {0o700}
    secrets = [path.read_bytes() for path in private]
    for name in SITES:
        with zipfile.ZipFile(folders / "plants" / "invitations" / f"{name}.zip") as archive:
            content = b"".join(archive.read(entry) for entry in archive.namelist())
        assert not any(secret in content for secret in secrets)


def test_a_quorum_above_the_number_of_sites_is_an_error(folders, tmp_path):
    job = yaml.safe_load((folders / "job.yaml").read_text())
    job |= {"federation": {"quorum": 3}, "rules": [str(folders / "rules.fkg")]}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))

    with pytest.raises(JobError, match=r"(?s)`federation.quorum` is above.*at most 2"):
        create_federation(tmp_path / "job.yaml", tmp_path / "new", sites=["graz", "linz"])

    assert not (tmp_path / "new").exists()


def test_certificate_names_the_server_and_is_signed_by_the_authority(folders):
    keys = folders / "plants" / KEYS
    authority = x509.load_pem_x509_certificate((keys / "ca.pem").read_bytes())
    server = x509.load_pem_x509_certificate((keys / "server.pem").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    server.verify_directly_issued_by(authority)
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.pem", keys / "server.key")


def test_invitation_has_the_pack_and_no_path_of_the_server(folders):
    invitation = folders / "graz" / INVITATION

    job = yaml.safe_load((invitation / "job.yaml").read_text())

    assert job == {"name": "plants", "data": {}, "training": {"rounds": 2}, "pack": "rules.fkgpack"}
    assert [rule.name for rule in load(invitation / "rules.fkgpack").manifest.rules] == ["strain"]
    assert load_federation(invitation).sites == dict.fromkeys(SITES, "")
    assert load_site(folders / "graz").sites_file == str(folders / "sites.yaml")


def test_key_of_a_site_is_a_curve_that_flower_accepts(folders):
    key = load_ssh_private_key((folders / "graz" / KEYS / "node.key").read_bytes(), None)

    assert key.curve.name == "secp384r1"


def test_leftovers_of_killed_processes_are_removed_once_they_are_old(tmp_path):
    old = [tmp_path / name for name in (".status.json.7.part", ".rule-change.x/a", "rules/tmpx/a")]
    kept = [tmp_path / name for name in ("status.json", "tmp_notes/a", ".federation.json.8.part")]
    for path in (*old, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        for each in (path, path.parent) if path != kept[-1] else ():
            os.utime(each, (0, 0))
    federation_folders.remove_leftovers(tmp_path)
    assert [path for path in (*old, *kept) if path.exists()] == kept


def test_keys_that_are_admitted_at_the_same_time_are_all_registered(own, monkeypatch):
    server, keys = own / "plants", {name: own / name / KEYS / f"{name}.pub" for name in SITES}
    read = federation_folders._read_public_key

    def admit_linz_meanwhile(path):
        monkeypatch.setattr(federation_folders, "_read_public_key", read)
        admit_site(server, "linz", keys["linz"])
        return read(path)

    monkeypatch.setattr(federation_folders, "_read_public_key", admit_linz_meanwhile)
    admit_site(server, "graz", keys["graz"])
    assert load_federation(server).node_keys().keys() == {"graz", "linz"}


def test_admitted_keys_are_those_that_sites_sent(own):
    server = own / "plants"

    admit_site(server, "graz", own / "graz" / KEYS / "graz.pub")

    assert load_federation(server).node_keys() == {
        "graz": (own / "graz" / KEYS / "graz.pub").read_bytes()
    }
    with pytest.raises(FederationError, match="is registered for site graz"):
        admit_site(server, "linz", own / "graz" / KEYS / "graz.pub")
    with pytest.raises(UsageError, match="has no site steyr"):
        admit_site(server, "steyr", own / "graz" / KEYS / "graz.pub")
    for wrong in (server / KEYS / "signing.pub", server / "job.yaml"):
        with pytest.raises(FederationError, match="is not the public key of a site"):
            admit_site(server, "linz", wrong)
    assert dismiss_site(server, "graz").node_keys() == {}


def change(invitation: Path, name: str, body: bytes) -> None:
    """Replace one file of an invitation."""
    with zipfile.ZipFile(invitation) as archive:
        files = {entry: archive.read(entry) for entry in archive.namelist()}
    with zipfile.ZipFile(invitation, "w") as archive:
        for entry, content in (files | {name: body}).items():
            archive.writestr(entry, content)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.yaml", "job.yaml has changed"),
        ("more.txt", "more.txt is extra"),
        ("../evil", "is not an invitation"),
        ("site.json", "site.json has changed"),
    ],
)
def test_changed_invitations_leave_nothing_behind(own, name, text):
    invitation = own / "plants" / "invitations" / "graz.zip"
    change(invitation, name, b"rounds: 1")

    with pytest.raises(FederationError, match=text):
        join_federation(invitation, own / "sites.yaml", own / "new")
    assert not (own / "new").exists()
    assert not (own / "evil").exists()


def test_a_full_disk_is_named_and_leaves_no_folder(own):
    """No file of this process may grow beyond a kilobyte meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        with pytest.raises(UsageError, match="cannot write to the folder") as caught:
            join_federation(
                own / "plants" / "invitations" / "graz.zip", own / "sites.yaml", own / "new"
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert "File too large" in str(caught.value)
    assert not (own / "new").exists()


def test_forged_invitation_is_noticed_by_its_fingerprint(own, tmp_path, capsys):
    forged = create_folders(tmp_path) / "invitations" / "graz.zip"
    done = call(
        capsys, "site", "join", forged, "--sites", own / "sites.yaml", "-o", own / "new",
        "--fingerprint", "0000:1111:2222:3333:4444:5555:6666:7777",
    )  # fmt: skip

    assert done.code == 1
    assert "not signed by the key that you expect" in done.err
    assert not (own / "new").exists()


def test_a_site_accepts_only_the_key_with_which_it_joined(own, tmp_path, capsys):
    """Another federation of the same name takes the place of the invitation and of its key."""
    other = create_folders(tmp_path)
    site = own / "new"
    invitation = own / "plants" / "invitations" / "graz.zip"
    joined = call(capsys, "site", "join", invitation, "--sites", own / "sites.yaml", "-o", site)
    signer = compute_fingerprint(own / "plants" / KEYS / SIGNER)
    assert f"from now on the site accepts only the key {signer}" in joined.err
    assert load_site(site).signer == signer
    shutil.rmtree(site / INVITATION)
    shutil.copytree(other.parent / "graz" / INVITATION, site / INVITATION)

    found = call(capsys, "site", "run", site), call(capsys, "site", "doctor", site)

    assert [one.code for one in found] == [1, 1]
    assert "is not signed by the key that you expect" in found[0].err
    assert f"expected: {signer}" in found[0].err
    assert "is not signed by the key that you expect" in found[1].out


def test_site_that_the_sites_file_does_not_describe(own):
    (own / "sites.yaml").write_text("sites: {linz: {url: linz.csv}}\n")

    with pytest.raises(UsageError, match="has no site `graz`"):
        join_federation(
            own / "plants" / "invitations" / "graz.zip", own / "sites.yaml", own / "new"
        )
    assert not (own / "new").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"address": "localhost"}, "expected: HOST:PORT"),
        ({"address": "https://a:90000"}, "expected: HOST:PORT"),
        ({"address": "[2001:db8::1]:9092"}, "a host name, or an IPv4 address"),
        ({"sites": ["graz"]}, "at least two sites"),
        ({"sites": ["graz", "graz"]}, "at least two sites"),
        ({"sites": ["graz", "../linz"]}, "not usable for a file"),
        ({"sites": ["graz", "köln"]}, "at most 64 ASCII letters"),
    ],
)
def test_wrong_federations_are_not_created(tmp_path, options, text):
    write_inputs(tmp_path)

    with pytest.raises(FedkgError, match=text):
        create_federation(tmp_path / "job.yaml", tmp_path / "new", **options)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_table_of_the_server_is_copied_to_its_folder_alone(tmp_path):
    write_inputs(tmp_path)
    (tmp_path / "own").mkdir()
    table = (tmp_path / "graz.csv").read_bytes()
    (tmp_path / "own" / "probe.csv").write_bytes(table)
    (tmp_path / "own" / "probe.csv").chmod(0o600)
    data = {"sites_file": "sites.yaml", "server": 0.0, "server_table": "own/probe.csv"}
    job = yaml.safe_load((tmp_path / "job.yaml").read_text()) | {"data": data, "algorithm": "scfa"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))

    create_federation(tmp_path / "job.yaml", tmp_path / "plants")

    written = yaml.safe_load((tmp_path / "plants" / "job.yaml").read_text())
    assert written["data"] == {"server": 0.0, "server_table": "server_table.csv"}
    copy = tmp_path / "plants" / "server_table.csv"
    assert (copy.read_bytes(), mode(copy)) == (table, 0o600)
    with zipfile.ZipFile(tmp_path / "plants" / "invitations" / "graz.zip") as archive:
        assert "server_table.csv" not in archive.namelist()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"data": {"server": 0.0}, "algorithm": "scfa"}, "requires rows at the server"),
        ({"data": {"server": 0.0, "server_table": "none.csv"}}, "none.csv does not exist"),
        ({"theory": True}, "`theory` compares gradients"),
        ({"causes": "runs/granger"}, "`causes` explains incidents"),
    ],
)
def test_jobs_that_sites_cannot_run_are_rejected_before_anybody_is_invited(tmp_path, fields, text):
    write_inputs(tmp_path)
    job = yaml.safe_load((tmp_path / "job.yaml").read_text())
    fields = fields | {"data": job["data"] | fields.get("data", {})}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job | fields))

    with pytest.raises(FedkgError, match=text):
        create_federation(tmp_path / "job.yaml", tmp_path / "plants")
    assert not (tmp_path / "plants").exists()


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"name": 3, "sites": 3}'])
def test_damaged_folders_are_named(own, text):
    (own / "plants" / "federation.json").write_text(text)
    (own / "graz" / "site.json").write_text(text)

    with pytest.raises(FederationError, match=r"federation\.json"):
        load_federation(own / "plants")
    with pytest.raises(FederationError, match=r"site\.json"):
        load_site(own / "graz")


def test_commands_from_invitation_to_departure(own, capsys):
    server, site = own / "plants", own / "graz"
    admitted = call(capsys, "federation", "admit", server, "graz", site / KEYS / "graz.pub")
    doctor = call(capsys, "site", "doctor", site)
    paused = call(capsys, "site", "pause", site)
    resumed = call(capsys, "site", "resume", site)
    RunFolder(server / "run").create()  # a start that was interrupted
    status = call(capsys, "server", "status", server, "--json")
    left = call(capsys, "site", "leave", site, "--wait", "0")

    assert [one.code for one in (admitted, paused, resumed, status, left)] == [0] * 5
    assert "not admitted yet: linz, wien" in admitted.out
    assert (doctor.code, "no server runs at" in doctor.out) == (1, True)  # its table is too short
    assert status.json["server"]["sites"]["graz"]["answers"] == 0
    assert status.json["run"] is None
    assert "the server does not know that the site left" in left.err
    assert sorted(path.name for path in site.iterdir()) == ["left", "site.json"]
    assert call(capsys, "site", "run", site).code == 2
    assert call(capsys, "server", "run", own / "linz").code == 2
    assert call(capsys, "site", "pause", server).code == 2


def test_an_invitation_says_how_to_install_from_a_clone(own, capsys):
    """fedkg is not on the package index."""
    done = call(capsys, "federation", "invite", own / "plants", "graz")

    assert done.code == 0
    assert 'in a clone of fedkg, pip install -c constraints.txt -e ".[flower]"' in done.out


def test_doctor_names_readable_keys_and_changed_invitations(own, capsys):
    (own / "graz" / KEYS / "node.key").chmod(0o644)
    (own / "graz" / INVITATION / "job.yaml").write_text("rounds: 1")

    done = call(capsys, "site", "doctor", own / "graz")

    assert done.code == 1
    assert "chmod 600" in done.out
    assert "job.yaml has changed" in done.out


def test_doctor_has_no_problem_with_a_server_that_does_not_run_yet(own, capsys):
    rows = "".join(f"{40 + row % 30},{100 + row},{row % 2}\n" for row in range(150))
    (own / "graz.csv").write_text(f"Torque [Nm],Tool wear [min],Machine failure\n{rows}")
    site = {"name": "graz", "sites_file": str(own / "sites.yaml"), "share_rows": True}
    (own / "graz" / "site.json").write_text(json.dumps(site))

    done = call(capsys, "site", "doctor", own / "graz")

    assert "note     connection: no server runs at 127.0.0.1:" in done.out
    assert "`fedkg site run` waits for it" in done.out
    assert (done.code, "problem" in done.out) == (0, False)


def test_doctor_names_an_address_that_does_not_exist(own, capsys, monkeypatch):
    """Nobody has to wait for a server at such an address."""

    def fail(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", fail)
    done = call(capsys, "site", "doctor", own / "graz")

    assert done.code == 1
    assert "problem  connection: no connection to the server" in done.out


def test_a_server_without_its_lock_is_lost_and_with_it_the_only_one(own, capsys):
    (own / "plants" / "status.json").write_text(
        json.dumps({"state": "running", "since": 1.0, "sites": {}})
    )
    status = ("server", "status", own / "plants")
    assert call(capsys, *status).out.startswith("server: lost\n")

    with (own / "plants" / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as the process of a server does, in whatever container
        assert call(capsys, *status).out.startswith("server: running")
        second = call(capsys, "server", "run", own / "plants")
        assert (second.code, "another `fedkg server run` already uses" in second.err) == (1, True)
        assert json.loads((own / "plants" / "status.json").read_text())["state"] == "running"
    assert call(capsys, *status).out.startswith("server: lost\n")


def test_bundle_lists_what_an_installed_package_needs(tmp_path, monkeypatch):
    found = dict(one.split("==") for one in list_packages("flwr", ("simulation",)))

    assert {"grpcio", "cryptography", "ray"} <= set(found)
    assert "flwr" not in found
    with pytest.raises(FedkgError, match="does not define the optional dependencies `unheard`"):
        list_packages("flwr", ("unheard",))
    with pytest.raises(MissingExtra):
        list_packages("fedkg-is-no-such-package", ())
    monkeypatch.setattr(bundle, "list_packages", lambda name, extras: ["flwr==1.41.0"])
    bundle.write_bundle(tmp_path / "offline.zip")
    with zipfile.ZipFile(tmp_path / "offline.zip") as archive:
        assert archive.read("requirements.txt") == b"flwr==1.41.0\n"
        text = archive.read("INSTALL.md").decode()
    assert "--no-index" in text
    assert "fedkg==" not in text  # fedkg is not on the package index


def write_wheel(folder: Path, name: str, version: str) -> None:
    """A wheel with one module (PyPA, binary distribution format)."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.mark.slow
def test_bundle_with_wheels_installs_without_a_network(tmp_path, monkeypatch, capsys):
    """Wheels of a local folder take the place of an index, on both computers."""
    shelf, target = tmp_path / "shelf", tmp_path / "target"
    shelf.mkdir()
    write_wheel(shelf, "small", "1.5")
    write_wheel(shelf, "small", "2.0")  # newer than the version of this environment
    write_wheel(shelf, "fedkg", distribution("fedkg").version)
    monkeypatch.setattr(bundle, "list_packages", lambda name, extras: ["small==1.5"])
    monkeypatch.setattr(bundle, "_find_source", lambda: None)
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(shelf))):
        monkeypatch.setenv(name, value)

    done = call(capsys, "federation", "bundle", "-o", tmp_path / "offline.zip", "--wheels")

    assert done.code == 0
    shutil.unpack_archive(tmp_path / "offline.zip", tmp_path / "offline")
    monkeypatch.delenv("PIP_FIND_LINKS")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--find-links", "wheels"),
            *("-r", "requirements.txt", "fedkg", "--target", target),
        ],
        cwd=tmp_path / "offline",
        check=True,
    )
    assert (target / "small.py").read_text() == "VERSION = '1.5'\n"
    assert (target / "fedkg.py").is_file()


def test_bundle_without_a_network_names_what_pip_does_not_find(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bundle, "list_packages", lambda name, extras: ["small==1.5"])
    monkeypatch.setattr(bundle, "_find_source", lambda: None)
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(tmp_path))):
        monkeypatch.setenv(name, value)

    done = call(capsys, "federation", "bundle", "-o", tmp_path / "offline.zip", "--wheels")

    assert done.code == 1
    assert "No matching distribution found for " in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_server_notifies_of_lost_sites(own, capsys, monkeypatch):
    """`server run` has the listeners of `fedkg run`; the training itself is played here."""

    def play(folder: Path, on_note: object, *, on_event: Listener, **_: object) -> None:
        lost = {"status": "lost"}
        on_event(Event(kind="site", site="graz", message="no answer", values=lost, folder=folder))
        on_event(Event(kind="round", round=1, folder=folder))
        raise FederationError("the SuperLink does not answer")

    monkeypatch.setattr(server_lifecycle, "run_federation", play)
    told = own / "told.jsonl"
    command = f"sh -c 'cat >> {told}; echo >> {told}'"
    done = call(capsys, "server", "run", own / "plants", "--notify", command)

    assert done.code == 1
    assert "the SuperLink does not answer" in done.err
    notes = [json.loads(line) for line in told.read_text().splitlines() if line]
    assert [note["reason"] for note in notes] == ["sites_lost", "failed"]
    assert notes[0]["sites"] == ["graz"]
