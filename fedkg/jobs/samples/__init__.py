"""Jobs on data sets: rows, images and windows of series."""
