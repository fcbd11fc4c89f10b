"""BFCL: what a response calls, and whether the published checker accepts it."""
