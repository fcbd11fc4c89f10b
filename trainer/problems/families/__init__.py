"""Families of procedural problems, a module per topic; `trainer.problems.catalogue` lists them.

Other packages import from these modules:

- `algebra`: `Linear`, `SquareSum`
- `arithmetic`: `Bracket`, `DigitSum`, `SquareList`
- `counting`: `MultipleCount`, `BinomialMod`
- `geometry`: `Distance`
- `number_theory`: `PowerMod`, `Lcm`, `DivisorSum`, `GcdDivisors`, `PrimeSum`
- `sequences`: `Recurrence`, `Counter`
- `unseen`: `TwoProducts`, `Gcd`, `MultipleSum`
- `word_problems`: `Bags`, `Tickets`
"""
