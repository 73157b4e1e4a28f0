"""The job file: its sections, its reader, and checks for contradictions."""
