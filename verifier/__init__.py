"""Graders, policies and benchmarks. Heavy imports happen on first use."""
