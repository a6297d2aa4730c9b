import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from numpy.typing import NDArray

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph import embed_labels, load_word_vectors

WORDS = ["gold", "money", "foreign", "exchange", "rates"]
MATRIX = np.arange(20, dtype=np.float32).reshape(5, 4) / 8


@pytest.fixture
def keyed() -> KeyedVectors:
    vectors = KeyedVectors(4)
    vectors.add_vectors(WORDS, MATRIX)
    return vectors


def lines(header: bool) -> str:
    rows = [" ".join([word, *map(str, row)]) for word, row in zip(WORDS, MATRIX.tolist(), strict=True)]
    return "\n".join([*(["5 4"] if header else []), *rows]) + "\n"


@pytest.fixture(params=["glove.txt", "word2vec.txt", "word2vec.vec", "words.bin", "words.kv", "big.kv", "w.f16.npy"])
def vectors_file(request: pytest.FixtureRequest, tmp_path: Path, keyed: KeyedVectors) -> Path:
    path = tmp_path / request.param
    match request.param:
        case "glove.txt":
            path.write_text(lines(header=False))
        case "word2vec.txt" | "word2vec.vec":
            path.write_text(lines(header=True))
        case "words.bin":
            keyed.save_word2vec_format(str(path), binary=True)
        case "words.kv":
            keyed.save(str(path))
        case "big.kv":
            keyed.save(str(path), separately=["vectors"])
            assert (tmp_path / "big.kv.vectors.npy").exists()
        case "w.f16.npy":
            np.save(path, MATRIX.astype(np.float16))
            (tmp_path / "w.vocab.txt").write_text("\n".join(WORDS))
    return path


def test_every_format_gives_the_same_vectors(vectors_file: Path) -> None:
    loaded = load_word_vectors(str(vectors_file))
    assert loaded.index_to_key == WORDS
    assert np.array_equal(loaded.vectors, MATRIX)


def test_a_label_is_the_mean_of_its_words(tmp_path: Path, keyed: KeyedVectors) -> None:
    keyed.save(str(tmp_path / "w.kv"))
    labels = LabelSet(("g", "m", "i", "x"), ("GOLD", "Money/Foreign Exchange", "Interest rates", "Zinc-lead"))
    embedded = embed_labels(labels, str(tmp_path / "w.kv"))
    expected: list[NDArray[np.float32]] = [MATRIX[0], MATRIX[1:4].mean(axis=0), MATRIX[4], np.zeros(4, np.float32)]
    assert np.allclose(embedded.vectors, np.stack(expected))
    assert embedded.missing_words == {"i": ["Interest"], "x": ["Zinc", "lead"]}
    assert embedded.known.tolist() == [True, True, True, False]
    assert embedded.source == "w.kv"


def test_the_embedded_encoder_is_the_default() -> None:
    labels = LabelSet(("g", "s", "w"), ("Gold", "Silver", "Wheat"))
    embedded = embed_labels(labels)
    gold, silver, wheat = embedded.vectors
    assert embedded.source == "embedded"
    assert gold @ silver > gold @ wheat


class _Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("echo harm",)


@pytest.mark.parametrize("content", [_Harmful(), {"a": 1}])
def test_a_pickle_that_is_no_word_vectors_is_refused(content: object, tmp_path: Path) -> None:
    path = tmp_path / "bad.kv"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(InputError, match=r"bad\.kv (could not be read|holds no gensim)"):
        load_word_vectors(str(path))


@pytest.mark.parametrize("kind", ["__scipys", "__recursive_saveloads", "__numpys"])
def test_companions_that_a_pickle_lists_are_never_opened(kind: str, tmp_path: Path, keyed: KeyedVectors) -> None:
    keyed.__dict__[kind] = ["sparse"]
    path = tmp_path / "sly.kv"
    path.write_bytes(pickle.dumps(keyed))
    for name in ("sly.kv.sparse.npy", "sly.kv.sparse", "sly.kv.sparse.sparse.npy"):
        (tmp_path / name).write_bytes(pickle.dumps(_Harmful()))
    with pytest.raises(InputError, match=r"sly\.kv could not be read as word vectors \(it lists"):
        load_word_vectors(str(path))


def test_vectors_beside_a_pickle_must_be_plain_numbers(tmp_path: Path, keyed: KeyedVectors) -> None:
    path = tmp_path / "big.kv"
    keyed.save(str(path), separately=["vectors"])
    np.save(tmp_path / "big.kv.vectors.npy", np.array([_Harmful()], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="could not be read as word vectors"):
        load_word_vectors(str(path))
    np.save(tmp_path / "big.kv.vectors.npy", MATRIX[:2])
    with pytest.raises(InputError, match="does not hold one vector a word"):
        load_word_vectors(str(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", b"", "holds no word"),
        ("bad.txt", b"gold 1 2\nmoney 1\n", "line 2: must be a word and 2 numbers"),
        ("bad.vec", b"2 2\ngold 1 2\nmoney one 2\n", "line 3: must be a word and 2 numbers"),
        ("words.txt", b"gold\nmoney\n", "line 1: must be a word and some numbers"),
        ("bad.bin", b"nonsense", "could not be read as word vectors"),
        ("bad.kv", b"nonsense", "could not be read as word vectors"),
        ("bad.npy", b"nonsense", "needs its words in bad.vocab.txt"),
    ],
)
def test_bad_files_are_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_word_vectors(str(tmp_path / name))


def test_words_and_rows_must_agree(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", MATRIX)
    (tmp_path / "w.vocab.txt").write_text("gold\nmoney\n")
    with pytest.raises(InputError, match=r"has shape \(5, 4\), but .* lists 2 words"):
        load_word_vectors(str(tmp_path / "w.npy"))


def test_gensim_data_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyed: KeyedVectors) -> None:
    """A set that was downloaded before is taken from gensim's own folder; offline, another name is refused."""
    import gensim.downloader

    monkeypatch.setattr(gensim.downloader, "BASE_DIR", str(tmp_path))
    monkeypatch.setattr(gensim.downloader, "base_dir", str(tmp_path), raising=False)
    monkeypatch.setattr(gensim.downloader, "urlopen", _offline)
    information = {"models": {"tiny-glove": {"file_name": "tiny.kv", "parts": 1, "checksum": ""}}, "corpora": {}}
    (tmp_path / "information.json").write_text(json.dumps(information))
    (tmp_path / "tiny-glove").mkdir()
    keyed.save(str(tmp_path / "tiny-glove" / "tiny.kv"))
    (tmp_path / "tiny-glove" / "__init__.py").write_text(
        "from pathlib import Path\nfrom gensim.models import KeyedVectors\n"
        "def load_data():\n    return KeyedVectors.load(str(Path(__file__).with_name('tiny.kv')))\n"
    )
    assert load_word_vectors("tiny-glove").index_to_key == WORDS
    with pytest.raises(InputError, match="'no-such-set' is neither a file nor a set of word vectors"):
        load_word_vectors("no-such-set")
    with pytest.raises(InputError, match=r"glove/none\.txt does not exist"):
        load_word_vectors("glove/none.txt")


def _offline(*_: object, **__: object) -> None:
    raise OSError("no network")
