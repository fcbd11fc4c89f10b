"""The local engine: exact log-probs, repeatable streams, correct caches."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from tests.trainer.tiny_models import ARCHITECTURES, VOCAB, teacher_forced, tiny_model
from trainer.engines.kv_cache import KVCache
from trainer.engines.local import LocalEngine
from trainer.engines.protocol import LiveWeights
from trainer.engines.requests import Completion, Finish, GenerateRequest

PROMPT = [1, 2, 3, 4, 5, 6, 7]


class FixedScores:
    """A model whose scores depend on the position alone, so that only seeds can make rows differ."""

    def __init__(self, vocab: int = VOCAB, spread: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(3)
        self.scores_LV = spread * torch.randn(200, vocab, generator=generator)

    def allocate(self) -> KVCache:
        return KVCache(
            num_layers=1,
            num_kv_heads=1,
            head_dim=2,
            max_len=200,
            device=torch.device("cpu"),
            dtype=torch.float32,
        )

    def prefill(self, cache, rows, starts, suffixes) -> None:
        pass

    def step(self, cache, tokens_N, position_N):
        return self.scores_LV[position_N]


def engine(model=None, *, capacity_tokens=4096, max_len=200) -> LocalEngine:
    made = LocalEngine(
        engine=0,
        capacity_tokens=capacity_tokens,
        max_len=max_len,
    )
    if isinstance(model, FixedScores):
        made.use(model, 0)
    elif model is not None:
        made.take_weights(LiveWeights(model.state_dict(), model.config), 0)
    return made


def request(
    session: str, ids=PROMPT, *, max_new=10, seed=0, stop_ids=(), policy_version=0, temperature=1.0, top_p=1.0
) -> GenerateRequest:
    return GenerateRequest(
        ids=list(ids),
        max_new=max_new,
        seed=seed,
        stop_ids=tuple(stop_ids),
        session=session,
        policy_version=policy_version,
        temperature=temperature,
        top_p=top_p,
    )


def run(made: LocalEngine, *requests: GenerateRequest, limit: int = 1000) -> dict[str, Completion]:
    for one in requests:
        made.submit(one)
    done: dict[str, Completion] = {}
    for _ in range(limit):
        if all(one.session in done for one in requests):
            return done
        for completion in made.advance():
            done[completion.session] = completion
    raise AssertionError(f"only {sorted(done)} ended")


# --- log-probs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_are_those_of_transformers_on_the_sampled_ids(architecture, temperature):
    model = tiny_model(architecture)
    requests = [
        request(f"s{i}", PROMPT[: 1 + i], seed=i, max_new=5 + 3 * i, temperature=temperature)
        for i in range(7)
    ]
    done = run(engine(model), *requests)
    for one in requests:
        completion = done[one.session]
        expected = teacher_forced(model, one.ids + completion.ids, temperature)[len(one.ids) - 1 :]
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, rtol=0, atol=1e-5)


def test_greedy_takes_the_likeliest_token_with_its_log_prob_at_temperature_one():
    model = tiny_model()
    completion = run(engine(model), request("a", temperature=0.0))["a"]
    ids = PROMPT + completion.ids
    with torch.inference_mode():
        best = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
    assert completion.ids == best[len(PROMPT) - 1 : -1]
    expected = teacher_forced(model, ids)[len(PROMPT) - 1 :]
    torch.testing.assert_close(torch.tensor(completion.logprobs), expected, rtol=0, atol=1e-5)


def test_top_p_narrows_the_draw_and_leaves_the_log_prob_of_the_full_softmax():
    scores = FixedScores(spread=2.0)
    done = run(engine(scores), *[request(f"s{i}", seed=i, max_new=4, top_p=0.5) for i in range(200)])
    for step in range(4):
        logprob_V = scores.scores_LV[len(PROMPT) - 1 + step].log_softmax(-1)
        order = logprob_V.argsort(descending=True)
        before = logprob_V[order].exp().cumsum(0) - logprob_V[order].exp()
        nucleus = set(order[before < 0.5].tolist())
        drawn = {completion.ids[step] for completion in done.values()}
        assert drawn == nucleus
        for completion in done.values():
            assert completion.logprobs[step] == pytest.approx(
                float(logprob_V[completion.ids[step]]), abs=1e-5
            )


# --- streams -----------------------------------------------------------------------------------------------


def test_the_draws_of_a_seed_do_not_depend_on_the_batch():
    alone = run(engine(FixedScores()), request("a", seed=77, max_new=40))["a"]
    others = [request(f"o{i}", seed=i, max_new=1 + 5 * (i % 11)) for i in range(60)]
    made = engine(FixedScores())
    for other in others[:30]:
        made.submit(other)
    for _ in range(3):
        made.advance()
    assert run(made, request("a", seed=77, max_new=40), *others[30:])["a"].ids == alone.ids


def test_the_same_submissions_give_the_same_bits():
    def once() -> list[Completion]:
        made = engine(tiny_model())
        done = []
        for i in range(30):
            if i < 12:
                made.submit(request(f"s{i}", PROMPT[: 1 + i % 5], seed=i, max_new=3 + i))
            done += made.advance()
        return done

    first = once()
    assert len(first) == 12
    assert first == once()


def test_no_two_samples_of_a_group_are_equal_under_a_flat_distribution():
    # Public fault B30: the same seed in every replica.
    done = run(engine(FixedScores(spread=0.0)), *[request(f"s{i}", seed=i, max_new=12) for i in range(64)])
    assert len({tuple(completion.ids) for completion in done.values()}) == 64


def test_tokens_are_drawn_with_the_probabilities_of_the_softmax():
    scores = FixedScores(vocab=5)
    count = 4000
    made = engine(scores, capacity_tokens=10**6)
    done = run(made, *[request(f"s{i}", seed=i, max_new=1) for i in range(count)])
    p_V = scores.scores_LV[len(PROMPT) - 1].softmax(-1)
    counts = Counter(completion.ids[0] for completion in done.values())
    chi_square = sum((counts[v] - count * float(p)) ** 2 / (count * float(p)) for v, p in enumerate(p_V))
    assert chi_square < 18.5  # 0.999 quantile, 4 degrees of freedom


# --- turns and caches --------------------------------------------------------------------------------------


def test_the_stop_token_is_kept_and_ends_the_turn():
    # Public fault B25.
    free = run(engine(FixedScores()), request("a", max_new=30))["a"]
    stop_ids = (free.ids[4], free.ids[9])
    first = min(free.ids.index(stop) for stop in stop_ids)
    completion = run(engine(FixedScores()), request("a", max_new=30, stop_ids=stop_ids))["a"]
    assert completion.finish is Finish.STOP
    assert completion.ids == free.ids[: first + 1]


def test_max_new_tokens_end_the_turn_by_length():
    completion = run(engine(FixedScores()), request("a", max_new=4))["a"]
    assert completion.finish is Finish.LENGTH
    assert len(completion.ids) == len(completion.logprobs) == 4


def test_decoding_with_a_pause_equals_decoding_without_one():
    model = tiny_model()
    made = engine(model)
    first = run(made, request("a", seed=1, max_new=6), *[request(f"o{i}", seed=9 + i) for i in range(5)])["a"]
    context = PROMPT + first.ids + [11, 12, 13]
    run(made, request("between", [4, 4], seed=3))
    prefilled = made.num_prefilled
    second = run(made, request("a", context, seed=2, max_new=6))["a"]
    # Cached: the prompt and all sampled ids but the last; fed: the last of the context.
    assert made.num_prefilled - prefilled == len(context) - (len(PROMPT) + 6 - 1) - 1
    fresh = run(engine(model), request("a", context, seed=2, max_new=6))["a"]
    assert second.ids == fresh.ids
    torch.testing.assert_close(torch.tensor(second.logprobs), torch.tensor(fresh.logprobs), rtol=0, atol=1e-5)


def test_a_context_that_does_not_continue_the_cache_is_recomputed():
    model = tiny_model()
    made = engine(model)
    run(made, request("a", seed=1))
    other = [9, 8, 7, 6]
    again = run(made, request("a", other, seed=2))["a"]
    assert again.ids == run(engine(model), request("a", other, seed=2))["a"].ids


def test_siblings_cache_their_common_prompt_once():
    made = engine(tiny_model())
    run(made, *[request(f"s{i}", seed=i) for i in range(8)])
    assert made.num_prefilled == len(PROMPT) - 1
    late = run(made, request("late", seed=3))["late"]
    assert made.num_prefilled == len(PROMPT) - 1
    assert late.ids == run(engine(tiny_model()), request("alone", seed=3))["alone"].ids


def test_a_cached_context_is_scored_by_the_new_weights_after_a_sync():
    # Public fault B43: the prefix cache kept over a weight update.
    old, new = tiny_model(seed=0), tiny_model(seed=1)
    made = engine(old)
    context = [*PROMPT, *run(made, request("a", seed=1))["a"].ids, 5]
    made.take_weights(LiveWeights(new.state_dict(), new.config), 1)
    synced = run(made, request("a", context, seed=1, policy_version=1))["a"]
    expected = teacher_forced(new, context + synced.ids)[len(context) - 1 :]
    torch.testing.assert_close(torch.tensor(synced.logprobs), expected, rtol=0, atol=1e-5)


def test_resetting_the_prefix_cache_computes_everything_again():
    made = engine(tiny_model())
    run(made, request("a", seed=1))
    made.reset_prefix_cache()
    assert made.report().free_kv_tokens == 4096
    before = made.num_prefilled
    run(made, request("a", seed=1))
    assert made.num_prefilled == 2 * before


def test_a_turn_survives_a_reset_of_the_cache():
    model = tiny_model()
    straight = run(engine(model), request("a", seed=5, max_new=12))["a"]
    made = engine(model)
    made.submit(request("a", seed=5, max_new=12))
    for _ in range(4):
        assert made.advance() == []
    made.reset_prefix_cache()
    assert made.report().free_kv_tokens == 4096
    done = [completion for _ in range(12) for completion in made.advance()]
    assert [completion.ids for completion in done] == [straight.ids]


def test_an_aborted_request_returns_what_was_sampled():
    made = engine(FixedScores())
    straight = run(engine(FixedScores()), request("a", seed=5))["a"]
    made.submit(request("a", seed=5))
    for _ in range(3):
        made.advance()
    made.submit(request("waits", seed=6))
    made.abort("a")
    made.abort("waits")
    made.abort("unknown")
    done = made.advance()
    assert [(c.session, c.finish, c.ids) for c in done] == [
        ("a", Finish.ABORTED, straight.ids[:3]),
        ("waits", Finish.ABORTED, []),
    ]
    assert made.report().running == made.report().waiting == 0


# --- capacity ----------------------------------------------------------------------------------------------


def test_rows_that_outgrow_the_capacity_are_preempted_and_end_with_the_same_ids():
    model = tiny_model()
    requests = [request(f"s{i}", [1 + i] * 10, seed=i, max_new=30) for i in range(6)]
    roomy = run(engine(model), *requests)
    tight = engine(model, capacity_tokens=100)
    for one in requests:
        tight.submit(one)
    done: dict[str, Completion] = {}
    while len(done) < len(requests):
        for completion in tight.advance():
            done[completion.session] = completion
        assert 0 <= tight.report().free_kv_tokens <= 100
    assert tight.report().preemptions > 0
    assert {s: c.ids for s, c in done.items()} == {s: c.ids for s, c in roomy.items()}


def test_parked_caches_make_room_before_a_running_row_does():
    made = engine(tiny_model(), capacity_tokens=60)
    run(made, request("old", [3] * 20, seed=1, max_new=10))
    run(made, request("new", [4] * 25, seed=2, max_new=30))
    assert made.report().preemptions == 0


def test_released_sessions_free_their_tokens():
    made = engine(tiny_model())
    run(made, request("a"))
    assert made.report().free_kv_tokens < 4096
    made.release("a")
    made.release("unknown")
    assert made.report().free_kv_tokens == 4096


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (request("a", max_new=194), "exceed 200"),
        (request("a", []), "at least one id"),
        (request("a", max_new=0), "max_new >= 1"),
        (request("a", stop_ids=range(9)), "stop ids"),
        (request("a", policy_version=7), "policy version 7"),
    ],
)
def test_requests_that_cannot_be_served_are_refused(bad, message):
    # Public fault B28: an overflow found in the middle of a rollout.
    with pytest.raises(ValueError, match=message):
        engine(FixedScores()).submit(bad)


def test_a_session_has_one_request_in_flight():
    made = engine(FixedScores())
    made.submit(request("a"))
    with pytest.raises(ValueError, match="in flight"):
        made.submit(request("a"))
    with pytest.raises(RuntimeError, match="abort it first"):
        made.release("a")
    with pytest.raises(RuntimeError, match="in flight"):
        made.use(FixedScores(), 1)


def test_iterations_are_counted_idle_or_not():
    made = engine(FixedScores())
    made.advance()
    run(made, request("a", max_new=3))
    assert made.iteration == 4


def test_rows_that_end_at_different_times_survive_compaction():
    model = tiny_model()
    requests = [
        request(f"s{i:02}", [1 + i % 7] * (3 + i % 5), seed=i, max_new=1 + (i * 7) % 23) for i in range(50)
    ]
    made = engine(model)
    together = run(made, *requests)
    contexts = [[*one.ids, *together[one.session].ids, 5] for one in requests]
    again = run(
        made,
        *[request(one.session, contexts[i], seed=100 + i, max_new=4) for i, one in enumerate(requests)],
    )
    lonely = engine(model)
    for i, one in enumerate(requests):
        straight = run(lonely, one)[one.session]
        lonely.release(one.session)
        assert straight.ids == together[one.session].ids
        completion = again[one.session]
        expected = teacher_forced(model, contexts[i] + completion.ids)[len(contexts[i]) - 1 :]
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, rtol=0, atol=1e-5)
