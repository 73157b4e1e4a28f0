"""A reader who searches for a module by its name finds at most two."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_base_name_occurs_more_than_twice():
    files = [*ROOT.glob("fedkg/**/*.py"), *ROOT.glob("compiler/fedkg_compiler/**/*.py")]
    names = Counter(path.stem for path in files if path.stem not in ("__init__", "__main__"))

    assert len(files) > 500
    assert {name: count for name, count in names.items() if count > 2} == {}
