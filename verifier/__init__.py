"""Grades answers; benchmarks; evaluation of a checkpoint. Imports nothing heavy until it has to."""
