"""Engines, which generate tokens: one protocol, a local engine, vLLM, and a server.

Other packages import from these modules:

- `decoder`: `Shape`
- `endpoint`: `EndpointEngine`, `served_model`
- `local`: `LocalEngine`
- `protocol`: `LiveWeights`, `Recovery`, `Engine`
- `requests`: `Finish`, `GenerateRequest`, `Completion`, `EngineReport`
- `vllm`: `VllmEngine`
- `vllm_version`: `installed_vllm`, `vllm_fault`
"""
