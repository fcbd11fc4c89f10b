"""Equality of answers: right pairs, wrong pairs, symmetry, rewrites."""

import pytest

from verifier.answers.compare import Outcome, compare, compare_integers

EQUAL = [
    (r"\frac{3}{4}", "0.75"),
    (r"\frac34", r"\dfrac{6}{8}"),
    (r"\sqrt{12}", r"2\sqrt{3}"),
    (r"\frac{3}{\sqrt{5}}", r"\frac{3\sqrt5}{5}"),
    ("8!", "40320"),
    (r"\binom{9}{4}", "126"),
    (r"\log_3 81", "4"),
    (r"3^{80}", "147808829414345923316083210206383297601"),
    (r"e^{i\pi/4}", r"\frac{\sqrt2}{2}+\frac{\sqrt2}{2}i"),
    ("(y-3)^2", "y^2-6y+9"),
    (r"\sin 2t", r"2\sin t\cos t"),
    (r"\sqrt{1/k}", r"\frac{1}{\sqrt{k}}"),
    (r"\{4, 9\}", "9,4"),
    (r"2 \pm \sqrt{7}", r"2-\sqrt7, 2+\sqrt7"),
    (r"\left(2, \frac{\pi}{3}\right)", r"(2,\pi/3)"),
    ("(-3, 8)", "-3 < z < 8"),
    (r"[5,\infty)", r"t \ge 5"),
    (r"(-\infty,2)\cup(2,\infty)", r"x \ne 2"),
    (r"(-\infty, 1] \cup [4, \infty)", r"x \le 1 \text{ or } x \ge 4"),
    (r"\mathbb{R}", r"(-\infty,\infty)"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{bmatrix}1&2\\3&4\end{bmatrix}"),
    (r"\begin{pmatrix} 6 \\ -7 \end{pmatrix}", "(6,-7)"),
    (r"45\%", "45"),
    (r"45\%", "0.45"),
    (r"312_4", "312"),
    ("6 \\text{ kg}", "6"),
    ("\\$31.50", "31.5"),
    ("12{,}345", "12345"),
    (r"8,\! 765,\! 432", "8765432"),
    ("5 \\frac{2}{3}", r"\frac{17}{3}"),
    (r"60^\circ", "60\u00b0"),
    ("f(t) = 3t", "3t"),
    ("k = 44", "44"),
    ("y = 2x + 6", "2x - y + 6 = 0"),
    (r"\text{Tuesday}", "tuesday"),
    (r"\text{(D)}", "D"),
    (r"\text{no solution}", r"\varnothing"),
    ("1.7e6", r"1.7 \times 10^6"),
    (r"\frac{1}{7}", "0.1428571"),
    ("0.\\overline{27}", r"\frac{3}{11}"),
    ("\u00be", "3/4"),
    ("2^{nd}" , "2"),
    (r"5 \pmod{9}", "5"),
    (r"|x-3|", "|3-x|"),
    (r"\lfloor 7/2 \rfloor", "3"),
    (r"x^{10}", "x^10"),
    (r"\text{March 3}", "March 3"),
    (r"(-4,4)", "|x| < 4"),
    (r"(-\infty,-5]\cup[5,\infty)", r"|t| \ge 5"),
    ("(1,3)", "|x-2| < 1"),
    (r"x = 6 \text{ or } x = -7", "-7, 6"),
    ("-3x > 6", "x < -2"),
    ("m+n = 58", "58"),
    ("25\\pi \\text{ cm}^2", "25\\pi"),
    (r"\text{seven}", "7"),
    ("0.333333...", r"\frac{1}{3}"),
    ("(5,8),(8,5)", r"(8,5) \text{ or } (5,8)"),
    ("(p,q) = (3,2)", "(3,2)"),
    ("4 500", "4500"),
    (r"\frac17", "0.1428571"),
    (r"\frac17", "0.142857"),
    (r"\pi", "3.14159"),
    (r"\pi", "3.141593"),
    (r"-\frac23", "-0.666666"),
    (r"-\sqrt[3]{2}", r"\sqrt[3]{-2}"),
    (r"\sqrt[3]{-x}", r"-\sqrt[3]{x}"),
]  # fmt: skip
DIFFERENT = [
    ("7", "700"),
    ("0.7", "70"),
    ("3\\pi", "9.42"),
    (r"\frac{2}{3}", "0.67"),
    ("118", "118.0000001"),
    ("999999999999999999999999999998", "999999999999999999999999999999"),
    (r"\frac{1}{900!}", r"\frac{1}{901!}"),
    (r"\frac{1}{2^{150}}", r"\frac{1}{2^{151}}"),
    ("(3,4)", "(4,3)"),
    ("(3,4)", "[3,4]"),
    ("(3,4]", "[3,4]"),
    ("3,4,5", "345"),
    (r"4 \pm \sqrt3", r"4+\sqrt3"),
    (r"\pm 6", "6"),
    ("a^2+1", "b^2+1"),
    (r"\sqrt{x^2}", "x"),
    ("5:30", "6:30"),
    ("2:3:4", "2:3:5"),
    (r"1, 4, \ldots, n^2", r"1, 8, \ldots, n^3"),
    (r"3 \frac{1}{4}", r"\frac{3}{4}"),
    ("312_4", "312_5"),
    ("45_8", "37"),
    ("6 \\text{ kg}", "6 \\text{ cm}"),
    (r"\text{(D)}", "B"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \end{pmatrix}"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 5 \end{pmatrix}"),
    ("x > 3", r"x \ge 3"),
    ("x + 2y = 7", "x + 2y = 8"),
    ("4", "4,4,4,4"),
    ("60", r"\frac{\pi}{3}"),
    (r"5 \pmod{9}", r"5 \pmod{8}"),
    ("x^2 + y^2 = 36", "36"),
    (r"(-4,4)", "|x| > 4"),
    ("-3x > 6", "x > -2"),
    (r"\text{March 3}", "March 4"),
    ("2x + z = 1", "1"),
    (r"\frac17", "0.142858"),
    (r"\pi", "3.14160"),
    (r"-\sqrt[3]{2}", r"\sqrt[3]{2}"),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_answers_are_equal_in_both_directions(a: str, b: str) -> None:
    assert compare(a, b).outcome is Outcome.EQUAL
    assert compare(b, a).outcome is Outcome.EQUAL


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_answers_are_different_in_both_directions(a: str, b: str) -> None:
    assert compare(a, b).outcome is Outcome.DIFFERENT
    assert compare(b, a).outcome is Outcome.DIFFERENT


def _variants(answer: str) -> list[str]:
    return [
        answer,
        f" {answer} ",
        f"${answer}$",
        answer.replace(r"\frac{", r"\dfrac{"),
        answer.replace("(", r"\left(").replace(")", r"\right)"),
        answer.replace("+", " + ").replace("-", " -"),
        answer.replace(",", ", ") if "!" not in answer and "{,}" not in answer else answer,
        f"{answer}.",
    ]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_spacing_and_notation_do_not_change_equality(a: str, b: str) -> None:
    for variant in _variants(b):
        assert compare(a, variant).outcome is Outcome.EQUAL, variant


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_spacing_and_notation_do_not_create_equality(a: str, b: str) -> None:
    for variant in _variants(b):
        assert compare(a, variant).outcome is not Outcome.EQUAL, variant


def test_a_spaced_group_is_one_number_for_a_grouped_gold_only() -> None:
    assert compare("5,678", "5, 678").outcome is Outcome.EQUAL
    assert compare("5, 678", "5678").outcome is Outcome.DIFFERENT


@pytest.mark.parametrize(
    "bomb",
    [
        "7^{7^{7^{7^7}}}",
        "(10^8)!",
        "6!!!!!!!",
        r"\sum_{k=1}^{10^{8}} \frac{1}{k}",
        r"\binom{10^{8}}{10^{7}}",
        "(" * 300 + "3" + ")" * 300,
        r"\sqrt{" * 300 + "3" + "}" * 300,
        "3," * 4000 + "3",
        "x^" * 500 + "x",
        "-" * 5000 + "1",
    ],
)
def test_heavy_answers_end_at_once_and_never_equal_a_small_gold(bomb: str) -> None:
    assert compare("4", bomb).outcome is not Outcome.EQUAL


def test_a_heavy_answer_equals_the_same_text() -> None:
    assert compare("7^{7^{7^{7^7}}}", "$7^{7^{7^{7^7}}}$").outcome is Outcome.EQUAL


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("64", "064", True),
        ("64", "64.0", True),
        ("64", r"64^\circ", True),
        ("1064", "1,064", True),
        ("64", "n = 64", True),
        ("64", r"\text{64}", True),
        ("64", "6400", False),
        ("64", "64.5", False),
        ("64", "128/2", False),
        ("-64", "64", False),
        ("64", "sixty-four", False),
    ],
)
def test_the_integer_rule_takes_literals_only(gold: str, answer: str, equal: bool) -> None:
    assert (compare_integers(gold, answer).outcome is Outcome.EQUAL) == equal


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        (r"\frac{PQ}{RS}=\frac{2}{\sqrt{7}}", r"\frac{2}{\sqrt7}", True),
        (r"\frac{PQ}{RS}=\frac{2}{\sqrt{7}}", r"\frac{\sqrt7}{2}", False),
        ("|KL|=8", "8", True),
        ("x/y=3", "3", False),
        (r"\angle PQR=75^\circ", "75", True),
        (r"75^\circ", r"\angle P = 57^\circ", False),
        (r"2\le|w|\le\frac{9}{4}", r"w\in[-\frac94,-2]\cup[2,\frac94]", True),
        (r"2\le|w|\le\frac{9}{4}", r"[2,\frac94]", False),
        ("3<4x<7", r"(\frac34,\frac74)", True),
        ("3<4x<7", "(3,7)", False),
        (r"4-\frac{2}{\mathrm{e}}", r"4-\frac2e", True),
        (r"4-\frac{2}{\mathrm{e}}", r"4+\frac{2}{\mathrm{e}}", False),
    ],
)
def test_notations_of_the_math_verify_tests_are_read(gold: str, answer: str, equal: bool) -> None:
    """Named lengths and angles, an absolute value between two bounds, an upright e.

    After github.com/huggingface/Math-Verify/tree/main/tests: test_numina_cases, test_open_thoughts and, where that
        suite accepts a sum for a difference, test_yujianll.
    """
    assert (compare(gold, answer).outcome is Outcome.EQUAL) is equal
    assert (compare(answer, gold).outcome is Outcome.EQUAL) is equal
