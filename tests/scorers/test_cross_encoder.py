import hashlib
import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BartConfig,
    BartForSequenceClassification,
    BartTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    DebertaV2Tokenizer,
    RobertaConfig,
    RobertaForSequenceClassification,
    RobertaTokenizer,
    XLNetConfig,
    XLNetForSequenceClassification,
    XLNetTokenizer,
)
from transformers.utils import logging as transformers_logging

from bncl_pyg.errors import InputError
from bncl_pyg.scorers import CrossEncoderScorer

FAMILIES = ("bert", "roberta", "bart", "deberta-v2", "xlnet")
NAMES = {0: "contradiction", 1: "neutral", 2: "entailment"}
WORDS = ["gold", "wheat", "rises", "falls", "and", "this", "is", "about", "yes", "no", "."]
TEXTS = [
    "gold rises and wheat falls",
    "wheat",
    "gold " * 40,
    "gold and gold",
    "wheat",
    "and so on: wheat rises, gold falls, and this is about it",
]
HYPOTHESES = ["this is about gold.", "this is about wheat and gold.", "gold"]


def _tokenizer(family: str) -> Any:
    if family == "bert":
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"abcdefghijklmnopqrstuvwxyz[]"]
        return BertTokenizer(vocab={piece: place for place, piece in enumerate(vocabulary)})
    if family == "xlnet":
        pieces = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
        pieces += [*(f"▁{word}" for word in WORDS), "▁", *"abcdefgo.,"]
        return XLNetTokenizer(vocab=[(piece, -1.0 - place / 10) for place, piece in enumerate(pieces)], unk_id=0)
    if family == "deberta-v2":
        pieces = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *(f"▁{word}" for word in WORDS), "▁", *"abcdefgo.,"]
        scores = [0.0 if piece.startswith("[") else -1.0 - place / 10 for place, piece in enumerate(pieces)]
        return DebertaV2Tokenizer(vocab=list(zip(pieces, scores, strict=True)), unk_id=3)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet()), "go", "ld", "gold", "Ġgold"]
    merges = [("g", "o"), ("l", "d"), ("go", "ld"), ("Ġ", "gold")]
    kind = BartTokenizer if family == "bart" else RobertaTokenizer
    return kind(vocab={piece: place for place, piece in enumerate(pieces)}, merges=merges)


def _model(family: str, tokenizer: Any, names: dict[int, str]) -> Any:
    # The usual small weights would make all scores nearly the same.
    common = {
        "vocab_size": len(tokenizer),
        "id2label": names,
        "label2id": {name: place for place, name in names.items()},
        "pad_token_id": tokenizer.pad_token_id,
    }
    if family == "xlnet":
        sizes = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}
        return XLNetForSequenceClassification(XLNetConfig(**common, **sizes, initializer_range=0.5))
    common["max_position_embeddings"] = 64
    if family == "bart":
        sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
        ids = {"eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 2, "forced_eos_token_id": 2}
        wide = {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "init_std": 0.5}
        return BartForSequenceClassification(BartConfig(**common, **sizes, **ids, **wide))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    common |= {**sizes, "initializer_range": 0.5}
    if family == "bert":
        return BertForSequenceClassification(BertConfig(**common))
    if family == "roberta":
        return RobertaForSequenceClassification(RobertaConfig(**common, bos_token_id=0, eos_token_id=2))
    relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}
    version_3 = {"norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False}
    return DebertaV2ForSequenceClassification(DebertaV2Config(**common, **relative, **version_3, type_vocab_size=0))


def make_classifier(folder: Path, family: str, names: dict[int, str] | None = None) -> Path:
    """Write a tiny classifier with random weights."""
    torch.manual_seed(0)
    tokenizer = _tokenizer(family)
    _model(family, tokenizer, names or NAMES).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def one_at_a_time(folder: Path, texts: list[str], hypotheses: list[str], max_tokens: int) -> Tensor:
    """Score without batches, padding, sharing or cleverness; (2, texts, hypotheses)."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows = []
    for text in texts:
        for hypothesis in hypotheses:
            options = {"truncation": "only_first", "max_length": max_tokens, "return_tensors": "pt"}
            with torch.no_grad():
                logits = model(**tokenizer(text, hypothesis, **options)).logits[0]
            rows.append(torch.softmax(logits, dim=0)[[2, 0]])
    return torch.stack(rows).reshape(len(texts), len(hypotheses), 2).permute(2, 0, 1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("classifiers")
    return {family: make_classifier(top / family, family) for family in FAMILIES}


@pytest.fixture(scope="module")
def scorers(folders: dict[str, Path]) -> dict[str, CrossEncoderScorer]:
    return {family: CrossEncoderScorer(folder, max_tokens=48) for family, folder in folders.items()}


@pytest.fixture
def bert(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    shutil.copytree(folders["bert"], tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def rewrite(bert: Path) -> Callable[..., Path]:
    """Change the configuration."""

    def change(**fields: object) -> Path:
        path = bert / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
        return bert

    return change


def watch(scorer: CrossEncoderScorer, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """Let the model go on working, and see what it is given."""
    seen: list[dict[str, Tensor]] = []
    real = scorer._classify
    monkeypatch.setattr(scorer, "_classify", lambda inputs: (seen.append(inputs), real(inputs))[1])
    return seen


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [40, 4096])
def test_scores_are_those_of_one_pair_at_a_time(folders: dict[str, Path], family: str, budget: int) -> None:
    scorer = CrossEncoderScorer(folders[family], max_tokens=48, token_budget=budget)
    found = scorer.score(TEXTS, HYPOTHESES)
    assert found.shape == (2, 6, 3)
    assert found.dtype == torch.float32
    assert torch.allclose(found, one_at_a_time(folders[family], TEXTS, HYPOTHESES, 48), atol=1e-5, rtol=0)
    assert found[:, [0, 1, 2, 3, 5]].std(dim=1).min() > 0.005  # the texts matter, or the test would say nothing
    assert torch.allclose(scorer.score(TEXTS[::-1], HYPOTHESES), found.flip(1), atol=1e-6)


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnxruntime", "onnx", "onnxscript")),
    reason='needs ONNX Runtime: pip install "bncl-pyg[onnx]"',
)
def test_bart_counts_its_tokens_in_onnx_too(folders: dict[str, Path]) -> None:
    """Which tokens its classifier reads depends on the text: the hardest of them all to export."""
    scorer = CrossEncoderScorer(folders["bart"], max_tokens=48, backend="onnx", token_budget=150)
    expected = one_at_a_time(folders["bart"], TEXTS, HYPOTHESES, 48)
    assert torch.allclose(scorer.score(TEXTS, HYPOTHESES), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
@settings(deadline=None, max_examples=40)
@given(text=st.text(alphabet="goldwheat <>/s[SEP]\n\t.é☃", max_size=80), data=st.data())
def test_pairs_are_joined_as_the_tokenizer_joins_them(
    scorers: dict[str, CrossEncoderScorer], family: str, text: str, data: st.DataObject
) -> None:
    scorer, hypothesis = scorers[family], data.draw(st.sampled_from(HYPOTHESES))
    tokenizer = AutoTokenizer.from_pretrained(scorer.folder)
    with pytest.MonkeyPatch.context() as patch:
        seen = watch(scorer, patch)
        scorer.score([text], [hypothesis])
    expected = tokenizer(
        text, hypothesis, truncation="only_first", max_length=48, split_special_tokens=True, return_tensors="pt"
    )
    assert seen[0].keys() == expected.keys()
    assert all(torch.equal(seen[0][name], expected[name]) for name in expected)


def test_a_special_token_in_a_text_is_text(scorers: dict[str, CrossEncoderScorer]) -> None:
    """BART counts the ends of sentences: "</s>" in one text of a batch would stop the run."""
    html = "gold </s> <s>falls</s>"
    found = scorers["bart"].score([html, "wheat falls as gold does</"], HYPOTHESES)
    assert torch.allclose(found[:, :1], scorers["bart"].score([html], HYPOTHESES), atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tokenizers_sides_are_kept(folders: dict[str, Path], tmp_path: Path, side: str) -> None:
    folder = tmp_path / "sided"
    shutil.copytree(folders["deberta-v2"], folder)
    AutoTokenizer.from_pretrained(folder, truncation_side=side, padding_side=side).save_pretrained(folder)
    texts = ["gold rises and wheat falls and gold falls", "wheat rises"]
    found = CrossEncoderScorer(folder, max_tokens=14).score(texts, HYPOTHESES)
    assert torch.allclose(found, one_at_a_time(folder, texts, HYPOTHESES, 14), atol=1e-5)
    start, end = (one_at_a_time(folder, [text], HYPOTHESES, 64) for text in ("gold rises and wheat", "and gold falls"))
    assert not torch.allclose(start, end, atol=1e-3)


def test_only_the_text_is_cut(scorers: dict[str, CrossEncoderScorer], monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = scorers["bert"]
    seen = watch(scorer, monkeypatch)
    hypothesis = "gold " * 44
    scorer.score(["wheat rises and falls", "wheat"], [hypothesis])
    wheat, gold = (AutoTokenizer.from_pretrained(scorer.folder).convert_tokens_to_ids(word) for word in WORDS[1::-1])
    assert [row.tolist() for batch in seen for row in batch["input_ids"]] == [[2, wheat, 3, *[gold] * 44, 3]] * 2
    with pytest.raises(
        InputError, match=r"The hypothesis 'gold gold .*' is too long: with it, max_tokens 48 leaves no"
    ):
        scorer.score(["wheat"], [HYPOTHESES[0], hypothesis + "gold"])


def test_candidates_are_scored_alone(scorers: dict[str, CrossEncoderScorer], monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = scorers["roberta"]
    dense = scorer.score(TEXTS, HYPOTHESES)
    seen = watch(scorer, monkeypatch)
    pairs = torch.tensor([[0, 2], [1, 2], [0, 1], [2, 0], [0, 2], [1, 1]])
    some = scorer.score(TEXTS, HYPOTHESES, pairs)
    assert torch.allclose(some, dense.gather(2, pairs.expand(2, -1, -1)), atol=1e-6)
    # "wheat" comes twice, with three hypotheses in all; the last text asks twice for the same.
    assert sum(len(batch["input_ids"]) for batch in seen) == 2 + 3 + 2 + 2 + 1


def test_what_is_the_same_is_done_once(scorers: dict[str, CrossEncoderScorer], monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = scorers["bert"]
    seen, tokenised = watch(scorer, monkeypatch), []
    real = scorer._tokens._ids
    monkeypatch.setattr(scorer._tokens, "_ids", lambda texts: (tokenised.append(list(texts)), real(texts))[1])
    hypotheses = ["wheat rises", "gold falls", "wheat rises"]
    found = scorer.score(["gold", "wheat", "gold", "gold"], hypotheses)
    assert sum(len(batch["input_ids"]) for batch in seen) == 4
    assert torch.equal(found[:, 0], found[:, 2])
    assert torch.equal(found[:, :, 0], found[:, :, 2])
    scorer.score(["and"], hypotheses)
    assert tokenised == [["wheat rises", "gold falls"], ["gold", "wheat"], ["and"]]


@settings(deadline=None, max_examples=20)
@given(lengths=st.lists(st.integers(1, 40), unique=True, max_size=12), budget=st.integers(1, 200))
def test_batches_keep_to_the_budget(scorers: dict[str, CrossEncoderScorer], lengths: list[int], budget: int) -> None:
    scorer = scorers["bert"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scorer, "token_budget", budget)
        seen = watch(scorer, patch)
        scorer.score(["gold " * length for length in lengths], ["wheat"])
    batches = [batch["attention_mask"].sum(dim=1).tolist() for batch in seen]
    # The longest first: a head and a tail have four more tokens than the text's words.
    assert [length for batch in batches for length in batch] == sorted((min(n + 4, 48) for n in lengths), reverse=True)
    assert all(len(batch) == 1 or len(batch) * max(batch) <= budget for batch in batches)
    # No batch could have taken the next pair as well.
    assert all((len(batch) + 1) * max(batch) > budget for batch in batches[:-1])


def test_pairs_of_like_length_share_a_batch(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = CrossEncoderScorer(folders["bert"], token_budget=30, max_tokens=48)
    seen = watch(scorer, monkeypatch)
    scorer.score(["gold " * 20, "gold", "wheat " * 20, "wheat", "falls"], ["wheat"])
    assert [tuple(batch["input_ids"].shape) for batch in seen] == [(1, 24), (1, 24), (3, 5)]


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta-v2"])
def test_the_last_layer_finishes_the_first_token_only(scorers: dict[str, CrossEncoderScorer], family: str) -> None:
    shapes = []
    layers = scorers[family]._classify._model.base_model.encoder.layer  # type: ignore[attr-defined]
    hooks = [layer.register_forward_hook(lambda *parts: shapes.append(parts[2][0].shape[-2])) for layer in layers]
    scorers[family].score(["gold falls"], ["gold"])
    assert shapes[0] > 1
    assert shapes[1] == 1
    for hook in hooks:
        hook.remove()


def test_nothing_to_score(scorers: dict[str, CrossEncoderScorer]) -> None:
    assert scorers["bert"].score([], HYPOTHESES).shape == (2, 0, 3)
    assert scorers["bert"].score(TEXTS, []).shape == (2, 6, 0)
    assert scorers["bert"].score(TEXTS, HYPOTHESES, torch.empty(6, 0, dtype=torch.int64)).shape == (2, 6, 0)


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (torch.tensor([[0], [3]]), r"pairs must hold numbers from 0 to 2, but holds 0 to 3\."),
        (torch.tensor([[0], [-1]]), r"pairs must hold numbers from 0 to 2, but holds -1 to 0\."),
        (torch.tensor([[0]]), r"pairs must be int64 of shape \(2, candidates\), but is int64 of shape \(1, 1\)\."),
        (torch.tensor([0, 1]), r"pairs must be int64 of shape \(2, candidates\), but is int64 of shape \(2,\)\."),
        (torch.tensor([[0.0], [1.0]]), r"but is float32 of shape \(2, 1\)\."),
    ],
)
def test_impossible_candidates_are_refused(
    scorers: dict[str, CrossEncoderScorer], pairs: Tensor, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        scorers["bert"].score(["gold", "wheat"], HYPOTHESES, pairs)


@pytest.mark.parametrize(
    "names",
    [
        ("ENTAILMENT", "NEUTRAL", "CONTRADICTION"),
        ("contradiction", "entailment", "neutral"),
        ("Neutral", "Contradictory", "Entails"),
        ("entail", "contradict", "neutral"),
        (" Entailed.", "1_neutral", "contradicts"),
    ],
)
def test_names_of_outputs_are_understood(rewrite: Callable[..., Path], names: tuple[str, str, str]) -> None:
    folder = rewrite(id2label=dict(enumerate(names)), label2id={name: place for place, name in enumerate(names)})
    found = CrossEncoderScorer(folder, max_tokens=48).outputs
    assert {meaning: names[place].strip(" .1_").lower()[:6] for meaning, place in found.items()} == {
        "entailment": "entail",
        "neutral": "neutra",
        "contradiction": "contra",
    }


def test_the_label_map_decides(folders: dict[str, Path], tmp_path: Path) -> None:
    turned = CrossEncoderScorer(folders["bert"], max_tokens=48, label_map="Contradiction = 2, entailment=0,neutral=1")
    plain = CrossEncoderScorer(folders["bert"], max_tokens=48)
    assert turned.outputs == {"entailment": 0, "neutral": 1, "contradiction": 2}
    assert torch.allclose(turned.score(TEXTS, HYPOTHESES), plain.score(TEXTS, HYPOTHESES).flip(0), atol=1e-6)
    two = make_classifier(tmp_path / "two", "bert", {0: "entailment", 1: "not_entailment"})
    found = CrossEncoderScorer(two, max_tokens=48, label_map="entailment=0,contradiction=1")
    assert found.config()["label_map"] == {"entailment": 0, "contradiction": 1}
    scores = found.score(TEXTS, HYPOTHESES)
    assert torch.allclose(scores.sum(dim=0), torch.ones(6, 3))
    assert scores.std() > 0.01


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            ("LABEL_0", "LABEL_1", "LABEL_2"),
            r"tiny has outputs called 'LABEL_0', 'LABEL_1', 'LABEL_2' instead of entailment, neutral and contradiction"
            r'; say which output is which, such as label_map="entailment=2,neutral=1,contradiction=0"\.',
        ),
        (
            ("entailment", "not_entailment"),
            r"tiny has outputs called 'entailment', 'not_entailment' instead of .*; say which output is which, such as "
            r'label_map="entailment=0,contradiction=1"\.',
        ),
        (
            ("entailment", "Entails", "neutral"),
            r"tiny has two outputs that mean entailment \(of 'entailment', 'Entails', 'neutral'\); say which .* "
            r"label_map=",
        ),
        (("entailment", "neutral", "contradiction", "other"), r"'other' instead of entailment, neutral and contra"),
    ],
)
def test_outputs_that_may_mean_anything_are_refused(
    rewrite: Callable[..., Path], names: tuple[str, ...], sentence: str
) -> None:
    folder = rewrite(id2label=dict(enumerate(names)), label2id={name: place for place, name in enumerate(names)})
    with pytest.raises(InputError, match=sentence):
        CrossEncoderScorer(folder)


@pytest.mark.parametrize(
    ("label_map", "sentence"),
    [
        ("entailment", r"The label map must look like entailment=2,neutral=1,contradiction=0, but is 'entailment'\."),
        ("entailment=-1", r"The label map must look like"),
        ("yes=2", r"The label map names 'yes', but only entailment, neutral, contradiction have a meaning\."),
        ("entailment=2,entails=1", r"The label map gives entailment twice\."),
        ("entailment=2,neutral=2", r"The label map gives output 2 twice\."),
        ("entailment=3", r"The label map says entailment=3, but bert has 3 outputs, counted from 0\."),
        ("entailment=2,neutral=1", r"The label map does not say which output of bert is contradiction\."),
        ("entailment=2,contradiction=0", r"The label map does not say which output of bert is neutral\."),
    ],
)
def test_bad_label_maps_are_refused(folders: dict[str, Path], label_map: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CrossEncoderScorer(folders["bert"], label_map=label_map)


def test_what_decides_the_scores_is_known(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {
        "name": "tiny",
        "weights_sha256": hashlib.sha256((bert / "model.safetensors").read_bytes()).hexdigest(),
        "max_tokens": 48,
        "label_map": {"entailment": 2, "neutral": 1, "contradiction": 0},
        "backend": "torch",
        "dtype": "float32",
    }
    assert CrossEncoderScorer(bert, max_tokens=48).config() == expected
    assert CrossEncoderScorer(bert, max_tokens=48, device="cpu").config() == expected
    monkeypatch.chdir(bert)
    assert CrossEncoderScorer(".", max_tokens=48, dtype="bfloat16").config() == {**expected, "dtype": "bfloat16"}
    assert CrossEncoderScorer(".", max_tokens=48, name="someone/tiny").config()["name"] == "someone/tiny"


def test_weights_may_come_in_several_files(bert: Path) -> None:
    whole = CrossEncoderScorer(bert, max_tokens=48).score(TEXTS, HYPOTHESES)
    model = AutoModelForSequenceClassification.from_pretrained(bert)
    (bert / "model.safetensors").unlink()
    model.save_pretrained(bert, max_shard_size="10KB")
    scorer = CrossEncoderScorer(bert, max_tokens=48)
    files = sorted(bert.glob("model-*-of-*.safetensors"))
    assert len(files) > 1
    assert torch.equal(scorer.score(TEXTS, HYPOTHESES), whole)
    content = b"".join(file.read_bytes() for file in files)
    assert scorer.config()["weights_sha256"] == hashlib.sha256(content).hexdigest()
    files[0].unlink()
    with pytest.raises(InputError, match=rf"{files[0].name} is missing, but model\.safetensors\.index\.json names it"):
        CrossEncoderScorer(bert)
    (bert / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(InputError, match=r"index\.json does not say which files hold the weights"):
        CrossEncoderScorer(bert)


def test_half_precision_is_close(folders: dict[str, Path]) -> None:
    exact = CrossEncoderScorer(folders["bert"], max_tokens=48).score(TEXTS, HYPOTHESES)
    rounded = CrossEncoderScorer(folders["bert"], max_tokens=48, device="cpu", dtype="bfloat16").score(
        TEXTS, HYPOTHESES
    )
    assert rounded.dtype == torch.float32
    assert 0 < (exact - rounded).abs().max() < 0.1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"backend": "jax"}, r"The backend must be one of torch, onnx, onnx-int8, but is 'jax'\."),
        ({"dtype": "int4"}, r"The dtype must be one of float32, float16, bfloat16, but is 'int4'\."),
        ({"device": "toaster"}, r"The device 'toaster' cannot be used here \(.*\)\.$"),
        ({"device": "cuda:99"}, r"The device 'cuda:99' cannot be used here \(.*\)\.$"),
        ({"max_tokens": 0}, r"max_tokens must be positive, but is 0\."),
    ],
)
def test_impossible_wishes_are_refused(folders: dict[str, Path], options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CrossEncoderScorer(folders["bert"], **options)


@pytest.mark.parametrize(("family", "longest"), [("bert", 64), ("roberta", 62), ("bart", 64), ("deberta-v2", 64)])
def test_no_more_tokens_than_the_model_has_places_for(folders: dict[str, Path], family: str, longest: int) -> None:
    scorer = CrossEncoderScorer(folders[family])
    assert scorer.config()["max_tokens"] == longest
    found = scorer.score(["gold " * 80], ["gold"])
    assert torch.allclose(found, one_at_a_time(folders[family], ["gold " * 80], ["gold"], longest), atol=1e-5)


def test_only_safetensors_are_read(bert: Path) -> None:
    torch.save({}, bert / "pytorch_model.bin")
    (bert / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"tiny holds no model\.safetensors, and weights in another format are not"):
        CrossEncoderScorer(bert)


def test_code_that_comes_with_a_model_is_not_run(rewrite: Callable[..., Path], tmp_path: Path) -> None:
    folder = rewrite(model_type="strange", auto_map={"AutoConfig": "code.Config"})
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InputError, match=r"tiny is not a readable Hugging Face model \(.*\)\.$"):
        CrossEncoderScorer(folder)
    assert not (tmp_path / "ran").exists()


def test_an_encoder_without_a_head_is_refused(bert: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(bert)
    model.bert.save_pretrained(bert)
    with pytest.raises(InputError, match=r"tiny is not a sequence classifier: it has no weights 'classifier\.bias'\."):
        CrossEncoderScorer(bert, max_tokens=48, label_map="entailment=2,neutral=1,contradiction=0")


def test_damaged_models_are_refused(bert: Path, tmp_path: Path) -> None:
    (bert / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(InputError, match=r"tiny is not a readable sequence classifier \(.*\)\.$"):
        CrossEncoderScorer(bert, max_tokens=48)
    (bert / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match=r"tiny is not a readable Hugging Face model \(.*\)\.$"):
        CrossEncoderScorer(bert)
    (bert / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"tiny is not a readable Hugging Face model \(.*\)\.$"):
        CrossEncoderScorer(bert)
    with pytest.raises(InputError, match=r"nowhere does not exist"):
        CrossEncoderScorer(tmp_path / "nowhere")


def test_a_tokenizer_without_padding_is_refused(bert: Path) -> None:
    path = bert / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pad_token": None}))
    with pytest.raises(InputError, match=r"The tokenizer of .*tiny has no padding token\."):
        CrossEncoderScorer(bert)


def test_a_tokenizer_that_turns_pairs_around_is_refused(bert: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(bert)
    special = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing("[CLS] $A", "[CLS] $B [SEP] $A [SEP]", special)
    tokenizer.save_pretrained(bert)
    # BERT's own class would put its usual way of joining in place of the one that was saved.
    path = bert / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tokenizer_class": "PreTrainedTokenizerFast"}))
    with pytest.raises(
        InputError, match=r"^The tokenizer of tiny does not put a text before its hypothesis, as natural"
    ):
        CrossEncoderScorer(bert)


def test_a_hub_model_keeps_its_name(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(bert))
    assert CrossEncoderScorer("someone/some-nli", max_tokens=48).config()["name"] == "someone/some-nli"


def test_offline_a_hub_name_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError, match=r"^someone/no-such-model is neither a folder nor a language model that the hub"
    ):
        CrossEncoderScorer("someone/no-such-model")


def test_nothing_is_printed(bert: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    transformers_logging.set_verbosity_warning()
    transformers_logging.add_handler(caplog.handler)
    # Old checkpoints hold such things, of which transformers makes a report.
    weights = {**load_file(bert / "model.safetensors"), "left.over": torch.zeros(1)}
    save_file(weights, bert / "model.safetensors", {"format": "pt"})
    try:
        CrossEncoderScorer(bert, max_tokens=48).score(TEXTS, HYPOTHESES)
    finally:
        transformers_logging.remove_handler(caplog.handler)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    assert transformers_logging.get_verbosity() == transformers_logging.WARNING
