"""Notation of answers: LaTeX, numerals, units and words.

Other packages import from these modules:

- `latex`: `Unreadable`, `Node`, `parse`
- `normalise`: `normalise`, `words`, `skeleton`
- `numerals`: `whole`, `number_of_words`
- `pieces`: `Piece`, `split`, `closes_at_end`
- `tokens`: `flatten_brackets`
- `units`: `split_unit`, `same_unit`
"""
