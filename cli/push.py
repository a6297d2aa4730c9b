"""`bncl push`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .terminal import echo


def push(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a trained model.")],
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The repository; it is made if it is not there.")],
    private: Annotated[
        bool, typer.Option("--private", help="Make the repository private, if it is not there yet.")
    ] = False,
    data_license: Annotated[
        str | None,
        typer.Option(metavar="LICENCE", help="Of the texts that the model learned from, for the card; else unknown."),
    ] = None,
    message: Annotated[str | None, typer.Option(help="Of the commit.")] = None,
) -> None:
    """Push a model to the Hugging Face hub, where its name is all that others need to use it.

    Log in first with 'hf auth login', or set HF_TOKEN. The model card is the folder's README.md;
    'bncl eval --update-card' puts figures into it.
    """
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import check_hub_name, read_manifest

    check_hub_name(name)
    if name.count("/") != 1:
        raise InputError(f"'{name}' says no owner; give OWNER/NAME.")
    read_manifest(model, "model")
    from bncl_pyg.estimator import BNCLClassifier

    options: dict[str, Any] = {} if message is None else {"commit_message": message}
    classifier = BNCLClassifier.from_pretrained(model)
    # A repository that is there stays as public as it is.
    where = classifier.push_to_hub(name, private=private or None, data_license=data_license, **options)
    echo(f"{name}: {where}")
    echo(f'Others load it with: bncl predict {name} TEXTS, or BNCLClassifier.from_pretrained("{name}")')
