"""`python -m fedkg` runs the command `fedkg`."""

from fedkg.cli.main import run

run()
