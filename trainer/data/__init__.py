"""Training data from recipes: problems for RL and conversations for SFT. No torch."""
