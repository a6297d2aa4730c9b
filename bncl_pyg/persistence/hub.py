"""Folders by name: a local folder, or a repository of the Hugging Face hub, without ever waiting for a dead network."""

from collections.abc import Sequence
from pathlib import Path

from bncl_pyg.errors import InputError


def local_folder(name: Path | str, what: str, patterns: Sequence[str] | None = None) -> Path:
    """Return a folder on this machine.

    Args:
        name: a folder, or a hub name `owner/name`, which is downloaded once and then found in the hub's cache.
        what: what is looked for, for the error message.
        patterns: which files to download; all, if not given.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputError(f"{name} is a file, but {what} is a folder.")
    if isinstance(name, Path) or name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise InputError(f"{name} does not exist.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted = None if patterns is None else list(patterns)
    try:
        return Path(snapshot_download(name, allow_patterns=wanted, local_files_only=True))
    except LocalEntryNotFoundError:
        pass  # not downloaded yet
    except HFValidationError as error:
        raise InputError(f"{name} is neither a folder nor a name on the hub ({error}).") from None
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise InputError(f"{name} is neither a folder nor {what} that the hub could give ({first}).") from None
