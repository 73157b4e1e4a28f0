"""The command line, one module per command.

Commands import their dependencies when they run, so that `--help` is fast.
"""
