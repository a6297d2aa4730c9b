"""What a shell completes that typer cannot know: the names of scorers."""

SCORERS = {
    "strong": "three small encoders together",
    "light": "the smallest of them",
    "fast": "static vectors",
    "multilingual": "sixteen languages",
}
"""Written down here, since asking the library for them takes seconds; a test compares."""


def complete_scorer(incomplete: str) -> list[tuple[str, str]]:
    """Return the scorers that a word may become; after a `+`, those that can be joined."""
    joined, plus, last = incomplete.rpartition("+")
    taken = set(joined.split("+"))
    return [
        (f"{joined}{plus}{name}", what) for name, what in SCORERS.items() if name.startswith(last) and name not in taken
    ]
