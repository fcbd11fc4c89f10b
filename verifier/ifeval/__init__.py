"""IFEval: which instructions a response follows."""
