"""Fork servers and their children. The entry point is `sandbox.child.fork_server.main`; this file imports nothing.

Other packages import from these modules:

- `call`: `new_job_file`, `is_set_up`
- `fork_server`: `Op`
- `jail`: `JailPlan`
- `kernel`: `map_large_blocks`, `prctl`, `close_from`
- `root_view`: `build`, `enter`
- `runner`: `SoftLimit`, `Deadline`, `cpu_s`
- `seccomp`: `is_supported`, `server_filter`, `allowed_names`
"""
