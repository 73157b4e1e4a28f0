"""Many runs from one job file, and how far they are."""
