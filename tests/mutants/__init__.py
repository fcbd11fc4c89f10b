"""Public faults put back on purpose, one edit each; a named test must fail. See tests/BUGS.md."""
