"""Long jobs: working folders that survive a kill, progress, and stop signals.

Other packages import from these modules:

- `interrupt`: `StopSignal`
- `progress`: `Progress`
- `set_aside`: `free_name`
- `work_folder`: `WorkDir`
"""
