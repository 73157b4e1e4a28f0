"""Where a user's graph may stand: a file that is read into memory, a store on disk, a SPARQL endpoint; each gives a `Document`."""
