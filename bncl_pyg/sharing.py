"""Models to share: saved and loaded as folders or by their names on the Hugging Face hub, and pushed there."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelCard, ModelHubMixin

from bncl_pyg.persistence import HubOptions, check_hub_name, refusals, with_repository
from bncl_pyg.scorers import Scorer
from bncl_pyg.training import TrainedModel


class SharedModel(ModelHubMixin):
    """The hub's own mixin, with folders that are whole or absent, cards that are written from the run, and clear words.

    A class that inherits from it tells what it learned (`_trained`), can have learned something else (`_with_trained`),
    and be made from it (`_from_trained`).
    """

    _hub_mixin_config: Any = {}  # noqa: RUF012 (the mixin's; set, so that it does not look through all arguments)

    def save_pretrained(  # type: ignore[override]
        self,
        path: Path | str,
        *,
        overwrite: bool = False,
        metrics: Mapping[str, Any] | None = None,
        data_license: str | None = None,
        push_to_hub: bool = False,
        repo_id: str | None = None,
        **push_options: Any,
    ) -> str | None:
        """Write the model as a folder that is whole or absent: safetensors, JSON and a card for people (README.md).

        Args:
            path: the folder.
            overwrite: whether to replace a model that is there.
            metrics: figures on test texts that the card is to show beside the baselines: `Evaluation.as_dict()`.
            data_license: of the texts that the model learned from, for the card; unknown, if not given.
            push_to_hub: whether to push it, too.
            repo_id: where to, `owner/name`; the folder's name among your own, if not given.
            push_options: see `push_to_hub`.

        Returns:
            Where it was pushed to, if it was.
        """
        # The mixin hands these two on, of which the model has no use.
        push_options.pop("config", None)
        card: Mapping[str, Any] = push_options.pop("model_card_kwargs", None) or {}
        trained = self._trained().with_card(evaluation=metrics, data_license=data_license)
        if "repository" in card:
            trained = replace(trained, card=with_repository(trained.card, card["repository"]))
        trained.save(Path(path), overwrite=overwrite)
        if not push_to_hub:
            return None
        return self._with_trained(trained).push_to_hub(repo_id or Path(path).name, **push_options)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        metrics: Mapping[str, Any] | None = None,
        data_license: str | None = None,
        **options: Any,
    ) -> str:
        """Push the model to the Hugging Face hub, in one commit; `from_pretrained(repo_id)` loads it from there.

        Args:
            repo_id: `owner/name`, or a name among your own; the repository is made if it is not there.
            metrics: see `save_pretrained`.
            data_license: likewise.
            options: of the hub's library: `private`, `token`, `commit_message`, `branch`, `create_pr`.

        Returns:
            Where the commit is to be seen.
        """
        trained = self._trained().with_card(evaluation=metrics, data_license=data_license)
        check_hub_name(repo_id)
        options.setdefault("commit_message", "Push a model of bncl-pyg")
        options.setdefault("model_card_kwargs", {"repository": repo_id})
        with refusals(repo_id):
            return str(ModelHubMixin.push_to_hub(self._with_trained(trained), repo_id, **options))

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls,
        name: Path | str,
        *,
        scorer: str | Scorer | None = None,
        device: str | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: Path | str | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
    ) -> Self:
        """Load a folder that `save_pretrained` wrote, or such a folder from the Hugging Face hub by name.

        What was downloaded once is read from the hub's cache without asking the hub again.

        Args:
            name: the folder or the hub name.
            scorer: what reads texts, where it is elsewhere than when the model was trained.
            device: where the model runs; the CPU, if not given.
            revision: a branch, a tag or a commit on the hub; the newest, if not given.
            token: who asks the hub; who is logged in on this machine, if not given.
            cache_dir: where downloads are kept; the hub's own cache, if not given.
            force_download: whether to ask the hub though there is something in the cache.
            local_files_only: never ask the hub.
        """
        options = HubOptions(revision, token, cache_dir, force_download, local_files_only)
        return cls._from_trained(TrainedModel.load(name, options), scorer, device)

    def generate_model_card(self, *_: Any, **__: Any) -> ModelCard:
        """Return the card that `save_pretrained` writes."""
        return ModelCard(self._trained().with_card().card)

    def _trained(self) -> TrainedModel:
        raise NotImplementedError

    def _with_trained(self, trained: TrainedModel) -> Self:
        raise NotImplementedError

    @classmethod
    def _from_trained(cls, trained: TrainedModel, scorer: str | Scorer | None, device: str | None) -> Self:
        raise NotImplementedError
