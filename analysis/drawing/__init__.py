"""How a figure is declared, drawn and written."""
