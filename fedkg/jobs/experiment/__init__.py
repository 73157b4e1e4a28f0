"""What a trial trains on, and how it is measured: samples of rows, data sets and windows."""
