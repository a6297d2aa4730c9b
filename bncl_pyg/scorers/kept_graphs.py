"""Compact graphs are kept for the next process: making one takes most of a second, reading it back very little.

CACHE/graphs/KEY.onnx       CACHE is `BNCL_CACHE`, else `bncl-pyg` in the user's folder for caches
"""

import hashlib
import json
import logging
import os
from pathlib import Path

from bncl_pyg.persistence import sha256_of, write_bytes
from bncl_pyg.scorers import bert

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return where things are kept that can be made again at any time."""
    chosen = os.environ.get("BNCL_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bncl-pyg"


def kept_graph(folder: Path, weights_sha256: str, *, first_token_only: bool = False) -> Path | bytes:
    """Return the graph of `bert.bert_graph` as a file; as it is, where there is no place to keep it.

    Args:
        folder: of the weights.
        weights_sha256: of the file that holds them.
        first_token_only: see `bert_graph`.
    """
    config = folder / "config.json"
    # A graph that other code, weights or numbers would make is another one.
    parts = [sha256_of(Path(bert.__file__)), weights_sha256, sha256_of(config) if config.is_file() else ""]
    key = hashlib.sha256(json.dumps([*parts, first_token_only]).encode()).hexdigest()[:32]
    file = cache_folder() / "graphs" / f"{key}.onnx"
    if file.is_file():
        return file
    content = bert.bert_graph(bert.read_bert(folder), first_token_only=first_token_only)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, content)
    except OSError as error:
        log.debug("Compact graphs cannot be kept in %s (%s): they are made again each time.", file.parent, error)
        return content
    return file
