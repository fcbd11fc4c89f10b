"""What words, chains, names and layout around a value mean: never dropped in silence, and no reason to fail."""

import pytest

from verifier.compare import Outcome, compare, compare_integers
from verifier.grade import grade_answer
from verifier.policy import GradePolicy
from verifier.verdict import VerdictKind

EQUAL = [
    # words that change the value, and words that are known to change nothing
    ("5000", r"5\text{ thousand}"),
    ("5000", "5 thousand"),
    ("5 thousand", "5000"),
    ("2500000", r"2.5\text{ million}"),
    ("36", r"3\text{ dozen}"),
    (r"\frac{7}{2}", r"3\text{ and a half}"),
    ("3.5", "3 and a half"),
    (r"5\text{ million dollars}", r"\$5,000,000"),
    (r"45\%", r"45\text{ percent}"),
    (r"45\%", "45 per cent"),
    ("12", r"12\text{ ways}"),
    ("12", r"12\text{ different ways}"),
    ("5", r"5\text{ apples}"),
    ("5", "5 boxes"),
    ("3", r"3\text{ ordered pairs}"),
    (r"15\text{ cm}^2", r"15\text{ square centimeters}"),
    (r"15\text{ cm}^2", r"15\text{ cm squared}"),
    (r"15\text{ square units}", "15"),
    ("60", r"60\text{ mph}"),
    (r"60\text{ mph}", r"60\text{ miles per hour}"),
    ("60", r"60\text{ miles}/\text{hour}"),
    ("-5", r"\text{negative }5"),
    (r"90^\circ", r"90\text{ degrees}"),
    (r"90^\circ", "90 degrees"),
    (r"25^\circ\text{C}", "25"),
    (r"\$31.50", "$31.50"),
    (r"4:30\text{ p.m.}", "4:30 pm"),
    (r"12\text{ students}", r"12.0\text{ students}"),
    (r"5\text{ wugs each}", r"\frac{10}{2}\text{ wugs each}"),
    # names and chains
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\mathbf{v} = \begin{bmatrix} 1 \\ 2 \end{bmatrix}"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\mathbf{A}^{-1} = \begin{pmatrix}1&2\\3&4\end{pmatrix}"),
    (r"\begin{pmatrix} 2 & 4 \\ 6 & 8 \end{pmatrix}", r"2\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
    ("-2", r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}"),
    ("-2", r"\left|\begin{matrix} 1 & 2 \\ 3 & 4 \end{matrix}\right|"),
    ("6", "f(3) = 6"),
    ("6", "f(3)=2(3)=6"),
    (r"\frac{11}{12}", "P(X=1) = 11/12"),
    (r"\frac{11}{12}", r"P(A \mid B) = \frac{11}{12}"),
    ("6", "f^{-1}(3) = 6"),
    ("6", "f'(2) = 6"),
    ("6", r"\Pr(X > 1) = 6"),
    ("6", "5+1 = 6"),
    ("6", "x = 5+1 = 6"),
    ("6", "6 = x"),
    ("x = 6", "x = 5 + 1 = 6"),
    ("51", "a+b = 20+31 = 51"),
    ("51", "x^2 + y^2 = 20+31 = 51"),
    ("12", "= 12"),
    (r"\frac{1}{2}", r"= \frac{2}{4} = \frac{1}{2}"),
    ("x^2+2x", "x(x+2) = x^2+2x"),
    ("5", r"x \equiv 5 \pmod{9}"),
    # notation and layout
    ("(2,5)", r"\{x \mid 2 < x < 5\}"),
    ("(2,5)", r"\{x : 2 < x < 5\}"),
    ("203_7", "(203)_7"),
    ("203_7", r"203_{\text{seven}}"),
    ("203_7", r"203_{(7)}"),
    ("203_7", r"203\text{ base }7"),
    ("203_7", r"203 \text{ (base 7)}"),
    ("203_7", "203 base 7"),
    (r"\frac{5}{7}", r"{5 \over 7}"),
    (r"\frac{x+1}{7}", r"{x + 1 \over 7}"),
    ("10", r"{5 \choose 2}"),
    ("12", r"\color{red}{12}"),
    ("12", r"\textcolor{blue}{12}"),
    ("12", r"{\color{red} 12}"),
    ("12", r"\underline{12}"),
    ("12", r"\begin{aligned} x &= 5 + 7 \\ &= 12 \end{aligned}"),
    ("12", r"\begin{align*} x = 12 \end{align*}"),
    ("3,4", r"\begin{cases} x = 3 \\ y = 4 \end{cases}"),
    ("12", "\uff11\uff12"),
    ("(1,2)", "\uff08\uff11\uff0c\uff12\uff09"),
    ("x=3", "x\uff1d3"),
    ("x+3", "\uff58\uff0b\uff13"),
    ("-3", "\uff0d3"),
    (r"45\%", "45\uff05"),
    ("12", "12\u3002"),
]  # fmt: skip
NOT_EQUAL = [
    ("5", r"5\text{ thousand}"),
    ("5", "5 thousand"),
    ("5", r"5\text{ hundred}"),
    ("5", r"5\text{ million}"),
    ("5", "5 million"),
    ("3", r"3\text{ dozen}"),
    ("3", "3 dozen"),
    ("3", r"3\text{ and a half}"),
    ("3", "3 and a half"),
    ("3", r"3\text{ halves}"),
    ("3", r"3\text{ quarters}"),
    ("5", r"5\text{ squared}"),
    ("5", r"5\text{ cubed}"),
    ("5", r"5\text{ factorial}"),
    ("5", r"5\text{ negative}"),
    ("5", r"\text{negative }5"),
    ("5", r"\text{minus }5"),
    ("5", r"5\text{ or more}"),
    ("5", r"5\text{ or less}"),
    ("5", r"5\text{ each}"),
    ("5", r"5\text{ pairs}"),
    ("5", r"5\text{ couples}"),
    ("5", r"5\text{ times as many}"),
    ("5", r"5\text{ percentage points}"),
    ("5", r"5\text{ modulo 3}"),
    ("5", r"5\text{ wugs}"),
    ("6", r"\text{half of }6"),
    ("6", r"\text{the square root of }6"),
    ("6", r"\text{the negative of }6"),
    ("6", r"\text{not }6"),
    ("6", r"\text{at most }6"),
    ("6", r"\text{more than }6"),
    ("6", r"\text{x is not }6"),
    (r"5\text{ students}", r"5\text{ teachers}"),
    (r"5\text{ wugs}", r"5\text{ blickets}"),
    (r"15\text{ cm}^2", r"15\text{ cm}^3"),
    (r"15\text{ square units}", r"15\text{ cubic units}"),
    (r"60^\circ", r"60\text{ radians}"),
    (r"60^\circ", r"60\text{ rad}"),
    ("60 degrees", "60 radians"),
    (r"\$50", r"50\text{ cents}"),
    (r"50\text{ dollars}", r"50\text{ cents}"),
    (r"\$50", "\u20ac50"),
    (r"50\text{ mph}", r"50\text{ kph}"),
    (r"25^\circ\text{C}", r"25^\circ\text{F}"),
    (r"4:30\text{ p.m.}", r"4:30\text{ a.m.}"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\det\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\left|\begin{matrix} 1 & 2 \\ 3 & 4 \end{matrix}\right|"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{Vmatrix} 1 & 2 \\ 3 & 4 \end{Vmatrix}"),
    (r"\begin{pmatrix} 1 & 2 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \end{pmatrix}^T"),
    ("[2,5)", "(2,5"),
    ("[2,5)", "[2,5"),
    ("(2,5)", "2,5)"),
    ("5!", "5?"),
    ("5", "5?"),
    ("-5", "?5"),
    (r"\text{5!}", r"\text{5?}"),
    (r"\text{x<5}", r"\text{x>5}"),
    (r"\text{A+}", r"\text{A-}"),
    ("7", "x = 8 = 7"),
    ("7", "8 = 7"),
    ("x = 7", "x = 8 = 7"),
    ("7", "x = 8, y = 7"),
    ("6", "5+2 = 6"),
    ("7", "2x + 1 = 7"),
    ("6", "f(3) = 5 = 6"),
    ("15", "5 3"),
    ("15", "5{3}"),
    ("15", r"5\,3"),
    ("15", r"5\color{red}{3}"),
    ("203_7", "(203)_8"),
    ("203_7", r"203_{\text{eight}}"),
    (r"\frac{5}{7}", r"{7 \over 5}"),
    ("12", r"\begin{aligned} x &= 12 \\ y &= 13 \end{aligned}"),
    ("f(3) = 6", "f(4) = 6"),
    ("P(A) = 1/2", "P(B) = 1/2"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_what_says_the_same_is_equal_in_both_directions(a: str, b: str) -> None:
    assert compare(a, b).outcome is Outcome.EQUAL, compare(a, b)
    assert compare(b, a).outcome is Outcome.EQUAL


@pytest.mark.parametrize(("a", "b"), NOT_EQUAL)
def test_what_says_something_else_is_never_equal(a: str, b: str) -> None:
    assert compare(a, b).outcome is not Outcome.EQUAL, compare(a, b)
    assert compare(b, a).outcome is not Outcome.EQUAL
    assert grade_answer(a, f"\\boxed{{{b}}}").verdict is not VerdictKind.CORRECT


@pytest.mark.parametrize(
    ("answer", "equal"),
    [
        ("73", True),
        ("n = 73", True),
        ("m+n = 25 + 48 = 73", True),
        ("25+48 = 73", True),
        ("N(5) = 73", True),
        ("= 73", True),
        (r"\begin{aligned} m+n &= 25+48 \\ &= 73 \end{aligned}", True),
        (r"\underline{73}", True),
        ("73 = n", False),
        ("m=25, n=73", False),
        ("m=25; n=73", False),
        (r"m=25 \text{ and } n=73", False),
        (r"m=25 \text{ or } m=73", False),
        ("x = 8 = 73", False),
        ("25+49 = 73", False),
        ("2x = 73", False),
        ("x^2 = 73", False),
        ("x > y = 73", False),
        (r"x \ne 5 = 73", False),
        ("x = 73 thousand", False),
    ],
)
def test_the_integer_rule_reads_whole_chains_and_no_list(answer: str, equal: bool) -> None:
    """RL and AIME: an integer literal, perhaps at the end of a chain that holds; never the last of several values."""
    assert (compare_integers("73", answer).outcome is Outcome.EQUAL) is equal
    verdict = grade_answer("73", f"\\boxed{{{answer}}}", GradePolicy(integer_only=True))
    assert (verdict.verdict is VerdictKind.CORRECT) is equal


@pytest.mark.parametrize(
    ("gold", "response", "kind"),
    [
        ("51", "Answer: a+b = 20+31 = 51", VerdictKind.CORRECT),
        ("51", "Answer: a+b = 20+30 = 51", VerdictKind.WRONG),
        ("7", "Answer: x = 8 = 7", VerdictKind.WRONG),
        ("51", "Answer: the area = 51", VerdictKind.CORRECT),
        ("11/12", "Answer: P(X=1) = 11/12", VerdictKind.CORRECT),
        ("51", "Answer\uff1a51", VerdictKind.CORRECT),
        ("5", r"\boxed{5\text{ wugs}}", VerdictKind.UNPARSED),
        ("[2,5)", r"\boxed{(2,5}", VerdictKind.UNPARSED),
        ("5!", r"\boxed{5?}", VerdictKind.UNPARSED),
    ],
)
def test_a_text_rule_never_decides_what_could_not_be_read(
    gold: str, response: str, kind: VerdictKind
) -> None:
    assert grade_answer(gold, response).verdict is kind
