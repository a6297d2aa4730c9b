"""Where a model runs: which program computes it, and on which device."""

from typing import Literal, get_args

import torch

from bncl_pyg.errors import InputError

Backend = Literal["torch", "onnx", "onnx-int8"]


def check_backend(backend: str) -> None:
    """Raise unless there is such a backend."""
    if backend not in get_args(Backend):
        raise InputError(f"The backend must be one of {', '.join(get_args(Backend))}, but is '{backend}'.")


def resolve_backend(backend: str | None, device: str | None, *, compact: bool) -> str:
    """Return the backend that a model runs with.

    Args:
        backend: as it is asked for; chosen, if not given.
        device: as it is asked for.
        compact: whether the model can be computed in 8 bits without being exported first.
    """
    if backend is not None:
        return backend
    on_cpu = device == "cpu" or (device is None and not torch.accelerator.is_available())
    return "onnx-int8" if compact and on_cpu else "torch"


def resolve_device(backend: str, device: str | None) -> torch.device:
    """Return the device that a model runs on.

    Args:
        backend: only torch can use another device than the CPU.
        device: such as "cpu" or "cuda:1"; by default an accelerator if there is one, else the CPU.
    """
    if backend != "torch":
        if device not in (None, "cpu"):
            raise InputError(f"The backend '{backend}' runs on the CPU, so the device cannot be '{device}'.")
        return torch.device("cpu")
    if device is None:
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"The device '{device}' cannot be used here ({first_line(error)}).") from None
    return chosen


def first_line(error: BaseException) -> str:
    """Return the first line of what an exception says, without its full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
