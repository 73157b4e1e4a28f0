"""The small federations of the tests of `fedkg.federated`, for the tests in this folder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "federated"))
