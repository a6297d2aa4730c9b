"""The one exception that means "what you gave cannot be used"."""


class InputError(ValueError):
    """What the user gave cannot be used; the message is one sentence that names it.

    The library raises it wherever a file, an argument or a label is at fault; the command line shows the sentence
    and exits with 2.
    """
