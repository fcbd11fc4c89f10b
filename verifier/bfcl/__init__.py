"""BFCL: calls of a response, and the published checker for them."""
