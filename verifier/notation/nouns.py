"""`singular`: words after a number that do not change it: counted things and qualifiers."""

from __future__ import annotations

_NOUNS = """
acorn adult album alligator amount angle animal answer ant apartment apple arm arrangement arrow article asymptote
attendee avocado baby bag baguette ball balloon banana bandage bar barrel base basket basketball bathroom bead bean
bear bed bedroom bee berry bicycle bike bill binomial bird biscuit block blueberry boat bolt bone book bottle bounce
bouquet bowl box boy bracelet branch brick brother brownie bucket bug building bulb bundle burger burrito bus bush
butterfly button cage cake call calorie camper can candidate candle candy canoe cap car card carriage carrot carton
case cat cell chair chapter character cherry chicken child children chip chocolate choice chord chore circle citizen
city class classmate classroom coat coconut code coefficient coffee coin color coloring colour colouring column
combination comic committee computer configuration container cookie copy country coupon course cow crab cracker
crate crayon cucumber cupcake customer cyclist daisy dap daughter deck decoration deer denominator diagonal diamond
dice die digit dish distribution divisor dog doll donut door dot doughnut drawing dress drink driver drop duck
duckling earring edge egg element elephant email employee endpoint entry envelope episode equation eraser eye face
factor family farmer feather female file fish flag flavor flight floor flower fly flyer follower fork friend fries
frog fruit function gallery game geese gift girl glass gnome goal goat goldfish goose grader grain grape graph grid
group guest guitar gumball haircut hamburger hand handshake hat head hen hexagon hit hole home horse hotdog house
ingredient insect instance integer intercept intersection interval island item jacket jar jellybean jump kangaroo
key kick kid kind kitten knife lady lamb lamp lap lattice lawn leaf leaves leg lemon lesson letter level light lily
line lion list lizard load loaf log lollipop loser machine magazine magnet male man mango marble mark marshmallow
match matchstick meal meatball medal member men message method mice milkshake mistake model monomial motorcycle
mouse move movie muffin mug mushroom musician nail napkin necklace neighbor neighbour newspaper node note notebook
novel number numerator nut object octagon officer onion option orange order outcome outfit pack package packet page
painting palindrome pan pancake paper parallelogram parent parrot part participant passenger pastry path patient
pattern peach peanut pear pearl pebble pen pencil penguin penny pentagon people period permutation person pet petal
phone photo photograph picture pie piece pig pile pill pin pizza place plan plane plank plant plate player point
polygon polynomial possibility poster pot potato present president prime prize problem progression progressions
pumpkin pupil puppy puzzle quadrilateral question rabbit racer rat reader rearrangement record rectangle region
remainder report resident restaurant revolution ride ring rock roll room rooster rose rotation round route row royal
rule rung runner sack sailor salad sample sandwich scarf school scoop screw seashell season seat secretary section
seed seedling segment selection senior sentence sequence session set setting shark sheep sheet shelf shell ship
shirt shoe shot show sibling side sign sister skip skirt slice snail snake snowflake sock soda soldier solution son
song space spider spoke spoon spot stack stair stamp star state statue steak step stick sticker stitch stone store
story straw strawberry string student subcommittee subinterval subject subset suit suitcase sunflower sweater sweet
swimmer switch symbol system table tail tank task teacher team teeth tennis term test text throw ticket tile tin
tire tissue toad token tomato tooth toothbrush toothpick topping tournament towel tower toy tractor train trapezoid
tray treasurer tree triangle trip trout truck tub tube tulip tuple turn turtle type value van variable vase
vegetable vehicle vertex vertices video visitor volume vote voter wall watermelon way whale wheel widget window
winner woman women word worker worm zero
multiple root serving triplet night times squares pairing collection position fractions sums bacteria array recipe
lineup
"""
NOUNS = frozenset(_NOUNS.split())
"""Singular, with irregular plurals. A number with another word is not read as a number; a longer list reads more."""

_QUALIFIERS = """
a an the of in on for is are total altogether different distinct possible such ordered positive nonnegative real
complex rational right isosceles equilateral convex regular new valid whole natural prime original remaining long
wide tall high old away only exactly red blue green yellow white black gold silver purple pink brown orange small
large big little medium full empty free hot cold math video baseball football soccer basketball tennis golf jelly
gummy rubber wooden metal paper plastic glass colored colour fruit distinguishable indistinguishable identical
congruent consecutive individual separate unique family even odd perfect integral nonzero nonempty noncongruent
vertical horizontal interior exterior license
"""
QUALIFIERS = frozenset(_QUALIFIERS.split())
"""Qualifiers of a unit or a noun."""


def singular(word: str) -> str:
    """Remove the plural ending of a word.

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
    """Return the first candidate that is a known noun, else the first."""
    if word in NOUNS:
        return word
    return next((candidate for candidate in candidates if candidate in NOUNS), candidates[0])
