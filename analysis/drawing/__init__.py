"""How a figure is declared, drawn and written.

Other packages import from these modules:

- `plot`: `Section`, `Plot`, `write`
- `style`: `styled`, `new_figure`, `save`
"""
