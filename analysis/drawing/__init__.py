"""Declaration, style and files of a figure.

Other packages import from these modules:

- `plot`: `Section`, `Plot`, `write`
- `style`: `styled`, `new_figure`, `save`
"""
