"""Models in ONNX Runtime on the CPU: exported on the spot, as they are or with weights of 8 bits."""

import importlib.util
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bncl_pyg.errors import InputError, missing_extra
from bncl_pyg.persistence import new_folder, read_manifest, write_manifest

log = logging.getLogger(__name__)

OPSET = 23
"""The first with an operator for attention, which ONNX Runtime computes faster than the operator's parts."""
LARGEST_FILE = 1_800_000_000
"""Bytes; an ONNX file ends at 2 GiB, and bigger weights go into a file of their own."""


def check_installed(backend: str) -> None:
    """Raise an error that says what to install."""
    for package in ("onnxruntime", "onnx", "onnxscript"):
        if importlib.util.find_spec(package) is None:
            raise missing_extra(f"The backend '{backend}'", package, "onnx")


def run_with_onnx(model: Any, inputs: Mapping[str, Tensor] | Sequence[str], *, quantise: bool = False) -> "OnnxModel":
    """Return what computes a transformers model's first output (logits, or last states) in ONNX Runtime.

    Args:
        model: in float32 on the CPU, ready for inference.
        inputs: an example, each (texts, tokens) with at least two of both; or only the inputs' names, for a model that
            reads whatever tokens there are.
        quantise: round the weights of linear layers to 8 bits, and what goes into these layers as it comes.
    """
    check_installed("onnx-int8" if quantise else "onnx")
    # ONNX Runtime has read the file when the session is made.
    with tempfile.TemporaryDirectory(prefix="bncl-onnx-") as folder:
        return OnnxModel(export(model, inputs, Path(folder), quantise=quantise))


def cached_onnx(
    load: Callable[[], Any], inputs: Mapping[str, Tensor], cache: Path, *, weights_sha256: str, quantise: bool
) -> "OnnxModel":
    """Do what `run_with_onnx` does, but only the first time; `load` gives the model only if it must be exported."""
    folder = cache / f"{weights_sha256[:32]}-{'int8' if quantise else 'float32'}-opset{OPSET}"
    if not _is_whole(folder):
        with new_folder(folder, "onnx", overwrite=True) as new:
            file = export(load(), inputs, new, quantise=quantise)
            made_from = {"file": file.name, "weights_sha256": weights_sha256, "torch": version("torch")}
            write_manifest(new, "onnx", made_from)
    return OnnxModel(folder / str(read_manifest(folder, "onnx", check_files=False)["file"]))


def _is_whole(folder: Path) -> bool:
    """Return whether an exported model is there, of this release's format and undamaged; if not, it is made anew."""
    if not folder.exists():
        return False
    try:
        read_manifest(folder, "onnx")
    except InputError as error:
        log.warning("%s The model is exported again.", error)
        return False
    return True


def export(model: Any, inputs: Mapping[str, Tensor] | Sequence[str], folder: Path, *, quantise: bool) -> Path:
    """Write a model as ONNX, for any number of texts and tokens; return the file."""
    example = dict(inputs) if isinstance(inputs, Mapping) else {name: torch.ones(2, 8).long() for name in inputs}
    size = sum(part.numel() * part.element_size() for part in model.parameters())
    file = folder / "model.onnx"
    any_size = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with _quiet():
        try:
            torch.onnx.export(
                _FirstOutput(model).eval(),
                (),
                file,
                kwargs={"inputs": example},
                dynamic_shapes={"inputs": dict.fromkeys(example, any_size)},
                input_names=list(example),
                output_names=["output"],
                opset_version=OPSET,
                dynamo=True,
                external_data=size > LARGEST_FILE,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            kind = type(model).__name__
            raise InputError(f"A {kind} cannot be exported to ONNX; choose the backend 'torch' for it.") from error
        return _quantise(file, folder / "model-int8.onnx") if quantise else file


def _quantise(file: Path, target: Path) -> Path:
    onnx, quantization = import_module("onnx"), import_module("onnxruntime.quantization")
    model = onnx.load(file)
    # The shapes that the exporter noted contradict the weights that the quantiser transposes.
    del model.graph.value_info[:]
    quantization.quantize_dynamic(
        model,
        target,
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        # Seven bits: with eight, sums overflow on processors without VNNI instructions, and scores are wrong there.
        reduce_range=True,
        weight_type=quantization.QuantType.QInt8,
    )
    for source in file.parent.glob(f"{file.name}*"):
        source.unlink()
    return target


class OnnxModel:
    """An exported model, called like the torch one but with a dictionary."""

    def __init__(self, file: Path) -> None:
        runtime = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # Threads that wait by spinning take the processor from the one that works, where others use the machine too.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            self._session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            # The exceptions of ONNX Runtime have no class in common but this one.
            raise InputError(f"{file} is not a readable ONNX model ({str(error).splitlines()[0]}).") from error
        # The exporter leaves out what the model does not look at.
        self._names = [part.name for part in self._session.get_inputs()]

    def __call__(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the model's first output."""
        (output,) = self._session.run(["output"], {name: inputs[name].numpy() for name in self._names})
        return torch.from_numpy(output)


class _FirstOutput(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        first: Tensor = self.model(**inputs)[0]
        return first


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter and the quantiser, which warn of their own affairs and of packages that nobody needs."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
