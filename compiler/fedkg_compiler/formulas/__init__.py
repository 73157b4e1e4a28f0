"""What formulas and terms are: affine in which slots, within which interval, rising or falling."""
