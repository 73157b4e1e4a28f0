"""The NumPy interpreter: what every formula means, in its most obvious form. No torch here."""
