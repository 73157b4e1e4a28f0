"""Without llvmlite and Numba, tensor operations give the same results, with one note."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys, warnings

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import torch
import fedkg
from fedkg.constraints import ConstraintModule
from fedkg.projection import project_polytope

text = '''signal p in bar span 0 .. 10
output f in probability span 0 .. 1
timeline step 5 min
rule a require if p > 5 bar then f >= 0.5
rule b hard require f <= 0.9
rule c require eventually [0, 3] (f >= 0.2)
'''
pack = fedkg.compile(text=text)
found = []
with warnings.catch_warnings(record=True) as notes:
    warnings.simplefilter("always")
    for windows in (2, 300):
        dice = torch.Generator().manual_seed(windows)
        x = torch.rand(windows, 6, 1, generator=dice) * 10
        y = torch.rand(windows, 6, generator=dice).requires_grad_()
        for semantics in ("exact", "sound"):
            rules = ConstraintModule(pack, x=fedkg.columns(["p"]), y=fedkg.probability("f"))
            penalty = rules(x=x, y=y, semantics=semantics).penalty
            penalty.backward()
            again = rules(x=x, y=y, semantics=semantics).penalty
            found += [float(part.detach()) for part in (penalty, again, y.grad.sum())]
        found.append(float(rules.project(x, y.detach()).sum()))
        found.append(float(rules.specialise(x)(y.detach()).penalty.sum()))
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    G, h = torch.tensor([[1.0, 1, 0], [0, 1, 1], [1, 0, -1]]), torch.tensor([0.1, 0.2, 0.3])
    found.append(float(project_polytope(points, G, h).point.sum()))
print(json.dumps([found, [str(note.message) for note in notes]]))
"""


def results(*blocked: str) -> tuple[list[float], list[str]]:
    program = PROGRAM.format(blocked=set(blocked) or "()")
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, notes = json.loads(done.stdout)
    return found, notes


@pytest.mark.slow
@pytest.mark.parametrize("blocked", [("numba",), ("llvmlite", "numba")])
def test_results_are_the_same_with_one_note(blocked: tuple[str, ...]) -> None:
    with_loops, no_notes = results()
    without, notes = results(*blocked)
    assert without == pytest.approx(with_loops, rel=1e-5)
    assert not no_notes
    assert len(notes) == 1
    assert "fedkg uses tensor operations" in notes[0]
