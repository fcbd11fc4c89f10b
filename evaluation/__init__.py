"""Sampling, grading and scores of a checkpoint. Commands are in `cli`."""
