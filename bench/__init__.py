"""Measures of speed, and the study of the scheduler. In the repository only."""
