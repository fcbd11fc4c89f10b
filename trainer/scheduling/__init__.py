"""Assignment of rollouts to engines. Policies are in `policies`, simulated engines in `simulation`.

Other packages import from these modules:

- `fixed_cap`: `FixedCapPolicy`
- `policy`: `Arrival`, `Assignment`, `Policy`
"""
