"""Token ids that end an answer of the model in a Hugging Face folder, as a server finds them."""

from __future__ import annotations

import json
import os
import sys
from typing import Dict, List

# Always end an answer, as in shared/model/tokenizer/vocabulary.cpp: many folders list only one id.
END_TEXTS = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<EOT>",
    "_<EOT>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[EOT]",
    "[EOS]",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
)


def read_json(folder: str, name: str) -> dict:
    """The file's object; empty if there is no such file."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def special_tokens(folder: str) -> Dict[str, int]:
    """Ids by text: all pieces of tokenizer.model, of which only special ones look like tags, and the added tokens."""
    found: Dict[str, int] = {}
    path = os.path.join(folder, "tokenizer.model")
    if os.path.exists(path):
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=path)
        found.update({processor.id_to_piece(i): i for i in range(processor.vocab_size())})
    found.update(read_json(folder, "added_tokens.json"))
    found.update(
        {
            entry["content"]: entry["id"]
            for entry in read_json(folder, "tokenizer.json").get("added_tokens", [])
        }
    )
    listed = read_json(folder, "tokenizer_config.json").get("added_tokens_decoder") or {}
    found.update({entry["content"]: int(key) for key, entry in listed.items()})
    return found


def token_id(folder: str, text: str, special: Dict[str, int]) -> List[int]:
    """The id of a token, as a list that is empty if it is unknown.  It may be an ordinary entry of tokenizer.json."""
    if text in special:
        return [special[text]]
    vocabulary = read_json(folder, "tokenizer.json").get("model", {}).get("vocab", {})
    if isinstance(vocabulary, list):  # pairs of a text and its score
        return [i for i, entry in enumerate(vocabulary) if entry[0] == text]
    return [vocabulary[text]] if text in vocabulary else []


def end_ids(folder: str) -> List[int]:
    """End ids in ascending order.  Ends the program if there is none, since every answer would then run to its
    limit."""
    try:
        found = set()
        for name in ("config.json", "generation_config.json"):
            ids = read_json(folder, name).get("eos_token_id")
            found.update(ids if isinstance(ids, list) else [] if ids is None else [ids])
        special = special_tokens(folder)
        end = read_json(folder, "tokenizer_config.json").get("eos_token")
        if end:
            found.update(
                token_id(folder, end["content"] if isinstance(end, dict) else end, special)
            )
        found.update(special[text] for text in END_TEXTS if text in special)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.exit(f"error: {folder}: cannot read its config or tokenizer files: {error!r}")
    if not found:
        sys.exit(f"error: {folder} has no end-of-answer token; set eos_token_id in its config.json")
    return sorted(found)
