"""What a model card says of scorers, priors and graphs, in phrases."""

from collections.abc import Mapping
from typing import Any

from bncl_pyg.graph import EMBEDDED
from bncl_pyg.persistence import EncoderLicense
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import MULTILINGUAL, WEIGHTS


def reading_of(scorer: Mapping[str, Any]) -> str:
    """Say how much of a text a scorer with this configuration reads."""
    parts = _parts(scorer).values()
    windows = max((part.get("windows", 1) for part in parts), default=1)
    tokens = max((part.get("max_tokens", 0) for part in parts), default=0)
    if not tokens:
        return "which reads whole texts"
    return f"which reads {tokens} tokens of a text" + (f" in up to {windows} windows" if windows > 1 else "")


def languages_of(scorer: Mapping[str, Any]) -> list[str]:
    """Return in which languages a scorer reads, as the hub writes them; none where nobody knows."""
    return ["en"] if all(name in WEIGHTS for name in _parts(scorer)) else []


def encoder_licenses(scorer: Mapping[str, Any]) -> list[EncoderLicense]:
    """Return whose weights a scorer uses, and under which licence."""
    return [_license(part) for part in _parts(scorer)]


def known_of_priors(given: Priors | None, setting: str) -> str:
    """Say what was known of κ and λ before training."""
    if given is None:
        return "estimated from the annotated texts" if setting == "scarce-annotation" else "κ and λ in numbers"
    numbers = sum(isinstance(value, float) for value in given.prevalence)
    intervals = sum(isinstance(value, tuple) for value in given.prevalence)
    words = sum(isinstance(value, str) for value in given.prevalence)
    unknown = len(given) - numbers - intervals - words
    counted = {"in a number": numbers, "in an interval": intervals, "in a word": words, "not known": unknown}
    labels = ", ".join(f"{count:,} {how}" for how, count in counted.items() if count)
    cardinality = "estimated" if given.cardinality is None else f"given as {given.cardinality:.3g}"
    return f"labels a text {cardinality}; how common labels are: {labels}"


def origin_of_graph(provenance: Mapping[str, Any]) -> str:
    """Say where a label graph comes from."""
    source = provenance.get("embeddings")
    if source is None:
        return "somebody's own edges"
    encoder = "all-MiniLM-L6-v2" if source == EMBEDDED else str(source)
    if "percentiles" in provenance:
        low, high = provenance["percentiles"]
        return f"pairs of labels below percentile {low:g} and above {high:g} of the cosines of {encoder}"
    if "neighbours" in provenance:
        return f"each label's {provenance['neighbours']} nearest and farthest by {encoder}"
    return f"no edges (vectors of {encoder})"


def _license(part: str) -> EncoderLicense:
    """Return whose weights a part of a scorer uses, and under which licence."""
    if part in WEIGHTS:
        known = WEIGHTS[part]
        return EncoderLicense(known.repository.split("/")[-1], known.repository, known.license)
    if part == MULTILINGUAL:
        return EncoderLicense("the multilingual universal sentence encoder", license="apache-2.0")
    return EncoderLicense(part, part if part.count("/") == 1 else "")


def _parts(scorer: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the configuration of each part of a scorer, by name."""
    return dict(scorer.get("parts") or scorer.get("joined") or {str(scorer.get("name", "unknown")): scorer})
