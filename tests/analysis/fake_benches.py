"""Invented bench files of the sandbox and the scheduler."""

from __future__ import annotations

SANDBOX_BENCH = {
    "calls_per_s": [
        {"in_flight": 1, "ours": 310.0, "peer": 11.0},
        {"in_flight": 16, "ours": 640.0, "peer": 20.0},
        {"in_flight": 64, "ours": 655.0, "peer": 24.0},
    ],
    "latency_s": {"p50": 0.003, "p99": 0.02, "mean": 0.004},
    "num_ok": 2000,
    "num_lost": 0,
}
POLICIES = {
    "static_together_synchronised_tools": 1.8,
    "least_in_flight": 1.3,
    "worst_case_reserve": 1.1,
    "forecast": 1.0,
}
SCHEDULER_BENCH = {
    "simulated": True,
    "seeds": [1, 2, 3, 4, 5],
    "runs": [
        {
            "workload": w,
            "seed": s,
            "policy": p,
            "simulated_makespan_s": 100 * ratio * (1 + 0.01 * s * (ratio > 1.2)),
        }
        for w in ("synthetic-8k", "synthetic-12k")
        for s in (1, 2, 3, 4, 5)
        for p, ratio in POLICIES.items()
    ],
    "summary": [
        {
            "workload": w,
            "policy": p,
            "simulated_makespan_s": 100 * ratio,
            "simulated_makespan_over_ours": ratio,
            "low": 0.99 * ratio,
            "high": 1.01 * ratio,
            "simulated_makespan_over_bound": 1.2 * ratio,
        }
        for w in ("synthetic-8k", "synthetic-12k")
        for p, ratio in POLICIES.items()
    ],
}
