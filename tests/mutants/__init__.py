"""Public faults put back on purpose, one patch each; a named test must notice. See tests/BUGS.md."""
