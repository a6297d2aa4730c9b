"""A folder as the pages speak of it: tickets, tags, priors, annotated texts, and what featurize and train wrote."""

import csv
import json
from pathlib import Path

import pytest
from bncl_cli.main import app
from typer.testing import CliRunner

TICKETS = {
    "billing": [
        "I was charged twice on my credit card for the same invoice",
        "The invoice shows the wrong amount and tax",
        "Where can I download the bill of last month",
        "My payment failed although the card is valid",
    ],
    "refund": [
        "Please give me my money back for the cancelled order",
        "I returned the shoes and still wait for the refund",
        "The refund is less than what I paid",
    ],
    "login": [
        "I forgot my password and the reset mail does not arrive",
        "My account is locked after three attempts to sign in",
        "The app does not accept my user name and password",
        "Two-factor code is refused when I log in",
    ],
    "shipping": [
        "The parcel was sent to a wrong address",
        "My delivery is late, where is the package now",
        "The courier left the box in the rain",
    ],
    "legal": ["I want all my personal data deleted as the law says", "Please send me your terms and the contract"],
}
TEMPLATES = ("{}.", "Hello, {}. Thanks.", "{}, please help!")


def rows() -> list[dict[str, str]]:
    """Return tickets with their tag."""
    texts = [(tag, one.format(text)) for one in TEMPLATES for tag, some in TICKETS.items() for text in some]
    return [
        {"ticket_id": str(number), "subject": f"Ticket {number}", "body": text, "tag": tag}
        for number, (tag, text) in enumerate(texts, start=1)
    ]


def write_jsonl(path: Path, content: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in content))


def bncl(*words: str) -> None:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all kinds, and features and models of them."""
    folder = tmp_path_factory.mktemp("pages")
    tickets = rows()
    with (folder / "tickets.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["ticket_id", "subject", "body"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(tickets)
    (folder / "tags.txt").write_text("".join(f"{tag}\n" for tag in TICKETS))
    texts: list[dict[str, object]] = [{"id": row["ticket_id"], "text": row["body"]} for row in tickets]
    labelled: list[dict[str, object]] = [
        {**text, "labels": [row["tag"]]} for text, row in zip(texts, tickets, strict=True)
    ]
    write_jsonl(folder / "texts.jsonl", texts)
    write_jsonl(folder / "new-texts.jsonl", texts[:5])
    write_jsonl(folder / "annotated.jsonl", labelled[:20])
    write_jsonl(folder / "test.jsonl", labelled[20:])
    write_jsonl(folder / "labels.jsonl", [{"label": tag, "description": f"{tag} questions"} for tag in TICKETS])
    shares = {"billing": 0.3, "refund": [0.05, 0.3], "login": "common", "shipping": "uncommon", "legal": None}
    (folder / "priors.json").write_text(json.dumps({"cardinality": 1, "prevalence": shares}))
    scored = ["--labels", str(folder / "labels.jsonl"), "--out"]
    bncl("featurize", str(folder / "texts.jsonl"), *scored, str(folder / "features"))
    bncl("featurize", str(folder / "test.jsonl"), *scored, str(folder / "test-features"))
    known = ["--priors", str(folder / "priors.json"), "--out"]
    bncl("train", str(folder / "features"), *known, str(folder / "model"))
    return folder
