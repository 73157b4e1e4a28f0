"""What runs learn, in the knowledge graph: written with its origin, read again, and proposed as rules."""
