"""The bundled set: Debian packages, what they say they are, and what they are used for."""

from pathlib import Path


def demo_folder() -> Path:
    """Return the folder with the bundled texts and labels."""
    return Path(__file__).parent / "data"
