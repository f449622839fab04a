#!/usr/bin/env python3
"""Trains and wraps the SentencePiece tokenizer.

Byte-pair encoding, 4096 pieces, digits kept apart, unknown characters as bytes.  Text is taken as it is:
no normalisation, no added leading space, spaces kept.  A rendered chat prompt encoded as one string
therefore gives exactly the ids of training.  The chat symbols are user-defined pieces, never split.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from typing import List

CHAT_SYMBOLS = ["<|user|>", "<|assistant|>", "<|end|>"]

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<|user|>\\n' + message['content'] + '<|end|>\\n' }}"
    "{% elif message['role'] == 'assistant' %}{{ '<|assistant|>\\n' + message['content'] + '<|end|>\\n' }}"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)


class Tokenizer:
    """A ``tokenizer.model`` file with the ids the training code needs by name."""

    def __init__(self, path: str):
        import sentencepiece

        if not os.path.exists(path):
            sys.exit(f"error: no tokenizer at {path}; create one with tokenizer.py")
        self.path = path
        self.processor = sentencepiece.SentencePieceProcessor(model_file=path)
        self.bos = self.processor.bos_id()
        self.end = self.processor.piece_to_id("<|end|>")

    @property
    def vocabulary(self) -> int:
        return self.processor.vocab_size()

    def encode(self, text: str) -> List[int]:
        return self.processor.encode(text)

    def decode(self, ids: List[int]) -> str:
        return self.processor.decode(ids)

    def prompt(self, text: str) -> List[int]:
        """Ids of a one-turn conversation up to the start of the answer."""
        return [self.bos] + self.encode(f"<|user|>\n{text}<|end|>\n<|assistant|>\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder of the text data sets (listed in data.py); without it only generated tasks",
    )
    parser.add_argument("--out", metavar="DIR", required=True, help="folder for tokenizer.model")
    parser.add_argument("--size", type=int, default=4096, help="number of pieces (default 4096)")
    parser.add_argument(
        "--examples",
        type=int,
        default=40000,
        help="examples of the training mixture (default 40000)",
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    import sentencepiece
    from data import Source

    source, rng = Source(options.data), random.Random(options.seed)
    print(source.describe())
    os.makedirs(options.out, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as corpus:
        for _ in range(options.examples):
            example = source.mixed(rng)
            corpus.write(example.prompt + "\n" + example.answer + "\n")
        corpus.flush()
        sentencepiece.SentencePieceTrainer.train(
            input=corpus.name,
            model_prefix=os.path.join(options.out, "tokenizer"),
            vocab_size=options.size,
            model_type="bpe",
            character_coverage=1.0,
            byte_fallback=True,
            split_digits=True,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            user_defined_symbols=CHAT_SYMBOLS,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=-1,
            num_threads=2,
            max_sentence_length=20000,
            minloglevel=1,
        )
    path = os.path.join(options.out, "tokenizer.model")
    tokenizer = Tokenizer(path)
    print(f"{path}: {tokenizer.vocabulary} pieces")
    for task in source.mixture:
        text = "".join(source.example(task, rng, True).answer for _ in range(50))
        print(
            f"  {task:6s} {100 * len(tokenizer.encode(text)) / len(text):5.1f} ids per 100 characters of answer"
        )


if __name__ == "__main__":
    main()
