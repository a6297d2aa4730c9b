"""Folders by name: a local folder, or a repository of the Hugging Face hub, without ever waiting for a dead network."""

from collections.abc import Sequence
from pathlib import Path

from bncl_pyg.errors import InputError

PATIENCE = 10
"""Seconds until the hub must have answered before anything is downloaded from it."""


def local_folder(
    name: Path | str, what: str, patterns: Sequence[str] | None = None, *, revision: str | None = None
) -> Path:
    """Return a folder on this machine.

    Args:
        name: a folder, or a hub name `owner/name`, which is downloaded once and then read from the hub's cache without
            asking the network.
        what: what is looked for, for the error message.
        patterns: which files to download, such as "*.json"; all, if not given. A name without a star must be there.
        revision: a commit of the repository on the hub; the newest, if not given.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputError(f"{name} is a file, but {what} is a folder.")
    if isinstance(name, Path) or name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise InputError(f"{name} does not exist.")
    return _cached(name, patterns, revision) or _downloaded(name, what, patterns, revision)


def _cached(name: str, patterns: Sequence[str] | None, revision: str | None) -> Path | None:
    """Return a repository's folder in the hub's cache; nothing where it, or a file that must be there, is not."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    wanted = None if patterns is None else list(patterns)
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=wanted, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    except HFValidationError as error:
        raise InputError(f"{name} is neither a folder nor a name on the hub ({error}).") from None
    # A download that was killed leaves a part of the files.
    needed = [pattern for pattern in wanted or () if "*" not in pattern]
    return folder if all((folder / file).is_file() for file in needed) else None


def _downloaded(name: str, what: str, patterns: Sequence[str] | None, revision: str | None) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    wanted = None if patterns is None else list(patterns)
    try:
        # This fails at once where the hub cannot be reached or has no such thing; a download would try many times.
        HfApi().repo_info(name, revision=revision, timeout=PATIENCE)
        return Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
    except Exception as error:
        # What carries the requests has changed between releases of the hub's library, and its exceptions with it.
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{name} is neither a folder nor {what} that the hub could give ({first.rstrip('.')})."
        ) from None
