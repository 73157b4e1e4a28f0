"""Jobs on tables: rows of a 0/1 column, with rules over their columns."""
