"""Folders by name: a local folder, or a repository of the Hugging Face hub, without ever waiting for a dead network."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError
from bncl_pyg.persistence.files import read_json
from bncl_pyg.persistence.folders import MANIFEST

PATIENCE = 10
"""Seconds until the hub must have answered before anything is downloaded from it."""


@dataclass(frozen=True)
class HubOptions:
    """How the hub is asked, in the words of its own library.

    Args:
        revision: a branch, a tag or a commit of the repository; the newest, if not given.
        token: who asks; who is logged in on this machine, if not given.
        cache_dir: where downloads are kept; the hub's own cache, if not given.
        force_download: whether to ask the hub though there is something in the cache.
        local_files_only: never ask the hub.
    """

    revision: str | None = None
    token: str | bool | None = None
    cache_dir: Path | str | None = None
    force_download: bool = False
    local_files_only: bool = False


def local_folder(
    name: Path | str,
    what: str,
    patterns: Sequence[str] | None = None,
    *,
    revision: str | None = None,
    options: HubOptions | None = None,
) -> Path:
    """Return a folder on this machine.

    Args:
        name: a folder, or a hub name `owner/name`, which is downloaded once and then read from the hub's cache without
            asking the network.
        what: what is looked for, for the error message.
        patterns: which files to download, such as "*.json"; all, if not given. A name without a star must be there.
        revision: a commit of the repository on the hub; the newest, if not given.
        options: further ones of the hub; the revision is then theirs.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputError(f"{name} is a file, but {what} is a folder.")
    if isinstance(name, Path) or name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise InputError(f"{name} does not exist.")
    options = options or HubOptions(revision)
    cached = None if options.force_download else _cached(name, patterns, options)
    if cached is None and options.local_files_only:
        raise InputError(f"{name} is neither a folder nor in the hub's cache on this machine.")
    return cached or _downloaded(name, what, patterns, options)


def _cached(name: str, patterns: Sequence[str] | None, options: HubOptions) -> Path | None:
    """Return a repository's folder in the hub's cache; nothing where it, or a file that must be there, is not."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    wanted = None if patterns is None else list(patterns)
    try:
        folder = Path(
            snapshot_download(
                name,
                revision=options.revision,
                cache_dir=options.cache_dir,
                allow_patterns=wanted,
                local_files_only=True,
            )
        )
    except LocalEntryNotFoundError:
        return None
    except HFValidationError as error:
        raise InputError(f"{name} is neither a folder nor a name on the hub ({error}).") from None
    # A download that was killed leaves a part of the files.
    needed = [pattern for pattern in wanted or () if "*" not in pattern]
    if not needed and (folder / MANIFEST).is_file():
        files = read_json(folder / MANIFEST).get("files")
        needed = list(files) if isinstance(files, dict) else []
    return folder if all((folder / file).is_file() for file in needed) else None


def _downloaded(name: str, what: str, patterns: Sequence[str] | None, options: HubOptions) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    wanted = None if patterns is None else list(patterns)
    try:
        # This fails at once where the hub cannot be reached or has no such thing; a download would try many times.
        HfApi(token=options.token).repo_info(name, revision=options.revision, timeout=PATIENCE)
        return Path(
            snapshot_download(
                name,
                revision=options.revision,
                token=options.token,
                cache_dir=options.cache_dir,
                force_download=options.force_download,
                allow_patterns=wanted,
            )
        )
    except Exception as error:
        # What carries the requests has changed between releases of the hub's library, and its exceptions with it.
        raise InputError(
            f"{name} is neither a folder nor {what} that the hub could give ({_first_line(error)})."
        ) from None


def check_hub_name(name: str) -> None:
    """Raise unless a repository on the hub could have this name: `owner/name`, or a name alone."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise InputError(f"'{name}' cannot be the name of a repository on the hub ({_first_line(error)}).") from None


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """Turn what the hub says against a push into one sentence; what is not the hub's passes."""
    try:
        yield
    except Exception as error:
        reasons = (_reason_of(cause) for cause in _causes(error))
        why = next((reason for reason in reasons if reason is not None), None)
        if why is None:
            raise
        raise InputError(f"{name} could not be pushed: {why}.") from None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and what it was raised from: an upload that fails is told by another exception."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _reason_of(error: BaseException) -> str | None:
    """Return why the hub did not take something; `None` where an exception is not about the hub."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

    if isinstance(error, LocalTokenNotFoundError):
        return _UNKNOWN_USER
    if isinstance(error, HfHubHTTPError):
        return _meaning_of(error.response.status_code, error)
    if isinstance(error, OfflineModeIsEnabled):
        return "this machine is told to stay offline; unset HF_HUB_OFFLINE to be connected"
    if _is_connection(error):
        return f"the hub at {constants.ENDPOINT} cannot be reached ({_first_line(error)})"
    return None


_UNKNOWN_USER = (
    "the hub does not know who you are; log in with `hf auth login`, or set HF_TOKEN to a token that may write"
)


def _meaning_of(status: int, error: Exception) -> str:
    """Say what a status of the hub means for somebody who pushes."""
    if status == 401:
        return _UNKNOWN_USER
    if status == 403:
        return "the hub does not let you write there (403); the token must be allowed to write, and the owner be you"
    if status in (409, 412):
        return f"the hub has something else there by now ({status}); wait a moment and push again"
    if status >= 500:
        return f"the hub has a problem of its own ({status}); try again later"
    return f"the hub refused it ({_first_line(error)})"


def _is_connection(error: BaseException) -> bool:
    """Return whether an exception is of whatever carries requests, which has changed between releases of the hub's."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"TransportError", "ConnectionError", "Timeout", "TimeoutException", "RequestException"})


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def hub_state() -> dict[str, Any]:
    """Return where the hub is, whether this machine may ask it, and where its cache lies."""
    from huggingface_hub import constants

    return {
        "endpoint": constants.ENDPOINT,
        "offline": bool(constants.HF_HUB_OFFLINE),
        "cache": str(constants.HF_HUB_CACHE),
    }
