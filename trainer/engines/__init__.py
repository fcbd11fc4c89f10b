"""Engines, which generate tokens: one protocol, a local engine, vLLM, and a server.

Other packages import from these modules:

- `decoder`: `Shape`
- `endpoint`: `EndpointEngine`, `served_model`
- `local`: `LocalEngine`
- `open_engines`: `open_engines`
- `protocol`: `LiveWeights`, `Recovery`, `Engine`
- `requests`: `Finish`, `GenerateRequest`, `Completion`, `EngineReport`
- `vllm_version`: `installed_vllm`, `vllm_fault`
- `vllm`: `VllmEngine`
"""
