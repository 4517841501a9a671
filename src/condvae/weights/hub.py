"""Download model files from the Hugging Face hub, and upload them. No downloaded code is executed."""

import contextlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from condvae.runtime.progress import has_display, track

MODEL_FILE = "model.safetensors"
"""The name of the model file in a repository on the hub, and in a run folder."""
CARD_FILE = "README.md"

_ID = re.compile(r"(?P<repository>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>\w[\w./-]*))?", re.ASCII)


class HubModel(NamedTuple):
    """A model on the hub."""

    repository: str
    """The repository, as owner/name."""
    revision: str | None = None
    """A branch, a tag or a commit of the repository; None for the newest commit."""

    def __str__(self) -> str:
        return f"{self.repository}@{self.revision}" if self.revision else self.repository


def hub_model(text: str) -> HubModel | None:
    """Parse "owner/name" or "owner/name@revision"; return None if the text is neither."""
    found = _ID.fullmatch(text)
    if found is None or text.endswith(".safetensors"):
        return None
    return HubModel(found["repository"], found["revision"])


def fetch(
    model: HubModel, *, cache: str | Path | None = None, token: str | None = None, endpoint: str | None = None
) -> Path:
    """Download the file of a model unless the local cache contains it, and return its path in the cache."""
    hub = _library(f"{model} is not a local file, and downloading it from the hub")
    try:
        download = hub.hf_hub_download  # this first use imports the client, which configures its log
        with _quiet_log(hub), track(f"downloading {model} from the hub", unit=""):
            file = download(
                model.repository, MODEL_FILE, revision=model.revision, cache_dir=cache, token=token, endpoint=endpoint
            )
    except Exception as error:  # network, disk and hub can raise many exceptions; each becomes one sentence
        raise ValueError(f"{model} is not a local file, and {_reason(error, model)}") from error
    return Path(file)


def push(
    folder: Path, repository: str, *, private: bool = False, token: str | None = None, endpoint: str | None = None
) -> None:
    """Upload the model file and the model card in a folder to a repository, which is created if it does not exist."""
    hub = _library("uploading")
    try:
        api = hub.HfApi(endpoint=endpoint, token=token)
        api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            allow_patterns=[MODEL_FILE, CARD_FILE],
            commit_message="Upload a condvae model",
        )
    except Exception as error:
        raise ValueError(
            f"{folder} was written but not uploaded to {repository}: {_reason(error, HubModel(repository))}"
        ) from error


def check_pushable(repository: str) -> None:
    """Raise ValueError unless `repository` has the form owner/name and huggingface_hub is installed."""
    if (found := hub_model(repository)) is None or found.revision:
        raise ValueError(f"a model cannot be uploaded to {repository!r}, expected a repository as owner/name")
    _library("uploading")


def _library(purpose: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ValueError(f"{purpose} needs huggingface_hub: pip install 'condvae[hub]'") from error
    return huggingface_hub


@contextlib.contextmanager
def _quiet_log(hub: Any) -> Iterator[None]:
    """Suppress the log of huggingface_hub, because the user gets one message with the final outcome.

    Suppress its progress bars too in a command, which shows its own progress, or none with --quiet.
    """
    logger, bars = logging.getLogger("huggingface_hub"), has_display() and not hub.utils.are_progress_bars_disabled()
    before = logger.level
    logger.setLevel(logging.ERROR)
    if bars:
        hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(before)
        if bars:
            hub.utils.enable_progress_bars()


def _reason(error: Exception, model: HubModel) -> str:
    from huggingface_hub import errors

    repository, revision = model
    # Subclasses come before their base classes.
    for kind, reason in (
        (errors.GatedRepoError, f"{repository} on the hub is only for users who were given access: pass a token"),
        (errors.RepositoryNotFoundError, f"the hub has no {repository}, or it is private and needs a token"),
        (errors.RevisionNotFoundError, f"{repository} on the hub has no revision {revision!r}"),
        (errors.OfflineModeIsEnabled, "it cannot be downloaded because HF_HUB_OFFLINE is set"),
        (errors.LocalEntryNotFoundError, "the hub cannot be reached, and the model is not in the cache"),
        (errors.EntryNotFoundError, f"{repository} on the hub has no {MODEL_FILE}: it is not a condvae model"),
    ):
        if isinstance(error, kind):
            return reason
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"the hub or the cache failed: {lines[0]}"
