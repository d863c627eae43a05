"""Model directories on the Hugging Face hub: from_pretrained and push_to_hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import ModelHubMixin, snapshot_download

from model.errors import UserError, quote_untrusted

# All files of a model directory; nothing else of a repository is downloaded.
FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "source_tokenizer.json",
    "target_tokenizer.json",
    "card.json",
    "README.md",
    "metrics.jsonl",
    "probes.safetensors",
)

CARD_TEMPLATE = """---
{{ card_data }}
---

A Transformer for Headlight, which shows what each of its attention heads does:

    from model import Translator
    translator = Translator.from_pretrained("USER/NAME")
"""

T = TypeVar("T", bound="OnHub")  # the shape checker of the tests does not support typing.Self


class OnHub(
    ModelHubMixin, library_name="headlight", pipeline_tag="translation", model_card_template=CARD_TEMPLATE
):
    """Base of what is read from a model directory: `from_pretrained`, `save_pretrained`, `push_to_hub`."""

    def __new__(cls: type[T], *args: Any, **kwargs: Any) -> T:
        """Override the mixin, which would save the arguments as another config.json."""
        return object.__new__(cls)

    @classmethod
    def load(cls: type[T], directory: Path) -> T:
        """Read a model directory. Raises UserError if it is missing, broken or too new."""
        raise NotImplementedError

    @classmethod
    def from_pretrained(cls: type[T], pretrained_model_name_or_path: str | Path, **options: Any) -> T:
        """Read a local directory without a network, or else a model of the hub (user/name).

        `options` go to `huggingface_hub.snapshot_download`, such as revision and cache_dir. Raises
        UserError when there is no such model, when it cannot be fetched and when it is broken.
        """
        # The mixin's own reads config.json unchecked and passes its entries to the constructor.
        directory = Path(pretrained_model_name_or_path)
        if not directory.is_dir():
            directory = fetch(str(pretrained_model_name_or_path), **options)
        return cls.load(directory)


def fetch(name: str, files: Sequence[str] = FILES, **options: Any) -> Path:
    """The folder of the hub's cache with these files of a model. Raises UserError if there is none."""
    try:
        return Path(snapshot_download(name, allow_patterns=list(files), **options))
    except Exception as error:  # errors of network, name and cache have no common class
        raise UserError(
            f"There is no directory {quote_untrusted(name)}, and the Hugging Face hub gives no such model "
            f"({type(error).__name__}); check the name and the network."
        ) from error
