"""Features on disk: a folder with a manifest, the ids, the labels and checksummed blocks.

    FEATURES/
      manifest.json               format, scorer, dtype, and for each block its rows, columns and SHA-256
      texts.jsonl                 {"id"} in the order of the rows
      labels.jsonl                {"label", "description"} in the order of the columns
      block-00000.safetensors     "entailment" and "contradiction", (rows, columns)

A block covers a rectangle of rows and columns, so that later texts and later labels can come as blocks of their own.
"""

from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.corpus.rows import read_rows
from bncl_pyg.errors import InputError
from bncl_pyg.files import new_folder, read_manifest, sha256_of, write_jsonl, write_manifest
from bncl_pyg.nli.features import Features

BLOCK_TEXTS = 4096


def write_features(
    features: Features,
    path: Path,
    *,
    dtype: Literal["float16", "float32"] = "float32",
    overwrite: bool = False,
) -> None:
    """Write features as a folder that is whole or absent."""
    number_type = {"float16": torch.float16, "float32": torch.float32}[dtype]
    blocks: list[dict[str, Any]] = []
    with new_folder(path, "features", overwrite=overwrite) as folder:
        for start in range(0, len(features), BLOCK_TEXTS):
            rows = slice(start, min(start + BLOCK_TEXTS, len(features)))
            file = folder / f"block-{len(blocks):05d}.safetensors"
            scores = {"entailment": features.entailment[rows], "contradiction": features.contradiction[rows]}
            save_file({name: part.to(number_type).contiguous() for name, part in scores.items()}, file)
            blocks.append(
                {
                    "file": file.name,
                    "rows": [rows.start, rows.stop],
                    "columns": [0, len(features.labels)],
                    "sha256": sha256_of(file),
                }
            )
        write_jsonl(folder / "texts.jsonl", ({"id": identifier} for identifier in features.ids))
        features.labels.write(folder / "labels.jsonl")
        shape = [len(features), len(features.labels)]
        content = {
            "kind": "dense",
            "shape": shape,
            "dtype": dtype,
            "scorer": features.scorer,
            "blocks": blocks,
        }
        write_manifest(folder, "features", content)


def read_features(path: Path) -> Features:
    """Read a folder of features; a block that is missing, damaged or of another shape is named and never used."""
    manifest = read_manifest(path, "features")
    if manifest.get("kind") != "dense":
        raise InputError(f"{path} holds {manifest.get('kind')} features, but this release reads dense ones.")
    ids = tuple(row.identifier("id") for row in read_rows(path / "texts.jsonl"))
    labels = LabelSet.read(path / "labels.jsonl")
    if manifest["shape"] != [len(ids), len(labels)]:
        raise InputError(f"{path} is damaged: its manifest and its lists of texts and labels disagree in length.")
    entailment = torch.full((len(ids), len(labels)), torch.nan)
    contradiction = torch.full_like(entailment, torch.nan)
    for block in manifest["blocks"]:
        scores = _read_block(path / block["file"], block)
        rows, columns = slice(*block["rows"]), slice(*block["columns"])
        entailment[rows, columns] = scores["entailment"].float()
        contradiction[rows, columns] = scores["contradiction"].float()
    if bool(entailment.isnan().any() | contradiction.isnan().any()):
        raise InputError(f"{path} is not complete: some texts have no scores for some labels.")
    return Features(ids, labels, entailment, contradiction, manifest.get("scorer", {}))


def _read_block(file: Path, block: dict[str, Any]) -> dict[str, torch.Tensor]:
    if not file.is_file():
        raise InputError(f"{file} is missing from its folder of features.")
    if sha256_of(file) != block["sha256"]:
        raise InputError(f"{file} is damaged: its checksum is not the one in the manifest.")
    try:
        scores = load_file(file)
    except SafetensorError as error:
        raise InputError(f"{file} is not a safetensors file ({error}).") from None
    shape = (block["rows"][1] - block["rows"][0], block["columns"][1] - block["columns"][0])
    for name in ("entailment", "contradiction"):
        if name not in scores or tuple(scores[name].shape) != shape:
            raise InputError(f"{file} must hold '{name}' of shape {shape}.")
    return scores
