"""`python -m fedkg` is the command `fedkg`."""

from fedkg.cli.main import run

run()
