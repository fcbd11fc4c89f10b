"""Reads the stored results of a run: statistics, entropy, claims, figures, tables, report. Commands are in `cli`."""
