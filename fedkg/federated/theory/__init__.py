"""The constants and bounds of SCFA's theorems, as a run shows them."""
