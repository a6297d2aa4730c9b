"""Files and folders that are whole or absent: atomic writes, manifests with digests of every file, the hub."""

from bncl_pyg.persistence.arrays import ArraySpool, map_arrays, write_arrays
from bncl_pyg.persistence.card import (
    CardFacts,
    EncoderLicense,
    card_text,
    with_data_license,
    with_evaluation,
    with_repository,
)
from bncl_pyg.persistence.files import (
    check_new_file,
    is_stream,
    read_json,
    sha256_of,
    write_bytes,
    write_file,
    write_json,
    write_jsonl,
)
from bncl_pyg.persistence.folders import (
    CARD,
    LOCK,
    MANIFEST,
    check_file,
    check_free,
    check_own_folder,
    folder_lock,
    new_folder,
    read_manifest,
    write_manifest,
)
from bncl_pyg.persistence.hub import HubOptions, check_hub_name, hub_state, local_folder, refusals

__all__ = [
    "CARD",
    "LOCK",
    "MANIFEST",
    "ArraySpool",
    "CardFacts",
    "EncoderLicense",
    "HubOptions",
    "card_text",
    "check_file",
    "check_free",
    "check_hub_name",
    "check_new_file",
    "check_own_folder",
    "folder_lock",
    "hub_state",
    "is_stream",
    "local_folder",
    "map_arrays",
    "new_folder",
    "read_json",
    "read_manifest",
    "refusals",
    "sha256_of",
    "with_data_license",
    "with_evaluation",
    "with_repository",
    "write_arrays",
    "write_bytes",
    "write_file",
    "write_json",
    "write_jsonl",
    "write_manifest",
]
