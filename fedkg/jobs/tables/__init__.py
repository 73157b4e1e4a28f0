"""Jobs on tables with a 0/1 label and rules over their columns."""
