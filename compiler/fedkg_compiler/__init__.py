"""The compiler: rule files and ontologies in, constraint packs and diagnostics out."""
