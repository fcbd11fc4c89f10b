"""Code of the supervisor process. The entry point is `sandbox.server.supervise.main`; this file imports nothing.

Other packages import from these modules:

- `call_folders`: `new_root`, `sweep`, `remove_root`
- `child_bytes`: `Outcome`, `decode`, `to_character_end`
- `fork_servers`: `clean_environment`, `command`, `Server`
- `orphans`: `kill_strays`, `reap`, `end_all`
- `preload_tiers`: `Tiers`, `plan`
- `supervisor_state`: `Connection`, `Pending`, `Guard`
"""
