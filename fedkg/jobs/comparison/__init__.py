"""What came of runs, side by side: intervals, differences, sentences."""
