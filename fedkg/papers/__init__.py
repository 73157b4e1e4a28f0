"""The experiments of the papers behind fedkg, each as a command with published values beside ours.

`fedkg.papers.study` runs a study and judges it; the other modules contain one paper each.
"""
