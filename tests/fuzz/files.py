"""Hostile files under budgets: `python tests/fuzz/files.py [COUNT] [SEED] [KIND] [SECONDS]`.

Each file goes through a command in a forked child, so that start-up does not count. A child must
end by itself, with an error message and no fault, within `SECONDS` and `BYTES`.
"""

from __future__ import annotations

import gzip
import importlib
import io
import os
import random
import resource
import signal
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

SECONDS, BYTES = 2.0, 500_000_000
CPU = 30
"""Processor seconds after which a child is ended."""
PATIENCE = 120
"""Seconds by the clock until a child is ended. Only time on a processor counts for the budget."""


def pack(dice: random.Random) -> bytes:
    """A zip with a manifest and tensors that are too large, too deep or nonsense."""
    count = dice.randint(10_000, 3_000_000)
    bodies = [
        b"{}," * count,
        b"[" * count,
        bytes(20 * count),
        dice.randbytes(1000),
        b'{"format":1}',
    ]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", dice.choice(bodies))
        archive.writestr("tensors.safetensors", dice.choice(bodies))
    return out.getvalue()


def table(dice: random.Random) -> bytes:
    """A text table, perhaps gzipped, with too many cells, headers or bytes, or none of the columns
    that the rules read.
    """
    count = dice.randint(10_000, 300_000)
    bodies = [
        b"a,b\n" + b"0,0\n" * 60 * count,
        b"," * 20 * count,
        b'"' * count,
        b"a," * count + b"\n1\n",
        dice.randbytes(count),
    ]
    body = dice.choice(bodies)
    return gzip.compress(body, 1) if len(body) > 2_000_000 or dice.random() < 0.5 else body


def job(dice: random.Random) -> bytes:
    """A YAML file of aliases, of deep nesting, of many fields or of large numbers."""
    count = dice.randint(1000, 100_000)
    laughs = "a0: &a0 [x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
    )
    texts = [laughs, "a: " + "[" * count, "".join(f"f{i}: 1\n" for i in range(count))]
    texts += [f"training: {{batch: 1e{count % 300}}}", "- " * count, "x" * 10 * count]
    return dice.choice(texts).encode()


def workbook(dice: random.Random) -> bytes:
    """A workbook with entities, a huge text, too many formats, cells or rows, or broken parts."""
    from openpyxl import Workbook

    made, out = io.BytesIO(), io.BytesIO()
    book = Workbook()
    book.active["A1"] = "p"
    book.save(made)
    count = dice.randint(200_000, 400_000)
    laughs = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    text = "".join(dice.choices("abcdefgh", k=count))
    sheets = [
        f"<!DOCTYPE worksheet [<!ENTITY a0 'x'>{laughs}]><worksheet><a>&a11;</a></worksheet>",
        (
            "<worksheet><sheetData><row><c"
            f' t="inlineStr"><is><t>{text}</t></is></c></row></sheetData></worksheet>'
        ),
        "<worksheet><sheetData>" + "<row><c/></row>" * 20 * count,
        "<worksheet>" + "<a>" * count,
        (
            '<worksheet><sheetData><row r="99999999"><c'
            ' r="A99999999"><v>1</v></c></row></sheetData></worksheet>'
        ),
        text,
        None,
    ]
    sheet = dice.choice(sheets)
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            body = old.read(name).decode()
            if "sheet1" in name and sheet is not None:
                space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
                body = sheet.replace("<worksheet>", f'<worksheet xmlns="{space}">')
            if "styles" in name and sheet is None:
                body = body.replace("</cellXfs>", '<xf numFmtId="1"/>' * count + "</cellXfs>")
            new.writestr(name, body)
    return out.getvalue()


def parquet(dice: random.Random) -> bytes:
    """A Parquet file of too many equal cells, of nested columns, or with damaged bytes."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    count = dice.randint(20_000, 60_000)
    column = pa.array([1.0] * 1_000_000)
    tables = [
        pa.table({"p": pa.chunked_array([column] * (count // 900))}),
        pa.table({"p": pa.array([[[1.0]] * 3] * count)}),
        pa.table({f"c{i}": [1.0] for i in range(count // 10)}),
    ]
    choice = dice.randrange(3)
    out = io.BytesIO()
    write_table(tables[choice], out)
    body = bytearray(out.getvalue())
    if choice == 2:
        for _ in range(30):
            body[dice.randrange(4, len(body))] = dice.randrange(256)
    return bytes(body)


def rules(dice: random.Random) -> bytes:
    """A rule file with too many statements or errors, too long, too deep, or no text."""
    count = dice.randint(20_000, 400_000)
    alike = "".join(dice.choices("ab", k=200))
    texts = [
        SIGNAL + "rule low require p <= 3\n" * count,
        SIGNAL + "rule a require q <= 3\n" * 9000,
        SIGNAL + "".join(f"rule r{i} require pp{i} + 1 <= 3 kgg{i}\n" for i in range(9000)),
        SIGNAL + "".join(f"rule r{i} require p{i} <= {alike}\n" for i in range(3000)),
        SIGNAL + "rule low require " + "(" * count,
        SIGNAL + "rule low require " + "not " * count + "p <= 3\n",
        SIGNAL + "rule low require p" + " + p" * count + " <= 3\n",
        SIGNAL + "rule low require p" + " <= p" * count + "\n",
        SIGNAL + f'rule low "{"x" * 60 * count}" require p <= 3\n',
        SIGNAL + f"rule low require p <= 3 {'kg*' * count}m\n",
        SIGNAL + f"rule low require p <= {'9' * count}\n",
        SIGNAL + f"rule low require p <= 3 {'#' * count}\n",
        SIGNAL + f"rule {'x' * count} require {'y' * count} <= 3\n",
        SIGNAL + "rule low require sum of p over 1e300 h <= 3\n",
        "".join(f'signal s{i} column "s{i}"\n' for i in range(count)),
        "template a(x) require x <= 1\n" + "use a(" * count,
        '"' * count,
    ]
    body = dice.choice(texts).encode()
    return body if dice.random() < 0.9 else dice.randbytes(count)


def graph(dice: random.Random) -> bytes:
    """A Turtle file that is too large, too deep, of too many conclusions, or broken."""
    count = dice.randint(10_000, 30_000)
    chain = [f"e:c{i} s:subClassOf e:c{i + 1} ." for i in range(count // 5)]
    texts = [
        "".join(f"e:a{i} e:p e:a{i + 1} .\n" for i in range(3 * count)) + "?",
        "e:a e:p " + "[ e:p " * count + "1" + " ]" * count + " ?",
        "e:a e:p " + "( " * count + ")" * count + " ?",
        "\n".join(chain) + " e:x a e:c0 .",
        "e:p a o:TransitiveProperty .\n"
        + "\n".join(f"e:a{i} e:p e:a{i + 1} ." for i in range(count // 10)),
        f'e:a e:p "{"x" * 20 * count}',
        f"e:a e:p 1{'0' * count}e{'9' * count} ; e:p .",
        "".join(f"@prefix p{i}: <urn:p{i}:> .\n" for i in range(count)) + "?",
        "".join(f"<urn:o> o:imports <urn:i{i}> .\n" for i in range(count)) + "e:a e:p",
        "e:a e:p x:y" + " ; e:p x:y" * count + " .",
    ]
    return (PREFIXES + dice.choice(texts)).encode()


def rdf_xml(dice: random.Random) -> bytes:
    """An RDF/XML file of entities, of deep nesting, of many attributes, or cut off."""
    count = dice.randint(20_000, 400_000)
    laughs = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    root = '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="urn:e:">'
    node = '<r:Description r:about="urn:a">'
    texts = [
        (
            "<!DOCTYPE r:RDF [<!ENTITY a0"
            f' "x">{laughs}]>{root}{node}<e:p>&a11;</e:p></r:Description></r:RDF>'
        ),
        (
            "<!DOCTYPE r:RDF [<!ENTITY a0 SYSTEM"
            f' "file:///etc/passwd">]>{root}{node}<e:p>&a0;</e:p></r:Description></r:RDF>'
        ),
        (
            "<!DOCTYPE r:RDF [<!ENTITY a0"
            f' "{"x" * count}">]>{root}{node}<e:p>{"&a0;" * count}</e:p></r:Description></r:RDF>'
        ),
        root + "<r:Description><e:p>" * count,
        root + "<r:Description " + " ".join(f'e:a{i}="1"' for i in range(count)) + "/></r:RDF>",
        root + f"{node}<e:p>{'x' * count}",
    ]
    return dice.choice(texts).encode()


def query(dice: random.Random) -> bytes:
    """A query that is too long, too deep or broken, or whose joins never end."""
    count = dice.randint(2000, 40_000)
    triples = " ".join(f"?a{i} ?b{i} ?c{i} ." for i in range(dice.randint(8, 50)))
    texts = [
        f"SELECT ?a0 {{ {triples} FILTER(?a0 = ?missing) }}",
        f"SELECT (COUNT(*) AS ?n) {{ {triples} FILTER(?n > 3) }}",
        "SELECT ?a " + "{ " * count + "?a ?b ?c" + " }" * count,
        "SELECT ?a { ?a " + "/".join(["e:p"] * count) + " ?b }",
        "SELECT ?a { ?a (((e:p*)*)*)*" + "/(e:p|e:q)*" * 200 + " ?b }",
        "SELECT ?a { ?a e:p ?c FILTER(" + "(" * count + "1" + ")" * count + ") }",
        "SELECT ?a { ?a e:p ?c FILTER(" + "!" * count + "?c) }",
        "SELECT ?a { " + "{ ?a e:p ?c } UNION " * count + "{ ?a e:q ?c } }",
        f'SELECT ?a {{ ?a e:p "{"x" * 60 * count} }}',
    ]
    return ("PREFIX e: <urn:e:> " + dice.choice(texts)).encode()


def shapes(dice: random.Random) -> bytes:
    """Shapes with exponential patterns, deep or recursive parts, or broken lists."""
    count = dice.randint(1000, 5_000)
    head = "e:S a h:NodeShape ; h:targetNode e:a ; "
    texts = [
        head + 'h:property [ h:path e:t ; h:pattern "(a+)+$" ] .',
        head + 'h:property [ h:path e:t ; h:pattern "(a|aa|a?)*b" ] .',
        head + "h:not [ " * count + " h:class e:C " + " ]" * count + " .",
        head + "h:property [ h:path ( " + "e:p " * count + ") ; h:minCount 9 ; h:foo ] .",
        head + f'h:property [ h:path e:t ; h:pattern "{"(" * count}" ] .',
        head + "h:node e:S ; h:property [ h:path e:t ; h:node e:S ; h:maxCount 0 ] .",
        head + f'h:property [ h:path e:p ; h:minCount {"9" * count} ; h:maxInclusive "x" ] .',
        head + "h:or ( " + "[ h:class e:C ] " * count,
        head + 'h:sparql [ h:select "SELECT $this { ?a ?b ?c ' + "?d ?e ?f . " * count + '}" ] .',
    ]
    return (PREFIXES + dice.choice(texts)).encode()


SIGNAL = 'signal p column "p"\n'
PREFIXES = """@prefix e: <urn:e:> .
@prefix h: <http://www.w3.org/ns/shacl#> .
@prefix o: <http://www.w3.org/2002/07/owl#> .
@prefix s: <http://www.w3.org/2000/01/rdf-schema#> .
"""
DATA = f'<urn:e:a> <urn:e:p> <urn:e:b> .\n<urn:e:a> <urn:e:t> "{"a" * 60}!" .\n' + "".join(
    f"<urn:e:n{i}> <urn:e:p> <urn:e:n{i + 1}> .\n" for i in range(300)
)
"""The graph for queries and shapes."""

KINDS: dict[str, tuple[Callable[[random.Random], bytes], str, tuple[str, ...]]] = {
    "pack": (pack, "hostile.fkgpack", ("inspect", "hostile.fkgpack")),
    "table": (table, "hostile.csv", ("eval", "rules.fkg", "hostile.csv")),
    "workbook": (workbook, "hostile.xlsx", ("eval", "rules.fkg", "hostile.xlsx")),
    "parquet": (parquet, "hostile.parquet", ("eval", "rules.fkg", "hostile.parquet")),
    "job": (job, "job.yaml", ("inspect", "job.yaml")),
    "rules": (rules, "hostile.fkg", ("check", "hostile.fkg")),
    "graph": (graph, "hostile.ttl", ("check", "rules.fkg", "hostile.ttl")),
    "rdf": (rdf_xml, "hostile.rdf", ("check", "rules.fkg", "hostile.rdf")),
    "query": (query, "hostile.rq", ("check", "hostile.rq", "data.nt")),
    "shapes": (shapes, "shapes.ttl", ("check", "shapes.ttl", "data.nt")),
}
"""For each kind: its maker, the name of its file, and the command that reads it."""


def tried(arguments: list[str]) -> tuple[int, float, int, str]:
    """Exit code, processor seconds, most bytes and messages of a command in a forked child."""
    from fedkg.cli.main import run

    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
        resource.setrlimit(resource.RLIMIT_AS, (8 * BYTES, 8 * BYTES))
        handle = os.open("messages", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        code = 99
        try:
            run(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 98
        except BaseException as error:  # noqa: BLE001  a fault, which the parent reports
            os.write(2, repr(error).encode())
        sys.stderr.flush()
        os._exit(code)
    _, status, usage = os.wait4(child, 0)
    said = Path("messages").read_text(encoding="utf-8", errors="replace")
    code = os.waitstatus_to_exitcode(status)
    return code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, said


def main(count: str = "20", seed: str = "0", only: str = "all", seconds: float = SECONDS) -> int:
    """Try `count` files of each kind; return how many were not rejected within the budgets."""
    wrong = 0
    os.chdir(tempfile.mkdtemp())
    Path("rules.fkg").write_text('signal p column "p"\nrule low require p <= 3\n')
    Path("p.csv").write_text("p\n1\n")
    # start-up is not measured
    for module in (
        "openpyxl",
        "pyarrow.parquet",
        "pyshacl",
        "fedkg.jobs.causes.job_file",
        "fedkg_compiler.frontends.shacl.bind",
        "fedkg_compiler.frontends.sparql.query_binder",
    ):
        importlib.import_module(module)
    from fedkg import authoring

    authoring.check([Path("rules.fkg")])
    Path("data.nt").write_text(DATA)
    for kind, (make, name, command) in KINDS.items():
        if only not in ("all", kind):
            continue
        slowest, largest = 0.0, 0
        for number in range(int(count)):
            Path(name).write_bytes(make(random.Random(f"{seed} {kind} {number}")))
            code, spent, most, said = tried([*command])
            slowest, largest = max(slowest, spent), max(largest, most)
            rejected = code in (1, 2) and name in said and "internal error in fedkg" not in said
            if not rejected or spent > float(seconds) or most > BYTES:
                wrong += 1
                cost = f"{spent:.1f} s, {most / 1e6:.0f} MB"
                print(f"{kind} {number}: code {code}, {cost}: {said[:200]}")  # noqa: T201
        cost = f"slowest {slowest:.1f} s, largest {largest / 1e6:.0f} MB"
        print(f"{kind}: {count} files, {cost}")  # noqa: T201
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
