"""Small pure looks at bound formulas: intervals, scales, which comparisons are affine."""
