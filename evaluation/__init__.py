"""Samples and grades a checkpoint, and what becomes of the grades. Commands are in `__main__`."""
