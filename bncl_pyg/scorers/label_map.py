"""Which output of a natural language inference model means entailment, neutral and contradiction."""

import re
from typing import Any

from bncl_pyg.errors import InputError

MEANINGS = ("entailment", "neutral", "contradiction")
_SPELLING = {"entailment": "entail", "neutral": "neutral", "contradiction": "contradict"}
_ENDINGS = "(s|ed|ing|ment|ments|ion|ions|ory|ity)?"


def parse_label_map(label_map: str, outputs: int, name: str) -> dict[str, int]:
    """Return the output of each meaning from a map such as "entailment=2,neutral=1,contradiction=0"."""
    places: dict[str, int] = {}
    for entry in label_map.split(","):
        match = re.fullmatch(r"\s*([^=]*?)\s*=\s*(\d+)\s*", entry)
        if match is None:
            raise InputError(f"The label map must look like {_example_map(outputs)}, but is '{label_map}'.")
        meaning, output = _meaning(match[1]), int(match[2])
        if meaning is None:
            raise InputError(f"The label map names '{match[1]}', but only {', '.join(MEANINGS)} have a meaning.")
        if meaning in places:
            raise InputError(f"The label map gives {meaning} twice.")
        if output in places.values():
            raise InputError(f"The label map gives output {output} twice.")
        if output >= outputs:
            raise InputError(
                f"The label map says {meaning}={output}, but {name} has {outputs} outputs, counted from 0."
            )
        places[meaning] = output
    for meaning in MEANINGS:
        if meaning not in places and (meaning != "neutral" or outputs > 2):
            raise InputError(f"The label map does not say which output of {name} is {meaning}.")
    return {meaning: places[meaning] for meaning in MEANINGS if meaning in places}


def classifier_outputs(name: str, config: Any, label_map: str | None) -> dict[str, int]:
    """Return which output means what, in the order of `MEANINGS`."""
    labels = {int(output): str(label) for output, label in config.id2label.items()}
    if label_map is not None:
        return parse_label_map(label_map, len(labels), name)
    called = ", ".join(f"'{labels[output]}'" for output in sorted(labels))
    hint = f'say which output is which, such as label_map="{_example_map(len(labels))}"'
    places: dict[str, int] = {}
    for output, label in sorted(labels.items()):
        meaning = _meaning(label)
        if meaning in places:
            raise InputError(f"{name} has two outputs that mean {meaning} (of {called}); {hint}.")
        if meaning is not None:
            places[meaning] = output
    if len(labels) != len(MEANINGS) or len(places) != len(MEANINGS):
        raise InputError(
            f"{name} has outputs called {called} instead of entailment, neutral and contradiction; {hint}."
        )
    return {meaning: places[meaning] for meaning in MEANINGS}


def _meaning(word: str) -> str | None:
    letters = "".join(filter(str.isalpha, word.lower()))
    return next((key for key, stem in _SPELLING.items() if re.fullmatch(stem + _ENDINGS, letters)), None)


def _example_map(outputs: int) -> str:
    return "entailment=0,contradiction=1" if outputs == 2 else "entailment=2,neutral=1,contradiction=0"
