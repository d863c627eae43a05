"""Every setting of a checkpoint that transformers 5 reads: obeyed, refused, said, or without effect.

A setting that no table lists is read by no class of these families in transformers either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.errors import UserError, quote_untrusted
from model.importing.files.settings import (
    ADDED_TOKENS,
    CONFIG,
    SPECIAL_TOKENS,
    TOKENIZER,
    generation_path,
    settings_of,
)
from model.importing.files.tokenizers import check_added
from model.inputs import MAX_TARGET_TOKENS


@dataclass(frozen=True)
class Obeyed:
    """A part of the import reads it, or Headlight does it always."""


@dataclass(frozen=True)
class WithoutEffect:
    """It changes neither the tokens of a sentence nor the numbers of a model."""


@dataclass(frozen=True)
class Refused:
    """Only these values can be imported."""

    unless: tuple[Any, ...]


@dataclass(frozen=True)
class Said:
    """Headlight goes another way and says so at the import and in the card, except for these values."""

    unless: tuple[Any, ...]
    sentence: str = "{name} is {value}, which Headlight does not do."


Fate = Obeyed | WithoutEffect | Refused | Said


def _table(obeyed: str, without_effect: str, others: Mapping[str, Fate]) -> dict[str, Fate]:
    return {
        **dict.fromkeys(obeyed.split(), Obeyed()),
        **dict.fromkeys(without_effect.split(), WithoutEffect()),
        **others,
    }


NOTHING: tuple[Any, ...] = (None, False, 0, "", [], {})
ONE = (None, 1)

MODEL_SETTINGS = _table(
    # Read by `model.importing.families`, some under a second name. Required values stand there too.
    """
    model_type architectures is_encoder_decoder vocab_size decoder_vocab_size src_vocab_size tgt_vocab_size
    langs d_model hidden_size encoder_layers decoder_layers num_layers num_decoder_layers num_hidden_layers
    encoder_ffn_dim decoder_ffn_dim d_ff encoder_attention_heads decoder_attention_heads num_heads
    num_attention_heads d_kv head_dim activation_function feed_forward_proj scale_embedding
    tie_word_embeddings scale_decoder_outputs share_encoder_decoder_embeddings relative_attention_num_buckets
    relative_attention_max_distance layer_norm_epsilon max_position_embeddings pad_token_id eos_token_id
    bos_token_id decoder_start_token_id task_specific_params static_position_embeddings normalize_embedding
    quantization_config
    """,
    # What training needs, heads that do not translate, how weights were kept, and names.
    """
    dropout dropout_rate attention_dropout activation_dropout encoder_layerdrop decoder_layerdrop
    classifier_dropout init_std initializer_factor is_decoder num_labels id2label label2id problem_type
    output_hidden_states output_attentions return_dict dtype torch_dtype chunk_size_feed_forward
    transformers_version use_cache _name_or_path name_or_path attn_implementation _attn_implementation
    auto_map is_gated_act dense_act_fn unk_token_id sep_token_id cross_attention_hidden_size torchscript
    experts_implementation
    """,
    {
        "tie_encoder_decoder": Refused(NOTHING),
        "add_cross_attention": Refused((None, False, True)),
        "pruned_heads": Refused(NOTHING),
        "per_layer_config": Refused(NOTHING),
    },
)

SEARCH_SETTINGS = _table(
    # <pad> is never predicted, and a distribution always adds up to 1.
    """
    bad_words_ids suppress_tokens decoder_start_token_id bos_token_id eos_token_id forced_bos_token_id
    force_bos_token_to_be_generated pad_token_id renormalize_logits
    """,
    # They ask for other output, more speed, or belong to sampling, of which do_sample tells.
    """
    temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff use_cache cache_implementation
    cache_config max_cache_len num_return_sequences output_attentions output_hidden_states output_scores
    output_logits return_dict_in_generate is_assistant num_assistant_tokens num_assistant_tokens_schedule
    assistant_confidence_threshold prompt_lookup_num_tokens max_matching_ngram_size assistant_early_exit
    assistant_lookbehind target_lookbehind assistant_ensemble_weight speculation_type compile_config
    disable_compile continuous_batching_config low_memory prefill_chunk_size use_mtp remove_invalid_values
    transformers_version token_healing
    """,
    {
        # Published models of translation set none of the next nine; models of summaries do.
        "min_length": Said((None, 0)),
        "min_new_tokens": Said((None, 0)),
        "repetition_penalty": Said(ONE),
        "no_repeat_ngram_size": Said((None, 0)),
        "encoder_repetition_penalty": Said(ONE),
        "encoder_no_repeat_ngram_size": Said((None, 0)),
        "exponential_decay_length_penalty": Said((None,)),
        "diversity_penalty": Said((None, 0)),
        "num_beam_groups": Said(ONE),
        "begin_suppress_tokens": Said((None, [])),
        "forced_decoder_ids": Said((None, [])),
        "force_words_ids": Said((None, [])),
        "constraints": Said((None, [])),
        "sequence_bias": Said((None, [], {})),
        "guidance_scale": Said(ONE),
        "do_sample": Said((None, False)),
        "penalty_alpha": Said((None, 0)),
        "dola_layers": Said((None,)),
        "watermarking_config": Said((None,)),
        "stop_strings": Said((None, [])),
        "max_time": Said((None,)),
        "early_stopping": Said((None, False, True)),
        "num_beams": Said(ONE, "num_beams is {value}; Headlight searches with 1 unless you ask for more."),
        "length_penalty": Said(
            ONE,
            "length_penalty is {value}, a power of the length; Headlight's is a power of (5 + length) / 6.",
        ),
        "forced_eos_token_id": Said(
            (None,),
            "forced_eos_token_id ends a translation at max_length; Headlight has a limit of its own.",
        ),
        "max_length": Said((None,), "max_length is {value}; Headlight has a limit of its own."),
        "max_new_tokens": Said((None,), "max_new_tokens is {value}; Headlight has a limit of its own."),
    },
)

TOKENIZER_SETTINGS = _table(
    # Special tokens in a text are text here, as with split_special_tokens. Names of tokens are checked below.
    """
    tokenizer_class source_lang target_lang src_lang separate_vocabs langs do_lower_case language_codes
    add_prefix_space unk_token eos_token pad_token sep_token cls_token additional_special_tokens
    extra_special_tokens added_tokens_decoder split_special_tokens
    """,
    # They are about batches, lengths, targets of training, other tasks, and where files lie.
    """
    tgt_lang model_max_length max_len max_length padding_side truncation_side truncation_strategy stride
    pad_to_multiple_of pad_token_type_id model_input_names bos_token mask_token mask_token_sent offset
    extra_ids num_madeup_words trim_offsets errors legacy verbose name_or_path processor_class chat_template
    response_template response_schema chat_control_tokens backend is_local local_files_only files_loaded
    init_inputs special_tokens_map_file tokenizer_file vocab_file spm_file source_spm target_spm vocab
    merges_file target_vocab_file src_vocab_file tgt_vocab_file fast_tokenizer_files auto_map
    clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output fix_mistral_regex
    """,
    {
        "sp_model_kwargs": Refused(NOTHING),
        "legacy_behaviour": Refused(NOTHING),
        "add_bos_token": Refused(NOTHING),
        "add_eos_token": Refused((None, True)),
        "clean_up_tokenization_spaces": Said(
            (None, False),
            "clean_up_tokenization_spaces removes the spaces before marks; Headlight leaves what the model "
            "writes.",
        ),
    },
)

# The names of special tokens that every file must use: the tokenizer puts them around a sentence.
SPECIAL_NAMES = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}
AROUND_A_SENTENCE = {"bart": {"cls_token": "<s>", "sep_token": "</s>"}, "fsmt": {"sep_token": "</s>"}}
TRANSLATES = ("ForConditionalGeneration", "MTModel", "WithLMHeadModel")  # ends of names of classes


def check_settings(directory: Path, family: str) -> tuple[str, ...]:
    """Sentences about settings that Headlight does in another way. Raises UserError for what it cannot do."""
    config = settings_of(directory / CONFIG)
    _check_architecture(config.get("architectures"), directory / CONFIG)
    notes = _check(MODEL_SETTINGS, config, directory / CONFIG)
    path = generation_path(directory)
    notes += _check(SEARCH_SETTINGS, _limits_that_count(settings_of(path)), path)
    for name in (TOKENIZER, SPECIAL_TOKENS):
        path = directory / name
        settings = settings_of(path)
        notes += _check(TOKENIZER_SETTINGS, settings, path)
        _check_names(settings, SPECIAL_NAMES | AROUND_A_SENTENCE.get(family, {}), path)
        check_added(_added_tokens(settings), path)
    check_added(settings_of(directory / ADDED_TOKENS), directory / ADDED_TOKENS)
    return tuple(notes)


def _check(table: Mapping[str, Fate], settings: Mapping[str, Any], path: Path) -> list[str]:
    notes = []
    for name, value in settings.items():
        match table.get(name):
            case Refused(unless) if value not in unless:
                raise UserError(
                    f"{path} has {name} {quote_untrusted(value)}, which Headlight cannot do; only models "
                    "without it can be imported."
                )
            case Said(unless, sentence) if value not in unless:
                notes.append(sentence.format(name=name, value=quote_untrusted(value)))
    return notes


def _limits_that_count(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings without limits that are above Headlight's own."""
    limits = ("max_length", "max_new_tokens")

    def counts(name: str, value: object) -> bool:
        return name not in limits or type(value) is not int or value < MAX_TARGET_TOKENS

    return {name: value for name, value in settings.items() if counts(name, value)}


def _check_architecture(names: Any, path: Path) -> None:
    if isinstance(names, list) and names and not any(str(name).endswith(TRANSLATES) for name in names):
        raise UserError(
            f"{path} says that this is a {quote_untrusted(names[0])}, which does not translate; give a model "
            "for conditional generation."
        )


def _check_names(settings: Mapping[str, Any], wanted: Mapping[str, str], path: Path) -> None:
    for name, token in wanted.items():
        if settings.get(name) is not None and (found := _content(settings[name])) != token:
            raise UserError(
                f"{path} has {quote_untrusted(found)} as {name}; only models with {token} can be imported."
            )


def _content(token: Any) -> Any:
    """The text of a token, which may be described by an object."""
    return token.get("content") if isinstance(token, dict) else token


def _added_tokens(settings: Mapping[str, Any]) -> Iterator[Any]:
    """The texts of all tokens that a file adds to the vocabulary."""
    for name in ("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder"):
        tokens = settings.get(name)
        listed = tokens.values() if isinstance(tokens, dict) else tokens if isinstance(tokens, list) else ()
        yield from map(_content, listed)
