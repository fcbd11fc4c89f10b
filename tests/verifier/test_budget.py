"""One budget per answer: no response keeps the grading process busy, and long numbers are answers."""

import pytest

from records.verdict import VerdictKind
from verifier.answers.compare import compare
from verifier.answers.extract import extract, without_end_marks
from verifier.budget import MAX_STEPS, TooHeavy, budget, spend
from verifier.graders.grade import grade_answer
from verifier.graders.policy import RL_POLICY, GraderName
from verifier.graders.workers import shared_pool

CPU_BOUND_S = 2.0
ENDED = (VerdictKind.TIMEOUT, VerdictKind.UNPARSED, VerdictKind.WRONG, VerdictKind.NO_ANSWER)

HEAVY = {
    "double sum": r"\sum_{i=1}^{2000}\sum_{j=1}^{2000} ij",
    "triple sum": r"\sum_{i=1}^{900}\sum_{j=1}^{900}\sum_{k=1}^{900} \frac{1}{i+j+k}",
    "sum of roots": r"\sum_{i=1}^{1900}\sum_{j=1}^{1900} \sqrt{i+j}",
    "product of powers": r"\prod_{i=1}^{1900} i^{i}",
    "double product": r"\prod_{i=1}^{1900}\prod_{j=1}^{1900} (i+\frac{1}{j})",
    "harmonic sums": r"\sum_{i=1}^{2000}\frac{1}{i}" * 40,
    "literal with an exponent": "1e999999",
    "literal with a long exponent": "1e999999999999",
    "negative exponent": "1e-999999",
    "tower": "2^{3^{4^{5^{6}}}}",
    "power of a power": "(((3^{3000})^{3000})^{3000})^{3000}",
    "factorials": "3000!" * 200,
    "factorial of a factorial": "((9!)!)!",
    "binomials": r"\binom{3000}{1500}" * 200,
    "least common multiple": "lcm(" + ",".join(str(10**60 + at) for at in range(290)) + ")",
    "gamma": "+".join(f"({at}.5)!" for at in range(700)),
    "nested mixed numbers": r"1\frac{" * 50 + "1" + "}{2}" * 50,
    "braces": "{" * 4900 + "5" + "}" * 4900,
    "braces and parentheses": "{(" * 2400 + "5" + ")}" * 2400,
    "unclosed braces": "{" * 9900,
    "matrix": r"\begin{pmatrix}" + r"\\".join(["&".join(["1+1"] * 70)] * 25) + r"\end{pmatrix}",
    "list of roots": ",".join(rf"\sqrt{{{at}}}" for at in range(2, 190)),
    "union": r"\cup".join(f"({at},{at + 0.5})" for at in range(280)),
    "exclusions": r"x\ne " + ",".join(str(at) for at in range(290)),
    "words": r"\text{a} " * 1200 + "^",
    "letters": "a" * 9000 + "^",
    "spaces": "5 ^" + " " * 9000 + "x",
    "commas": "1," * 290 + "1" * 9000,
    "high power of a variable": "(x+y+z+1)^{9999}(x-y)^{8888}",
    "plus-minus": r"\pm 1" * 1500,
}


GRADERS = [GraderName.STRICT, pytest.param(GraderName.RSTAR_COMPAT, marks=pytest.mark.slow)]
"""Each time, math-verify reaches its limit on the text that the compat grader passes on."""


@pytest.mark.parametrize("grader", GRADERS)
@pytest.mark.parametrize("heavy", HEAVY.values(), ids=HEAVY)
def test_no_answer_keeps_the_grading_process_busy(heavy: str, grader: GraderName) -> None:
    shared_pool().start()
    verdict = grade_answer("73", f"\\boxed{{{heavy}}}", grader=grader)
    assert verdict.verdict in ENDED, verdict.rule
    assert verdict.seconds < 4 * CPU_BOUND_S  # wall time on a busy machine


@pytest.mark.parametrize("heavy", HEAVY.values(), ids=HEAVY)
def test_a_heavy_gold_ends_and_the_integer_rule_ignores_formulas(heavy: str) -> None:
    assert grade_answer(heavy, r"\boxed{73}").verdict in ENDED
    assert grade_answer("73", f"<answer>\\boxed{{x = {heavy}}}</answer>", RL_POLICY).verdict in ENDED


def test_two_heavy_sums_share_one_budget() -> None:
    a = r"\sum_{i=1}^{2000}\sum_{j=1}^{2000} ij"
    assert compare(a, a.replace("ij", "ji")).outcome.value == "too_heavy"


def test_the_budget_of_an_answer_is_one_for_all_that_happens_inside() -> None:
    with budget():
        spend(MAX_STEPS // 2)
        with budget():
            spend(MAX_STEPS // 3)
        with pytest.raises(TooHeavy):
            spend(MAX_STEPS // 2)
    with budget():
        spend(MAX_STEPS // 2)


@pytest.mark.parametrize("num_digits", [4_000, 4_301, 9_990])
@pytest.mark.parametrize("grader", GRADERS)
def test_a_number_of_any_length_is_an_answer(num_digits: int, grader: GraderName) -> None:
    """Python converts up to 4,300 digits and raises beyond; the grading must not fail on that."""
    gold = "7" * num_digits
    for other, kinds in {
        f"x = {gold}": (VerdictKind.CORRECT,),
        gold[:-1] + "8": ENDED,
        gold + ".5": ENDED,
        "5": ENDED,
    }.items():
        verdict = grade_answer(gold, f"\\boxed{{{other}}}", grader=grader)
        if grader is GraderName.STRICT:
            assert verdict.verdict in kinds, verdict.rule
        assert verdict.verdict is not VerdictKind.INFRA_FAILED, verdict.rule
    assert grade_answer("5", f"\\boxed{{{gold}}}", grader=grader).verdict in ENDED
    rl = grade_answer(gold, f"<answer>\\boxed{{{gold}.0}}</answer>", RL_POLICY)
    assert rl.verdict is VerdictKind.CORRECT
    assert compare(f"{gold}_7", "5").outcome.value != "equal"


@pytest.mark.parametrize(
    "text",
    [
        "<|im_end|>" * 100_000 + "x",
        r"\boxed{" * 200_000,
        "Answer: " + r"\(" * 500_000 + " is",
        "answer is " * 100_000,
        r"\boxed" + " " * 1_000_000,
        "<think>" * 100_000,
        "{" * 1_000_000 + r"\boxed{",
    ],
)
def test_long_responses_are_scanned_in_linear_time(text: str) -> None:
    with budget():  # the clock of the budget ends a scan that does not end
        without_end_marks(text)
        extract(text)
        spend(10_000)


def test_end_marks_are_removed_one_by_one() -> None:
    assert without_end_marks("5<|im_end|> <|endoftext|>\n") == "5"
    assert without_end_marks("5<|im_end|>x ") == "5<|im_end|>x "
