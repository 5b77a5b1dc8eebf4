"""Which engine parses: native code, torch, or Triton kernels."""

from gpuparse import native
from gpuparse.errors import ScoreError
from gpuparse.inference.decoders import DECODERS


def choose_engine(decoder: str, device: str, backend: str) -> str:
    """The backend that parses: "cpu", "torch" or "gpu".

    Args:
        decoder: a name in `DECODERS`.
        device: "cpu" or "cuda".
        backend: "auto", "cpu", "torch" or "gpu".
    Raises:
        ScoreError: an unknown backend, or one that cannot run this decoder there.
    """
    if DECODERS[decoder].is_higher_order:
        if device != "cpu" or backend not in ("auto", "cpu"):
            raise ScoreError(
                f"decoder {decoder} parses in native code, on the CPU: give device cpu, and backend"
                " auto or cpu"
            )
        return "cpu"
    if device == "cpu" and (backend == "cpu" or (backend == "auto" and native.is_available())):
        return "cpu"
    if device == "cpu" and backend == "auto":
        return "torch"
    import torch  # not for native code, which needs none of it

    from gpuparse.inference.backends import choose_backend

    return choose_backend(backend, torch.device(device), has_kernels=True)
