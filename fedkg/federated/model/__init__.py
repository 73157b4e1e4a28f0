"""Models with outputs that satisfy rules and knowledge."""
