"""Words after a number that change nothing: the things an answer counts, and words that only qualify them."""

from __future__ import annotations

_NOUNS = """
adult amount angle animal ant apple arrangement arrow article asymptote baby bag ball balloon banana bar base basket
bead bean bed bee berry bicycle bike bill binomial bird block boat bone book bottle bounce box boy bracelet branch
brick brownie bug bulb bus button cake calorie camper can candidate candle candy canoe cap car card carton case cat
cell chair chicken child children chip chocolate choice chord circle citizen class coat code coefficient coin color
coloring colour colouring column combination committee computer configuration container cookie copy cow cracker
crate crayon cupcake customer cyclist dap deer denominator diagonal diamond dice die digit dish distribution divisor
dog doll donut door dot dress driver duck edge egg element employee endpoint entry envelope episode equation eye
face factor farmer female fish flag flavor flight flower friend frog fruit function game geese gift girl glass goal
goat goose grader grain graph grid group guest handshake hat hexagon hit hole horse house instance integer intercept
intersection interval item jacket jar jellybean key kick kid kind lady lamp lap lattice leaf leaves leg lemon letter
level line lion list load loaf lollipop loser machine male man marble match meal member men message method mice
mistake monomial mouse move movie muffin musician necklace neighbor neighbour node notebook novel number numerator
nut object octagon officer option orange order outcome outfit pack package page painting palindrome parallelogram
parent part participant passenger path pattern pearl pen pencil pentagon people permutation person pet phone photo
pie piece pill pin pizza place plane plank plant plate player point polygon polynomial possibility poster pot potato
present president prime prize problem progression progressions quadrilateral question rabbit reader rearrangement
rectangle region remainder resident revolution rock roll room rose round route row royal rule runner sailor sample
sandwich scarf school scoop seashell seat secretary seed segment selection sentence sequence session set setting
sheep sheet shelf shell ship shirt shoe side sign skip slice soldier solution song space spider stair stamp star
step stick sticker stone store strawberry string student subcommittee subinterval subset sweet swimmer switch symbol
system table tail teacher team teeth term text throw ticket tile tire token tomato tooth toothpick tournament tower
toy train trapezoid treasurer tree triangle trip trout truck tube tuple turn turtle value variable vase vegetable
vertex vertices visitor volume vote voter way wheel widget window winner woman women word worker zero
"""
NOUNS = frozenset(_NOUNS.split())
"""Singular, with the odd plurals. What is not here is read as no part of a number, so a longer list reads more."""

_QUALIFIERS = """
a an the of in on for is are total altogether different distinct possible such ordered positive nonnegative real
complex rational right isosceles equilateral convex regular new valid whole natural prime original remaining long
wide tall high old away only exactly
"""
QUALIFIERS = frozenset(_QUALIFIERS.split())
"""Beside a unit or a noun."""


def singular(word: str) -> str:
    """The word without the ending of a plural.

    >>> singular("apples"), singular("boxes"), singular("cities"), singular("loaves")
    ('apple', 'box', 'city', 'loaf')
    """
    if word.endswith("ies") and len(word) > 4:
        return _first_known(word, word[:-3] + "y", word[:-1])
    if word.endswith("ves"):
        return _first_known(word, word[:-3] + "f", word[:-1])
    if word.endswith("es"):
        return _first_known(word, word[:-2], word[:-1])
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _first_known(word: str, *candidates: str) -> str:
    """The first candidate that is a known noun, else the first."""
    if word in NOUNS:
        return word
    return next((candidate for candidate in candidates if candidate in NOUNS), candidates[0])
