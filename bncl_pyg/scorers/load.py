"""Scorers by name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import HubOptions, local_folder, read_json
from bncl_pyg.scorers.bi_encoder import BiEncoderScorer
from bncl_pyg.scorers.ensemble import EnsembleScorer
from bncl_pyg.scorers.head import COSINE_MIDDLE, COSINE_SCALE, CosineHead, embedded_head
from bncl_pyg.scorers.pretrained import BGE, COLBERT, EMBEDDED_SHA256, MARCO, MINILM, POTION, Pretrained
from bncl_pyg.scorers.scorer import MAX_TOKENS, WINDOWS, Scorer, scorer_parts

STRONG, LIGHT, FAST = "strong", "light", "fast"
RERANKER = "ms-marco"
STRONG_PARTS = (LIGHT, "bge", "colbert")
MULTILINGUAL = "multilingual"
WEIGHTS: dict[str, Pretrained] = {LIGHT: MINILM, "bge": BGE, "colbert": COLBERT, FAST: POTION, RERANKER: MARCO}
"""What the known scorers read texts with."""
HEADS = {
    "bge": (7.627, 0.6724),
    "colbert": (15.976, 0.8056),
    FAST: (3.708, 0.3005),
    RERANKER: (0.1816, -5.7108),
    MULTILINGUAL: (4.637, 0.2074),
}
"""Scale and middle of the scores of known models, so that one unit of log-odds means the same in all of them: half of
what likelihood asks for, which recipes start from better. Chosen by `benchmarks.calibrate_scorers` on WordNet's
hypernyms, which no recipe is measured on."""
MARKERS = {"hypothesis": 1, "text": 2}
"""The tokens [unused0] and [unused1] that answerai-colbert-small-v1 was trained to see before queries and documents."""
QUICK = 1024
"""A scorer whose blocks have so many texts can choose candidates among all labels by itself."""
NEEDED = ("*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/*")
"""What a model's folder must hold; other forms of its weights are not downloaded."""


def load_scorer(
    name: "str | Scorer" = STRONG,
    *,
    max_tokens: int = MAX_TOKENS,
    windows: int = WINDOWS,
    label_map: str | None = None,
    backend: str | None = None,
    device: str | None = None,
    cosine_scale: float = COSINE_SCALE,
    cosine_middle: float = COSINE_MIDDLE,
    local_files_only: bool = False,
) -> Scorer:
    """Load a scorer.

    Args:
        name: `strong` (three small encoders together), `light` (the smallest of them), `fast` (static vectors),
            `multilingual` (sixteen languages), a folder or hub name of a Hugging Face NLI classifier, a sentence
            encoder or static vectors; or several of these joined by `+`, whose scores are averaged. A `Scorer` is
            returned as it is.
        max_tokens: how many tokens of a text are read at a time.
        windows: how many overlapping windows of so many tokens are read of a long text at most.
        label_map: see `CrossEncoderScorer`; for classifiers only.
        backend: `torch`, `onnx` or `onnx-int8`; by default the fastest that a model can be computed with.
        device: for torch, such as "cpu" or "cuda:1"; by default an accelerator if there is one.
        cosine_scale: of an encoder that is not among the known ones, whose cosine c alone decides: entailment, neutral
            and contradiction are the softmax of (z, 0, −z) with z = cosine_scale · (c − cosine_middle).
        cosine_middle: likewise; from this cosine on, a text is rather about a label than not.
        local_files_only: never download anything: what is not on this machine is an error.
    """
    if not isinstance(name, str):
        if not hasattr(name, "score"):
            raise TypeError(f"scorer must be a name, a folder or a Scorer, but is {name!r}.")
        return name
    cosine = cosine_scale, cosine_middle
    options = _Options(max_tokens, windows, label_map, backend, device, cosine, local_files_only)
    if name == STRONG:
        if label_map is not None:
            raise InputError(f"'{name}' has no outputs that a label map could name.")
        return EnsembleScorer({part: options.load(part) for part in STRONG_PARTS}, STRONG)
    if "+" not in name or Path(name).is_dir():
        return options.load(name)
    wanted = [part for word in name.split("+") for part in (STRONG_PARTS if word == STRONG else (word,))]
    shown = [_shown(part) for part in wanted]
    if "" in wanted or len(set(shown)) < len(shown):
        raise InputError(f"The scorer '{name}' must join different names with '+'.")
    parts = {_shown(part): options.load(part, joined=True) for part in wanted}
    if label_map is not None and not any("label_map" in part.config() for part in parts.values()):
        raise InputError(f"'{name}' has no outputs that a label map could name.")
    return EnsembleScorer(parts, "+".join(map(_shown, name.split("+"))))


def with_reranker(
    scorer: Scorer, name: str = RERANKER, *, max_tokens: int = MAX_TOKENS, label_map: str | None = None
) -> EnsembleScorer:
    """Return a scorer that is joined by a cross-encoder, which reads each text beside its candidates.

    Args:
        scorer: what there is.
        name: `ms-marco`, or a folder or hub name of an NLI classifier.
        max_tokens: of text and label together.
        label_map: see `CrossEncoderScorer`.
    """
    parts = dict(scorer.parts) if isinstance(scorer, EnsembleScorer) else {str(scorer.config()["name"]): scorer}
    added = load_scorer(name, max_tokens=max_tokens, label_map=label_map)
    if scorer_is_quick(added):
        raise InputError(f"'{name}' reads texts and labels apart; only a cross-encoder can rerank.")
    return EnsembleScorer({**parts, _shown(name): added}, f"{scorer.config()['name']}+{_shown(name)}")


def scorer_is_quick(scorer: Scorer) -> bool:
    """Return whether a scorer can look at all labels of a text."""
    return scorer.block_texts >= QUICK


class _Options:
    """How every part is to be loaded."""

    def __init__(
        self,
        max_tokens: int,
        windows: int,
        label_map: str | None,
        backend: str | None,
        device: str | None,
        cosine: tuple[float, float],
        local_files_only: bool,
    ) -> None:
        self.max_tokens, self.windows, self.label_map = max_tokens, windows, label_map
        self.backend, self.device = backend, device
        self.cosine, self.local_files_only = cosine, local_files_only

    def load(self, name: str, *, joined: bool = False) -> Scorer:
        """Load one scorer; `joined` to others, it leaves a label map to those that have use for it."""
        known: dict[str, Callable[[], Scorer]] = {
            LIGHT: self._light,
            "bge": self._bge,
            "colbert": self._colbert,
            FAST: lambda: self._static(self._folder_of(POTION), FAST, HEADS[FAST]),
            RERANKER: self._reranker,
            MULTILINGUAL: self._multilingual,
        }
        if name in known:
            if self.label_map is not None and not joined:
                raise InputError(f"'{name}' has no outputs that a label map could name.")
            return known[name]()
        return self._from_folder(name, joined=joined)

    def _folder_of(self, weights: Pretrained) -> Path:
        if not self.local_files_only:
            return weights.local()
        folder = weights.here()
        if folder is None:
            raise InputError(f"{weights.title[0].upper()}{weights.title[1:]} is not on this machine.")
        return folder

    def _light(self) -> Scorer:
        from bncl_pyg.scorers.encoder import SentenceEncoder

        # Its files are checked here, once.
        encoder = SentenceEncoder(
            self._folder_of(MINILM), self.max_tokens, self.backend, self.device, windows=self.windows, pooling="mean"
        )
        return BiEncoderScorer(encoder, embedded_head(), LIGHT)

    def _bge(self) -> Scorer:
        from bncl_pyg.scorers.encoder import SentenceEncoder

        encoder = SentenceEncoder(
            self._folder_of(BGE), self.max_tokens, self.backend, self.device, windows=self.windows, pooling="cls"
        )
        return BiEncoderScorer(encoder, CosineHead.symmetric(*HEADS["bge"]), "bge")

    def _colbert(self) -> Scorer:
        from bncl_pyg.scorers.encoder import TokenEncoder
        from bncl_pyg.scorers.late_interaction import LateInteractionScorer

        texts = TokenEncoder(
            self._folder_of(COLBERT),
            self.max_tokens,
            self.backend,
            self.device,
            windows=self.windows,
            marker=MARKERS["text"],
        )
        hypotheses = texts.with_marker(MARKERS["hypothesis"])
        return LateInteractionScorer(texts, hypotheses, CosineHead.symmetric(*HEADS["colbert"]), "colbert")

    def _static(self, folder: Path, name: str, numbers: tuple[float, float]) -> Scorer:
        from bncl_pyg.scorers.static import StaticEncoder

        return BiEncoderScorer(StaticEncoder(folder), CosineHead.symmetric(*numbers), name)

    def _multilingual(self) -> Scorer:
        from bncl_pyg.scorers.multilingual import MultilingualEncoder

        return BiEncoderScorer(MultilingualEncoder(), CosineHead.symmetric(*HEADS[MULTILINGUAL]), MULTILINGUAL)

    def _reranker(self) -> Scorer:
        from bncl_pyg.scorers.rerank import RelevanceScorer

        return RelevanceScorer(
            self._folder_of(MARCO), CosineHead.symmetric(*HEADS[RERANKER]), RERANKER, self.max_tokens
        )

    def _from_folder(self, name: str, *, joined: bool) -> Scorer:
        from bncl_pyg.scorers.static import is_static

        if not is_here(name) and not Path(name).exists():
            raise InputError(
                f"There is no scorer '{name}': it is none of {STRONG}, {LIGHT}, {FAST} and {MULTILINGUAL}, no folder, "
                f"and no hub name, which has a slash."
            )
        options = HubOptions(local_files_only=self.local_files_only)
        folder = local_folder(name, "a language model", NEEDED, options=options)
        if is_static(folder):
            return self._static(folder, _shown(name), self.cosine)
        architectures = read_json(folder / "config.json").get("architectures") or []
        if any(str(kind).endswith("ForSequenceClassification") for kind in architectures):
            from bncl_pyg.scorers.cross_encoder import CrossEncoderScorer

            return CrossEncoderScorer(
                folder,
                name=_shown(name),
                max_tokens=self.max_tokens,
                label_map=self.label_map,
                backend=self.backend or "torch",
                device=self.device,
            )
        if self.label_map is not None and not joined:
            raise InputError(f"{name} is a sentence encoder, which has no outputs that a label map could name.")
        from bncl_pyg.scorers.encoder import SentenceEncoder

        encoder = SentenceEncoder(folder, self.max_tokens, self.backend, self.device, windows=self.windows)
        # The embedded head knows the embedded encoder's vectors; of another encoder, only the cosine can be trusted.
        own = encoder.weights_sha256 == EMBEDDED_SHA256
        return BiEncoderScorer(encoder, embedded_head() if own else CosineHead.symmetric(*self.cosine), _shown(name))


def reload_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return with which options `load_scorer` sets a scorer up as the one with this configuration was."""
    if "parts" in config:
        return _joint_options(config["parts"])
    names = ("max_tokens", "windows", "backend", "cosine_scale", "cosine_middle")
    options = {key: config[key] for key in names if key in config}
    if "label_map" in config:
        options["label_map"] = ",".join(f"{meaning}={place}" for meaning, place in config["label_map"].items())
    return options


def _joint_options(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the options that all parts were loaded with, as far as each of them has use for them."""
    options: dict[str, Any] = {}
    for name, config in parts.items():
        own = reload_options(config)
        # The known ones have a scale of their own.
        options = {key: value for key, value in own.items() if name not in HEADS or "cosine" not in key} | options
    if "max_tokens" in options:
        # A model that cannot read as many has fewer.
        options["max_tokens"] = max(config.get("max_tokens", 0) for config in parts.values())
    if len({config["backend"] for config in parts.values() if "backend" in config}) > 1:
        # Each part chose its own.
        del options["backend"]
    return options


def reads_english_only(scorer: Scorer) -> bool:
    """Return whether a scorer is made of the known models, which were trained on English texts."""
    return all(name in (FAST, RERANKER, *STRONG_PARTS) for name in scorer_parts(scorer))


def is_here(name: str) -> bool:
    """Return whether a scorer can be looked for by this name: a known one, a folder, or a name on the hub."""
    known = {STRONG, RERANKER, FAST, MULTILINGUAL, *STRONG_PARTS}
    return Path(name).is_dir() or all(part in known or "/" in part or Path(part).is_dir() for part in name.split("+"))


def embedded_scorer(
    max_tokens: int = MAX_TOKENS, backend: str | None = None, device: str | None = None, *, windows: int = WINDOWS
) -> BiEncoderScorer:
    """Load the scorer `light`: all-MiniLM-L6-v2 with the head that was trained for it."""
    from bncl_pyg.scorers.encoder import SentenceEncoder

    encoder = SentenceEncoder.embedded(max_tokens, backend, device, windows=windows)
    return BiEncoderScorer(encoder, embedded_head(), LIGHT)


def ranker_for(scorer: Scorer, device: str | None = None) -> Scorer:
    """Return what chooses candidates for a scorer: itself, or its quick parts; a slow one leaves it to `light`."""
    if isinstance(scorer, EnsembleScorer):
        quick = {name: part for name, part in scorer.parts.items() if isinstance(part, BiEncoderScorer)}
        if quick:
            return scorer
    return scorer if scorer_is_quick(scorer) else embedded_scorer(device=device)


def _shown(name: str) -> str:
    """Return a hub name as it is, and of a folder the last part: where it lies is nobody's business."""
    return Path(name).resolve().name if Path(name).is_dir() else name
