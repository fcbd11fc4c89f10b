"""One batch of rollouts on simulated engines, by discrete events.

Other packages import from these modules:

- `simulate`: `Cluster`, `simulate`, `lower_bound_s`
- `workload`: `Workload`, `synthetic`
"""
