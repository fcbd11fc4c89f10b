"""IFEval: instructions of a prompt, and the reference checks for them."""
