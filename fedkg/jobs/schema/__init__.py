"""The job file: its sections, its reading, its contradictions."""
