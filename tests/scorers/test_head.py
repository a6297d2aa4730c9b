import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import normalize

from bncl_pyg.errors import InputError
from bncl_pyg.scorers import (
    CorrectedHead,
    CosineHead,
    Head,
    NetworkHead,
    SentenceEncoder,
    embedded_head,
    load_head,
    save_head,
)
from bncl_pyg.scorers import head as module


def made(kind: str) -> Head:
    torch.manual_seed(0)
    head: Head = {
        "cosine": lambda: CosineHead.symmetric(7.0, 0.2),
        "network": lambda: NetworkHead(12, 5),
        "corrected": lambda: CorrectedHead(12, 5),
    }[kind]()
    return head.eval()


def vectors(count: int, seed: int) -> torch.Tensor:
    return normalize(torch.randn(count, 12, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("kind", ["cosine", "network", "corrected"])
def test_all_pairs_are_the_pairs_one_by_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    head, u, v = made(kind), vectors(5, 1), vectors(7, 2)
    whole = head(u, v)
    assert whole.shape == (2, 5, 7)
    for text in range(5):
        for hypothesis in range(7):
            with torch.no_grad():
                shares = torch.softmax(head.logits(u[[text]], v[[hypothesis]]), dim=-1)[0]
            assert torch.allclose(whole[:, text, hypothesis], shares[[0, 2]], atol=1e-6)
    assert bool(((whole >= 0) & (whole.sum(dim=0) <= 1 + 1e-6)).all())
    monkeypatch.setattr(type(head), "block_pairs", 3)
    assert torch.allclose(head(u, v), whole, atol=1e-6)
    pairs = torch.tensor([[0, 3], [1, 2], [6, 0], [5, 4], [2, 2]])
    assert torch.allclose(head.pairs(u, v, pairs), whole.gather(2, pairs.expand(2, -1, -1)), atol=1e-6)


def test_the_cosine_decides_at_its_middle() -> None:
    head = CosineHead.symmetric()
    u = torch.tensor([[1.0, 0.0]])
    v = torch.tensor([[0.39, (1 - 0.39**2) ** 0.5], [0.37, (1 - 0.37**2) ** 0.5]])
    entailment, contradiction = head(u, v)
    assert entailment[0, 0] > contradiction[0, 0]
    assert entailment[0, 1] < contradiction[0, 1]
    assert head.config() == {"head_sha256": head.digest(), "cosine_scale": 20.0, "cosine_middle": 0.38}
    assert embedded_head().config().keys() == {"head_sha256"}
    with pytest.raises(InputError, match=r"scale must be positive, but is 0\.0"):
        CosineHead.symmetric(0.0)


@pytest.mark.parametrize("kind", ["cosine", "network", "corrected"])
def test_round_trip(kind: str, tmp_path: Path) -> None:
    head = made(kind)
    head.facts = {"seed": 0}
    save_head(head, tmp_path / "h.safetensors")
    again = load_head(tmp_path / "h.safetensors")
    assert again.facts == {"seed": 0}
    assert torch.equal(again(vectors(3, 1), vectors(4, 2)), head(vectors(3, 1), vectors(4, 2)))
    first = (tmp_path / "h.safetensors").read_bytes()
    save_head(again, tmp_path / "h.safetensors")
    assert (tmp_path / "h.safetensors").read_bytes() == first


def test_what_is_no_head_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "h.safetensors"
    with pytest.raises(InputError, match=r"h\.safetensors does not exist"):
        load_head(file)
    file.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="is damaged or not a safetensors file"):
        load_head(file)
    save_file({"x": torch.zeros(1)}, file)
    with pytest.raises(InputError, match="holds no bncl head"):
        load_head(file)
    description = {
        "version": 1,
        "kind": "network",
        "sizes": {"dimensions": 4, "hidden": 2},
        "encoder_sha256": "",
        "facts": {},
    }
    save_file({"x": torch.zeros(1)}, file, {module.ENTRY: json.dumps(description)})
    with pytest.raises(InputError, match="does not hold the tensors"):
        load_head(file)
    save_file({"x": torch.zeros(1)}, file, {module.ENTRY: json.dumps({**description, "kind": "oracle"})})
    with pytest.raises(InputError, match="head of kind 'oracle'"):
        load_head(file)


def test_vectors_of_another_size_are_refused() -> None:
    with pytest.raises(InputError, match="reads embeddings of 12 dimensions, but the texts have 3"):
        made("network")(torch.rand(2, 3), torch.rand(2, 12))


def test_the_shipped_head_is_small_checked_and_knows_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.EMBEDDED_FILE.stat().st_size < 5_000_000
    encoder = SentenceEncoder.embedded()
    texts = encoder.encode(
        ["The farmers brought in a large wheat harvest.", "Bullion: the price of gold rose in London."]
    )
    hypotheses = encoder.encode(["This is about wheat.", "This is about gold."])
    entailment, contradiction = embedded_head()(texts, hypotheses)
    assert entailment[0, 0] > entailment[0, 1]
    assert entailment[1, 1] > entailment[1, 0]
    assert entailment[0, 0] > contradiction[0, 0]
    monkeypatch.setattr(module, "EMBEDDED_HEAD_SHA256", "0" * 64)
    with pytest.raises(InputError, match="not the known ones; reinstall bncl-pyg"):
        embedded_head()


def test_the_digest_is_computed_again_when_a_parameter_changed_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    head = embedded_head()
    before = head.digest()
    with monkeypatch.context() as patched:
        patched.setattr("bncl_pyg.scorers.head.hashlib.sha256", lambda *_: pytest.fail("computed twice"))
        assert head.digest() == before
    with torch.no_grad():
        next(iter(head.state_dict().values())).add_(1)
    assert head.digest() != before
