"""What a run consists of can be listed, signed and checked, link by link."""

import json
import shutil
from dataclasses import replace

import pytest
from google.protobuf.json_format import ParseDict
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from fedkg.deploy.run_attestation import attest, verify_attestation
from fedkg.deploy.signing import create_key
from fedkg.errors import FederationError, JobError, UsageError
from fedkg.jobs import run_job
from fedkg.jobs.bill_of_materials import list_materials
from fedkg.jobs.folder import RunFolder
from fedkg.pack.file import load, save


@pytest.fixture
def run(job_fields, tmp_path, no_report):
    training = {**job_fields["training"], "executor": "stacked", "rounds": 1}
    job = {**job_fields, "compare": {}, "corrupt": None, "algorithm": "scfa", "training": training}
    return run_job(job, out=tmp_path / "run").folder


def change_rule(folder):
    pack = load(folder / "pack.fkgpack")
    first, *others = pack.manifest.rules
    changed = first.model_copy(update={"text": "rule overstrain require torque <= 1000 N.m"})
    manifest = pack.manifest.model_copy(update={"rules": (changed, *others)})
    save(replace(pack, manifest=manifest), folder / "pack.fkgpack")


def append(name):
    def change(folder):
        with (folder / name).open("ab") as file:
            file.write(b" ")

    return change


LINKS = [
    (change_rule, ["rule: `overstrain` has changed", "pack: pack.fkgpack has changed"]),
    (append("pack.fkgpack"), ["pack: pack.fkgpack has changed"]),
    (append("rounds.csv"), ["rounds.csv is damaged"]),
    (append("job.yaml"), ["job.yaml is damaged"]),
    (append("results.json"), ["results.json is damaged"]),
    (append("checkpoints/scfa-s0.safetensors"), ["model: checkpoints/scfa-s0.safetensors has"]),
    (lambda folder: (folder / "log.jsonl").unlink(), ["run: log.jsonl has changed"]),
]


def test_every_broken_link_is_named(run, tmp_path):
    key = create_key(tmp_path / "keys")
    public = key.with_suffix(".pub")

    attest(run, key)

    statement = verify_attestation(run, [public])
    Statement.copy_from_pb(ParseDict(statement, statement_pb2.Statement())).validate()
    assert [rule["name"] for rule in statement["predicate"]["rules"]] == [
        "overstrain",
        "risk_follows_wear",
        "torque_positive",
    ]
    for number, (change, messages) in enumerate(LINKS):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(run, copy)
        change(copy)
        with pytest.raises(FederationError, match="not those that were attested") as error:
            verify_attestation(copy, [public])
        assert all(message in str(error.value) for message in messages), str(error.value)


def test_a_log_that_was_written_anew_does_not_hide_a_change(run, tmp_path):
    """The log alone shows accidents; whoever can write to the folder can write a new one."""
    key = create_key(tmp_path / "keys")
    attest(run, key)
    folder = RunFolder(run)
    folder.write_text("results.json", (run / "results.json").read_text() + " ")

    with pytest.raises(FederationError, match=r"run: log\.jsonl has changed"):
        verify_attestation(run, [key.with_suffix(".pub")])


def test_only_a_trusted_key_attests(run, tmp_path):
    key, other = create_key(tmp_path / "keys"), create_key(tmp_path / "others")
    with pytest.raises(FederationError, match="has no attestation"):
        verify_attestation(run, [key.with_suffix(".pub")])
    target = attest(run, other)
    with pytest.raises(FederationError, match="not signed by a trusted key"):
        verify_attestation(run, [key.with_suffix(".pub")])

    envelope = json.loads(target.read_text())
    envelope["payload"] = "e30="
    target.write_text(json.dumps(envelope))
    with pytest.raises(FederationError, match="is not an attestation"):
        verify_attestation(run, [other.with_suffix(".pub")])
    append("rounds.csv")(run)
    with pytest.raises(JobError, match="cannot be attested"):
        attest(run, key)
    with pytest.raises(UsageError):
        attest(tmp_path, key)


def test_bill_of_materials_follows_the_standard_and_lists_everything(run):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    bill = list_materials(run)

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
    found = {one["bom-ref"]: one for one in bill["components"]}
    rules = next(one for one in bill["components"] if one["bom-ref"].startswith("pack:"))
    assert [one["name"] for one in rules["components"]] == [
        "overstrain",
        "risk_follows_wear",
        "torque_positive",
    ]
    rows = RunFolder(run).rows("clients.csv")
    sites = {row["client"]: row["samples"] for row in rows}
    assert {
        one["name"]: {fact["name"]: fact["value"] for fact in one["properties"]}["fedkg:rows"]
        for ref, one in found.items()
        if ref.startswith("site:")
    } == sites
    (last,) = [row for row in RunFolder(run).rows("rounds.csv") if row["trial"] == "scfa-s0"]
    figures = found["model:scfa-s0"]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert {one["type"]: one["value"] for one in figures} == {
        name: last[name]
        for name in ("f1", "precision", "recall", "accuracy", "rmse", "mse", "loss")
        if last[name]
    }
    every = {*found, "run:small"}
    assert all(set(one["dependsOn"]) <= every for one in bill["dependencies"])
