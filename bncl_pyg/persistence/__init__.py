"""Files and folders that are whole or absent: atomic writes, manifests with digests of every file, the hub."""

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
from bncl_pyg.persistence.hub import local_folder

__all__ = [
    "LOCK",
    "MANIFEST",
    "check_file",
    "check_free",
    "check_new_file",
    "check_own_folder",
    "folder_lock",
    "is_stream",
    "local_folder",
    "new_folder",
    "read_json",
    "read_manifest",
    "sha256_of",
    "write_bytes",
    "write_file",
    "write_json",
    "write_jsonl",
    "write_manifest",
]
