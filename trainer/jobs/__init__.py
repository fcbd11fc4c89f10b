"""Long jobs: working folders that survive a kill, progress, and stop signals.

Other packages import from these modules:

- `interrupt`: `StopSignal`
- `progress`: `Progress`
- `work_folder`: `WorkDir`
"""
