"""The one exception that means "what you gave cannot be used"."""


class InputError(ValueError):
    """What the user gave cannot be used; the message is one sentence that names it.

    The library raises it wherever a file, an argument or a label is at fault; the command line shows the sentence
    and exits with 2.
    """


def missing_extra(what: str, package: str, extra: str) -> InputError:
    """Return the error that says which package is not installed and how to install it."""
    return InputError(
        f'{what} needs the package {package}, which is not installed; run: pip install "bncl-pyg[{extra}]".'
    )
