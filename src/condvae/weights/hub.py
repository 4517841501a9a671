"""Files on the Hugging Face hub: one download, one upload, and errors in one sentence. Nothing fetched is executed."""

import contextlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MODEL_FILE = "model.safetensors"
"""What a model's file is called on the hub and in a folder."""
CARD_FILE = "README.md"

_ID = re.compile(r"(?P<repository>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>\w[\w./-]*))?", re.ASCII)


class HubModel(NamedTuple):
    """A model on the hub."""

    repository: str
    """owner/name"""
    revision: str | None = None
    """A branch, a tag or a commit; None: the newest."""

    def __str__(self) -> str:
        return f"{self.repository}@{self.revision}" if self.revision else self.repository


def hub_model(text: str) -> HubModel | None:
    """The model that "owner/name" or "owner/name@revision" stands for; None if the text is no such thing."""
    found = _ID.fullmatch(text)
    if found is None or text.endswith(".safetensors"):
        return None
    return HubModel(found["repository"], found["revision"])


def fetch(
    model: HubModel, *, cache: str | Path | None = None, token: str | None = None, endpoint: str | None = None
) -> Path:
    """The model's file in the local cache, downloaded unless it is there already."""
    hub = _library(f"{model} is no file here, and fetching it from the hub")
    try:
        download = hub.hf_hub_download  # found on first use, when it sets up the log
        with _no_chatter():
            file = download(
                model.repository, MODEL_FILE, revision=model.revision, cache_dir=cache, token=token, endpoint=endpoint
            )
    except Exception as error:  # connections, disks and the hub fail in many ways, and each is one sentence
        raise ValueError(f"{model} is no file here, and {_why(error, model)}") from error
    return Path(file)


def push(
    folder: Path, repository: str, *, private: bool = False, token: str | None = None, endpoint: str | None = None
) -> None:
    """Upload a folder's model and card; the repository is made if it does not exist."""
    hub = _library("uploading")
    try:
        api = hub.HfApi(endpoint=endpoint, token=token)
        api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            allow_patterns=[MODEL_FILE, CARD_FILE],
            commit_message="A model of condvae",
        )
    except Exception as error:
        raise ValueError(
            f"{folder} was written but not uploaded to {repository}: {_why(error, HubModel(repository))}"
        ) from error


def check_pushable(repository: str) -> None:
    """Raise a ValueError unless this is the name of a repository and there is a library to upload with."""
    if (found := hub_model(repository)) is None or found.revision:
        raise ValueError(f"a model cannot be uploaded to {repository!r}, expected owner/name")
    _library("uploading")


def _library(purpose: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ValueError(f"{purpose} needs huggingface_hub: pip install 'condvae[hub]'") from error
    return huggingface_hub


@contextlib.contextmanager
def _no_chatter() -> Iterator[None]:
    """The client reports every attempt; the last one's outcome, in one sentence, will do."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _why(error: Exception, model: HubModel) -> str:
    from huggingface_hub import errors

    repository, revision = model
    # From the particular to the general: some of these are subclasses of others.
    for kind, reason in (
        (errors.GatedRepoError, f"{repository} on the hub is for those who were given access: pass a token"),
        (errors.RepositoryNotFoundError, f"the hub has no {repository}, or it is private and wants a token"),
        (errors.RevisionNotFoundError, f"{repository} on the hub has no revision {revision!r}"),
        (errors.OfflineModeIsEnabled, "HF_HUB_OFFLINE is set, so that the hub is not asked"),
        (errors.LocalEntryNotFoundError, "the hub cannot be reached, and the cache does not hold it"),
        (errors.EntryNotFoundError, f"{repository} on the hub holds no {MODEL_FILE}: it is no model of condvae"),
    ):
        if isinstance(error, kind):
            return reason
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"the hub or the cache failed: {lines[0]}"
