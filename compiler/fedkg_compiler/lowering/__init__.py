"""From bound rows to the pack's data contract and banks."""
