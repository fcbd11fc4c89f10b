import contextlib
import io
import os
import subprocess
import sys
from random import Random

import pytest

from trainer.problems.catalogue import ALL_FAMILIES, IN_DISTRIBUTION, family_and_params, find_family
from trainer.problems.composition import HELD_OUT_PAIRS, QUANTITIES, TRAINED_PAIRS
from trainer.problems.families.unseen import UNSEEN
from trainer.problems.family import Family, ProblemError, canonical, digest, make_problem
from trainer.problems.splits import RINGS, SPLITS, LevelMix, Splits, apportion, generate_splits, hash_split

NUM_DRAWS = 200
by_key = pytest.mark.parametrize("family", ALL_FAMILIES, ids=lambda f: f.key)


def draws(family: Family, num: int = NUM_DRAWS, seed: int = 1) -> list[tuple[int, ...]]:
    rng = Random(seed)
    return [family.draw(rng) for _ in range(num)]


def run(code: str) -> str:
    """Run code of the suite's templates in this process; hostile code never gets here."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "<template>", "exec"), {})  # noqa: S102
    return out.getvalue().strip()


@pytest.fixture(scope="module")
def splits() -> Splits:
    return generate_splits(seed=3, num_sft=3000, num_train=600, num_dev=200, num_test=400)


@by_key
def test_two_methods_agree_on_every_answer(family):
    for params in draws(family):
        assert family.answer(params) == family.check(params), params


@by_key
def test_right_programs_print_the_answer(family):
    for params in draws(family, 25):
        for code in family.right_programs(params):
            assert run(code) == str(family.answer(params)), code


@by_key
def test_bug_programs_always_raise(family):
    for params in draws(family, 5):
        for right in family.right_programs(params):
            for code in family.bug_programs(right, params):
                with pytest.raises((Exception, SyntaxError)):
                    run(code)


@pytest.mark.parametrize("family", IN_DISTRIBUTION, ids=lambda f: f.key)
def test_wrong_formulas_run_and_are_nearly_always_wrong(family):
    for variant in range(len(family.wrong_formula_programs(draws(family, 1)[0]))):
        params = draws(family, 50)
        hits = sum(run(family.wrong_formula_programs(p)[variant]) == str(family.answer(p)) for p in params)
        assert hits <= 5, family.wrong_formula_programs(params[0])[variant]


@pytest.mark.parametrize("family", IN_DISTRIBUTION, ids=lambda f: f.key)
def test_a_constant_answer_scores_little(family):
    answers = [family.answer(p) for p in draws(family, 400)]
    best = max(answers.count(a) for a in set(answers))
    assert best / len(answers) < 0.12


def test_there_are_twelve_families_over_all_topics():
    assert len({f.name for f in IN_DISTRIBUTION}) >= 12
    topics = {f.topic for f in IN_DISTRIBUTION}
    assert topics >= {
        "arithmetic",
        "number theory",
        "counting",
        "algebra",
        "recurrences",
        "coordinates",
        "word problems",
        "simulation",
    }


def test_keys_name_one_family_each():
    assert len({f.key for f in ALL_FAMILIES}) == len(ALL_FAMILIES)


def test_difficulty_rises_with_the_level():
    def code_length(level: int) -> float:
        of_level = [f for f in IN_DISTRIBUTION if f.level == level]
        lengths = [len(f.right_programs(p)[0]) for f in of_level for p in draws(f, 50)]
        return sum(lengths) / len(lengths)

    lengths = [code_length(level) for level in (1, 2, 3, 4)]
    assert lengths == sorted(lengths)
    assert lengths[0] < 0.8 * lengths[1]


def test_held_out_pairs_leave_every_quantity_seen_in_both_places():
    assert len(HELD_OUT_PAIRS) == 6
    assert len(TRAINED_PAIRS) == 30
    assert {f.key for f in HELD_OUT_PAIRS}.isdisjoint(f.key for f in TRAINED_PAIRS)
    for place in ("left", "right"):
        assert {getattr(f, place).name for f in TRAINED_PAIRS} == {q.name for q in QUANTITIES}


def test_no_problem_occurs_twice(splits):
    count = splits.count_duplicates()
    assert (count.exact, count.params) == (0, 0)


def test_duplicates_are_counted(splits):
    again = Splits(**{s: getattr(splits, s) for s in SPLITS} | {"dev": splits.dev + splits.sft[:3]})
    count = again.count_duplicates()
    assert (count.exact, count.params) == (3, 3)


def test_splits_have_the_requested_sizes(splits):
    assert [len(getattr(splits, s)) for s in SPLITS] == [3000, 600, 200, 400, 400, 100, 300]
    assert all(p.split == s for s in SPLITS for p in getattr(splits, s))


def test_rings_hold_only_their_own_problems(splits):
    trained = {f.key for f in IN_DISTRIBUTION}
    held_out = {f.key for f in HELD_OUT_PAIRS}
    for split in ("sft", "train", "dev", "numbers"):
        assert {family_and_params(p)[0].key for p in getattr(splits, split)} <= trained
    assert {family_and_params(p)[0].key for p in splits.composition} == held_out
    assert {p.family for p in splits.family} == {f.name for f in UNSEEN}
    assert {family_and_params(p)[0].key for p in splits.wording} <= trained


def test_wordings_of_the_wording_and_the_family_ring_occur_nowhere_else(splits):
    def skeleton(text: str) -> str:
        return "".join(c for c in text if not c.isdigit())

    elsewhere = {skeleton(p.prompt) for s in SPLITS[:-2] for p in getattr(splits, s)}
    assert elsewhere.isdisjoint(skeleton(p.prompt) for p in (*splits.wording, *splits.family))


def test_levels_have_the_requested_shares(splits):
    shares = [sum(p.level == level for p in splits.sft) / 3000 for level in (1, 2, 3, 4)]
    assert shares == pytest.approx([0.42, 0.19, 0.33, 0.06], abs=0.001)


def test_the_split_of_a_problem_follows_from_its_parameters(splits):
    for split in SPLITS:
        for problem in getattr(splits, split)[:100]:
            assert hash_split(*family_and_params(problem)) == split


def test_a_larger_split_only_adds_problems():
    def draw(num_sft: int) -> set[str]:
        found = generate_splits(seed=3, num_sft=num_sft, num_train=0, num_dev=0, num_test=0, min_ring=0)
        return {p.id for p in found.sft}

    small, large = draw(500), draw(1000)
    assert len(small - large) == 0


def test_another_seed_draws_other_problems():
    def draw(seed: int) -> set[str]:
        found = generate_splits(seed=seed, num_sft=500, num_train=0, num_dev=0, num_test=0, min_ring=0)
        return {p.id for p in found.sft}

    assert len(draw(1) & draw(2)) < 100
    assert draw(1) == draw(1)


def test_splits_are_the_same_in_every_process(project_root):
    code = (
        "from trainer.problems.splits import generate_splits\n"
        "from trainer.problems.family import digest\n"
        "s = generate_splits(seed=5, num_sft=60, num_train=20, num_dev=20, num_test=20, min_ring=20)\n"
        "print(digest(repr([p.to_json() for p in s.all_problems()])))"
    )

    def in_process(hash_seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=project_root,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert in_process("1") == in_process("2")


def test_a_problem_leads_back_to_its_family_and_numbers():
    family = find_family("lcm")
    problem = make_problem(family, (30, 12), split="dev")
    assert family_and_params(problem) == (family, (30, 12))
    assert problem.answer == "60"
    assert problem.id.startswith("lcm-")
    assert problem.id.endswith(f"{digest(canonical(family, (30, 12))):016x}")


def test_the_prompt_is_short_except_for_the_long_family(splits):
    assert max(len(p.prompt) for p in splits.train if p.level < 4) < 200


def test_apportion_gives_the_total():
    assert apportion(7, [0.5, 0.25, 0.25]) == [3, 2, 2]
    assert sum(apportion(1001, [0.1] * 13)) == 1001


def test_an_unknown_family_is_refused_with_the_known_ones():
    with pytest.raises(ProblemError, match=r"unknown problem family 'lmc'.*lcm"):
        find_family("lmc")
    with pytest.raises(ProblemError, match=r"unknown problem family lmc.*lcm"):
        generate_splits(seed=0, num_sft=1, num_train=1, num_dev=1, num_test=400, families=["lmc", "lcm"])


def test_a_ring_too_small_is_refused():
    with pytest.raises(ProblemError, match="num_test >= 400"):
        generate_splits(seed=0, num_sft=1, num_train=1, num_dev=1, num_test=399)
    assert set(RINGS) < set(SPLITS)


def test_an_exhausted_family_is_refused_with_the_remedy():
    with pytest.raises(ProblemError, match=r"'divisor_sum' yields no new problem \(sft: .* ask for fewer"):
        generate_splits(
            seed=0, num_sft=9000, num_train=0, num_dev=0, num_test=0, min_ring=0, families=["divisor_sum"]
        )


def test_level_shares_that_do_not_add_up_are_refused():
    with pytest.raises(ProblemError, match="add up to 1"):
        LevelMix(level_1=0.5, level_2=0.5, level_3=0.5, long=0.0)


def test_a_negative_size_is_refused():
    with pytest.raises(ProblemError, match="num_dev is -1"):
        generate_splits(seed=0, num_sft=1, num_train=1, num_dev=-1, num_test=400)


def test_a_foreign_problem_cannot_be_taught():
    problem = make_problem(find_family("lcm"), (30, 12), split="dev")
    from dataclasses import replace

    with pytest.raises(ProblemError, match="generate_splits"):
        family_and_params(replace(problem, params=None))
