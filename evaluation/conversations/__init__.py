"""Conversations that a benchmark scripts, and prompts in a model's own chat.

Other packages import from these modules:

- `bfcl_services`: `FunctionScript`, `open_services`
- `native_chat`: `NativeChat`
- `script_episode`: `Script`, `OneTurn`, `open_scripts`
"""
