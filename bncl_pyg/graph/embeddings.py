"""Label vectors: the mean of a description's word vectors (the paper), or the sentence encoder's vector of it.

A graph compares them by their cosines, :math:`d_{uv} = e_u · e_v / (|e_u| |e_v|)`.
"""

import gzip
import math
import pickle
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.corpus import LabelSet, read_lines
from bncl_pyg.errors import InputError
from bncl_pyg.graph.blocks import Arrays, BlockEngine, Progress, Work, hash_of

EMBEDDED = "embedded"
"""The name of the source that needs no file and no download: the embedded sentence encoder."""

LABELS_A_BLOCK = 4096
"""How many labels the embedded encoder reads before their vectors are kept."""

MAX_NUMBER = 1e15
"""How large a number of a label's vector may be."""

Labels = LabelSet | Sequence[str] | Mapping[str, str]
"""Labels as they may be given: a `LabelSet`, names (which describe themselves), or {name: description}."""

GENSIM_DATA = (
    "conceptnet-numberbatch-17-06-300",
    "fasttext-wiki-news-subwords-300",
    *(f"glove-twitter-{size}" for size in (25, 50, 100, 200)),
    *(f"glove-wiki-gigaword-{size}" for size in (50, 100, 200, 300)),
    "word2vec-google-news-300",
    "word2vec-ruscorpora-300",
)
"""The sets of word vectors that gensim-data has: only these names are looked for on the network."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True)
class LabelVectors:
    """One vector a label.

    Args:
        vectors: float32, (labels, dimensions); a row of zeros where nothing is known.
        source: where the vectors come from.
        missing_words: for each label some of whose words have no vector, these words.
    """

    vectors: NDArray[np.float32]
    source: str
    missing_words: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The square of a larger number has no place in float32, and a cosine needs squares. Who builds a graph looks
        # for what is not finite, and knows the label's name.
        outside = np.isfinite(self.vectors) & (np.abs(self.vectors) > MAX_NUMBER)
        if outside.any():
            row = int(np.flatnonzero(outside.any(axis=1))[0])
            raise InputError(
                f"The vector of label number {row + 1} ({self.source}) holds {self.vectors[row][outside[row]][0]:g}, "
                f"but numbers must lie between -{MAX_NUMBER:g} and {MAX_NUMBER:g}."
            )

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which labels have a vector; boolean, (labels,)."""
        return np.asarray(np.any(self.vectors != 0, axis=1))


def embed_labels(
    labels: Labels,
    source: str = EMBEDDED,
    *,
    work: Path | None = None,
    progress: Progress | None = None,
    engine: BlockEngine | None = None,
) -> LabelVectors:
    """Return the labels' vectors from `embedded`, a file of word vectors, or a gensim-data name.

    Args:
        labels: whose descriptions are read: a list of names, {name: description}, or a `LabelSet`.
        source: what reads them.
        work: a folder for the finished blocks of the embedded encoder's vectors (see `work_folder`).
        progress: called at the beginning and with every such block.
        engine: who computes these blocks; this process, if not given.
    """
    labels = LabelSet.of(labels)
    if source != EMBEDDED:
        return mean_of_words(labels, load_word_vectors(source), source=Path(source).name)
    made_from = hash_of(labels.digest(), _encoder().config(), LABELS_A_BLOCK)
    count = math.ceil(len(labels) / LABELS_A_BLOCK)
    encode = EncodedLabels(tuple(labels.descriptions), LABELS_A_BLOCK)
    try:
        blocks = list(Work(work, progress, engine).blocks("vectors", made_from, count, encode))
    finally:
        _encoder.cache_clear()
    return LabelVectors(np.concatenate([block["vectors"] for block in blocks]), source)


@dataclass(frozen=True)
class EncodedLabels:
    """The embedded encoder's vectors, a block of labels at a time.

    Args:
        descriptions: of all labels.
        size: how many a block has.
    """

    descriptions: tuple[str, ...]
    size: int

    def __call__(self, number: int) -> Arrays:
        """Encode a block."""
        here = slice(number * self.size, (number + 1) * self.size)
        return {"vectors": _encoder().encode(self.descriptions[here]).numpy()}


@lru_cache(maxsize=1)
def _encoder() -> Any:
    """Return the encoder, which a process loads once."""
    from bncl_pyg.scorers import SentenceEncoder

    return SentenceEncoder.embedded()


def mean_of_words(labels: LabelSet, words: Any, source: str) -> LabelVectors:
    """Average the word vectors (a gensim `KeyedVectors`) of each label's description, as the paper does.

    .. math:: e_v = \\frac{1}{|T_v|} \\sum_{t ∈ T_v} \\mathrm{vec}(t)

    where :math:`T_v` are the words of v's description.

    A word is looked up as it is written, then in lower case. Words without a vector do not count; a label none of
    whose words has one gets a row of zeros.
    """
    vectors = np.zeros((len(labels), words.vector_size), dtype=np.float32)
    missing: dict[str, list[str]] = {}
    for row, (name, description) in enumerate(zip(labels.names, labels.descriptions, strict=True)):
        known = []
        for word in _WORD.findall(description):
            key = word if word in words else word.lower()
            if key in words:
                known.append(words[key])
            else:
                missing.setdefault(name, []).append(word)
        if known:
            vectors[row] = np.mean(known, axis=0, dtype=np.float64)
    return LabelVectors(vectors, source, missing)


def load_word_vectors(source: str) -> Any:
    """Load a gensim `KeyedVectors`.

    Args:
        source: a file: GloVe text or word2vec text (`.txt`, `.vec`, also `.gz`; the first line decides which),
            word2vec binary (`.bin`, `.bin.gz`), gensim's own `.kv`, or a `.npy` matrix with a vocabulary of one word
            a line beside it (`NAME.npy` or `NAME.f16.npy` with `NAME.vocab.txt`); or a gensim-data name such as
            `glove-wiki-gigaword-100`, which is downloaded once.
    """
    path = Path(source)
    if not path.is_file():
        return _load_by_name(source)
    suffix = Path(path.name.removesuffix(".gz")).suffix
    try:
        if suffix == ".kv":
            return _load_kv(path)
        if suffix == ".npy":
            return _load_npy(path)
        if suffix == ".bin":
            return _load_binary(path)
        return _load_text(path)
    except InputError:
        raise
    except (ValueError, EOFError, pickle.UnpicklingError, gzip.BadGzipFile, zlib.error, MemoryError) as error:
        raise InputError(f"{path} could not be read as word vectors ({error}).") from None


def _load_binary(path: Path) -> Any:
    from gensim.models import KeyedVectors

    if path.suffix == ".bin":
        # gensim makes room for as much as the first line promises before it looks for it.
        with path.open("rb") as file:
            head = file.readline(100).split()
        if len(head) != 2 or not all(word.isdigit() for word in head):
            raise ValueError("its first line does not say how many words it holds, and of how many numbers")
        if int(head[0]) * (4 * int(head[1]) + 2) > path.stat().st_size:  # a word has a letter and a blank at least
            raise ValueError("it is shorter than its first line says")
    return KeyedVectors.load_word2vec_format(str(path), binary=True)


def _load_text(path: Path) -> Any:
    """Read GloVe or word2vec text; the latter starts with a line "words dimensions"."""
    words: dict[str, None] = {}
    rows: list[NDArray[np.float32]] = []
    dimensions = 0
    for number, line in read_lines(path):
        if number == 1 and re.fullmatch(r"\d+ \d+\s*", line):
            dimensions = int(line.split()[1])
            continue
        # Some words of large GloVe files hold spaces: the numbers are what stands last.
        dimensions = dimensions or len(line.split()) - 1
        word, *numbers = line.rstrip().rsplit(" ", dimensions)
        try:
            row = np.array(numbers, dtype=np.float32)
        except ValueError:
            row = np.zeros(0, dtype=np.float32)
        if len(row) != dimensions or not dimensions:
            raise InputError(f"{path}, line {number}: must be a word and {dimensions or 'some'} numbers.")
        if word not in words:
            words[word] = None
            rows.append(row)
    if not rows:
        raise InputError(f"{path} holds no word.")
    return _keyed(list(words), np.stack(rows))


def _keyed(words: list[str], matrix: NDArray[np.float32]) -> Any:
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(vector_size=matrix.shape[1], count=0, dtype=np.float32)
    keyed.add_vectors(words, matrix)
    return keyed


class _KeyedVectorsUnpickler(pickle.Unpickler):
    """Reads gensim's `.kv`, which is a pickle, without letting it name anything but vectors and numbers."""

    _ALLOWED_MODULES = frozenset({"numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.dtypes"})
    _ALLOWED_NAMES = frozenset({"ndarray", "dtype", "_reconstruct", "scalar"})

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("gensim.models.keyedvectors") and name in {"KeyedVectors", "CompatVocab"}:
            return super().find_class(module, name)
        if module in self._ALLOWED_MODULES and name in self._ALLOWED_NAMES:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no word vectors need")


def _load_kv(path: Path) -> Any:
    from gensim.models import KeyedVectors

    try:
        with path.open("rb") as file:
            loaded = _KeyedVectorsUnpickler(file).load()
    except (AttributeError, ImportError, IndexError, KeyError, OverflowError, RecursionError, TypeError) as error:
        # What is no pickle, or one that somebody made, may raise any of these.
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from None
    if not isinstance(loaded, KeyedVectors):
        raise InputError(f"{path} holds no gensim KeyedVectors.")
    _read_arrays_beside(path, loaded)
    return _keyed(list(loaded.index_to_key), np.asarray(loaded.vectors, dtype=np.float32))


def _read_arrays_beside(path: Path, loaded: Any) -> None:
    """Read the vectors where they lie in a `.npy` file beside the pickle.

    gensim's own loader would open, and unpickle, whatever companions the pickle lists.
    """
    listed = loaded.__dict__
    for kind in ("__scipys", "__recursive_saveloads"):
        if listed.get(kind):
            raise pickle.UnpicklingError(f"it lists companions ({kind}) that no word vectors need")
    arrays = list(listed.get("__numpys") or [])
    if any(name not in ("vectors", "vectors_norm") for name in arrays):
        raise pickle.UnpicklingError(f"it lists arrays other than its vectors ({', '.join(map(str, arrays))})")
    if "vectors" in arrays:
        loaded.vectors = _load_array(path.with_name(f"{path.name}.vectors.npy"))
    vectors = getattr(loaded, "vectors", None)
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or len(vectors) != len(loaded.index_to_key):
        raise InputError(f"{path} does not hold one vector a word.")


def _load_npy(path: Path) -> Any:
    vocabulary = _vocabulary_beside(path)
    words = [line for _, line in read_lines(vocabulary)]
    matrix = _load_array(path)
    if matrix.ndim != 2 or len(matrix) != len(words):
        raise InputError(f"{path} has shape {matrix.shape}, but {vocabulary} lists {len(words)} words.")
    return _keyed(words, matrix.astype(np.float32))


def _load_array(path: Path) -> NDArray[Any]:
    """Read a `.npy` file, after checking that it is as long as its header says: room is made before it is read."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read_header = np.lib.format.read_array_header_1_0
            read_header = read_header if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, kind = read_header(file)
            rest = path.stat().st_size - file.tell()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except (RecursionError, MemoryError, SyntaxError, TokenError, TypeError):
        raise ValueError(f"the header of {path.name} describes no array") from None
    if kind.kind not in "fiu" or any(size < 0 for size in shape) or math.prod(shape) * kind.itemsize != rest:
        raise ValueError(f"{path.name} does not hold the {kind} numbers of shape {shape} that its header promises")
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array


def _vocabulary_beside(path: Path) -> Path:
    stem = path.name
    while "." in stem:
        stem = stem.rpartition(".")[0]
        candidate = path.with_name(f"{stem}.vocab.txt")
        if candidate.is_file():
            return candidate
    raise InputError(f"{path} needs its words in {path.name.removesuffix('.npy')}.vocab.txt beside it, one a line.")


def _load_by_name(name: str) -> Any:
    if "/" in name or Path(name).suffix:
        raise InputError(f"{name} does not exist.")
    import gensim.downloader

    # A file that is missing, or misspelt, is nothing to ask the network for; nor is it to run code from there.
    if name not in GENSIM_DATA and not (Path(gensim.downloader.BASE_DIR) / name).is_dir():
        raise InputError(
            f"'{name}' is neither a file nor a set of word vectors that gensim-data has, such as {GENSIM_DATA[7]}."
        )
    try:
        loaded = gensim.downloader.load(name)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"'{name}' is neither a file nor a set of word vectors that gensim-data could give ({error})."
        ) from None
    return loaded
