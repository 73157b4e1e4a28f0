"""fedkg: rules and knowledge graphs that federated learning obeys."""
