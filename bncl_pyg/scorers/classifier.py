"""Sequence classifiers from a Hugging Face folder: weights, configuration and tokenizer, read without running code."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import read_json
from bncl_pyg.scorers.runtime import first_line

FIRST_TOKEN_FAMILIES = {"bert", "roberta", "xlm-roberta", "camembert", "electra", "deberta", "deberta-v2"}
"""Whose classifier reads the last layer's first token alone."""


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold the weights, sorted."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if not index.is_file():
        raise InputError(f"{folder} holds no model.safetensors, and weights in another format are not read.")
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise InputError(f"{index} does not say which files hold the weights.")
    files = [folder / str(shard) for shard in sorted(set(shards.values()))]
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} is missing, but {index.name} names it.")
    return files


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from writing its progress and its reports to the terminal: what matters is raised."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)


def load_config_and_tokenizer(folder: Path) -> tuple[Any, Any]:
    """Return a folder's transformers configuration and tokenizer."""
    from transformers import AutoConfig, AutoTokenizer

    # trust_remote_code is refused in words: left out, transformers would ask on the terminal.
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with quiet_transformers():
        try:
            config = AutoConfig.from_pretrained(folder, **options)
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        except Exception as error:
            # A broken folder makes transformers and tokenizers raise anything, from OSError to bare Exception.
            raise InputError(f"{folder} is not a readable Hugging Face model ({first_line(error)}).") from error
    if tokenizer.pad_token_id is None:
        raise InputError(f"The tokenizer of {folder} has no padding token.")
    return config, tokenizer


def load_classifier(folder: Path, config: Any, dtype: torch.dtype) -> Any:
    """Return a folder's sequence classifier, ready for inference on the CPU; weights that are missing are an error."""
    from transformers import AutoModelForSequenceClassification

    with quiet_transformers():
        try:
            model, report = AutoModelForSequenceClassification.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
        except Exception as error:
            raise InputError(f"{folder} is not a readable sequence classifier ({first_line(error)}).") from error
    # Weights that are not in the file would be random numbers.
    if report["missing_keys"]:
        raise InputError(f"{folder} is not a sequence classifier: it has no weights '{min(report['missing_keys'])}'.")
    model.config.use_cache = False
    if config.model_type in FIRST_TOKEN_FAMILIES:
        _finish_first_token_only(model)
    return model.eval()


def _finish_first_token_only(model: Any) -> None:
    """Leave out what no classifier reads: the last layer after its attention, for all tokens but the first.

    Each token goes its own way from there on, so that the logits stay the same; of a model with six layers, it saves
    an eighth of the arithmetic.
    """
    last = model.base_model.encoder.layer[-1]
    # A layer that works in chunks counts the tokens.
    if getattr(last, "chunk_size_feed_forward", 0) == 0:
        last.attention.output.register_forward_pre_hook(lambda _, states: tuple(state[:, :1] for state in states))


def longest_input(config: Any, tokenizer: Any) -> int:
    """Return how many tokens the model can read."""
    longest: int = tokenizer.model_max_length
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa and its kin count positions from after the padding token's id.
        shifted = "roberta" in config.model_type or config.model_type == "camembert"
        longest = min(longest, positions - ((config.pad_token_id or 0) + 1 if shifted else 0))
    return longest


class TorchClassifier:
    """A classifier in torch, on any device; inputs come from the CPU, and logits go back there."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self._model, self._device = model.to(device), device

    @torch.inference_mode()
    def __call__(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the logits, (pairs, outputs), of inputs, each (pairs, tokens)."""
        logits: Tensor = self._model(**{name: part.to(self._device) for name, part in inputs.items()}).logits
        return logits.cpu()
