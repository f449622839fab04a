#!/usr/bin/env python3
"""Trains the target: a Llama model of a few million parameters on the mixture of data.py.

The run is planned by the clock, or by --steps. The learning rate warms up, stays constant and falls to zero over the
last part (--decay), at any speed of the machine.  The loss counts only answers, and the LM head runs only on the rows
that predict an answer token.  Stop it at any time and start it again with the same command: it continues from the
last checkpoint, and earlier training time counts.

Example, two CPU cores, an hour:
    python3 train_target.py --data text --tokenizer out/tokenizer.model --out out/target.pt --minutes 60 --workers 2
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import sys
from typing import Callable, List, Tuple

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import torch
from torch import Tensor
import torch.nn.functional as F

import loop
from checkpoint import load_checkpoint
from data import Batches, IGNORE, Row, Source, collate, encode_conversation, random_conversation
from model import Llama, LlamaConfig, config_from_dict
from tokenizer import Tokenizer


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    loop.add_data_options(parser)
    add_target_options(parser, LlamaConfig(intermediate_size=512))
    options = parser.parse_args()
    loop.check_options(options)
    return options


def add_target_options(parser: argparse.ArgumentParser, sizes: LlamaConfig) -> None:
    """Options of training and, with the defaults of ``sizes``, of the target's shape."""
    loop.add_options(
        parser,
        minutes=60,
        muon_lr=0.006,
        adam_lr=1e-3,
        decay=0.35,
        residual_lr=1 / 16,
        embedding=True,
    )

    def add(name: str, default: int, what: str) -> None:
        parser.add_argument(name, type=int, default=default, help=f"{what} (default {default})")

    add("--hidden", sizes.hidden_size, "E, residual width")
    add("--layers", sizes.num_hidden_layers, "L")
    add("--heads", sizes.num_attention_heads, "query heads")
    add("--kv-heads", sizes.num_key_value_heads, "key/value heads")
    add("--head-dim", sizes.head_dim, "D")
    add("--ffn", sizes.intermediate_size, "F, SwiGLU width")


def new_config(options: argparse.Namespace, **values) -> LlamaConfig:
    """The sizes from the options, and further ``values``."""
    if (
        min(options.hidden, options.layers, options.kv_heads, options.head_dim, options.ffn) < 1
        or options.head_dim % 2
    ):
        sys.exit(
            "error: --hidden, --layers, --kv-heads and --ffn must be above 0, and --head-dim even"
        )
    if options.heads < 1 or options.heads % options.kv_heads:
        sys.exit(
            f"error: --heads {options.heads} is not a multiple of --kv-heads {options.kv_heads}"
        )
    return LlamaConfig(
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads,
        head_dim=options.head_dim,
        intermediate_size=options.ffn,
        max_position_embeddings=max(LlamaConfig.max_position_embeddings, options.longest),
        **values,
    )


def share_spaced_pieces(model: Llama, tokenizer: Tokenizer) -> None:
    """Gives a word the embedding that it has with a leading space.

    Copying a word of the prompt into quotes then equals copying it as it is; otherwise each word would have to be
    learned separately.
    """
    ids = {tokenizer.processor.id_to_piece(i): i for i in range(tokenizer.vocabulary)}
    embedding = model.model.embed_tokens.weight.data
    for piece, spaced in ids.items():
        word = piece[1:]
        if (
            piece.startswith("\u2581")
            and word.isalpha()
            and len(word) >= (3 if word[0].isupper() else 4)
            and word in ids
        ):
            embedding[ids[word]] = embedding[spaced]


@torch.no_grad()
def judged(model: Llama, rows: List[Row], device: str) -> Tuple[float, Tensor, Tensor]:
    """(loss, mask of ids to predict [B, T], mask of ids that are the argmax or not to be predicted [B, T])."""
    tokens, labels = (tensor.to(device) for tensor in collate(rows))
    wanted = labels != IGNORE
    logits = model.head(model(tokens, head=False).feature[wanted])
    right = torch.ones_like(wanted)
    right[wanted] = logits.argmax(-1) == labels[wanted]
    return float(F.cross_entropy(logits.float(), labels[wanted])), wanted, right


def held_out_line(model: Llama, tokenizer: Tokenizer, examples, device: str) -> str:
    """Loss / share of answers whose every token is the argmax given the reference before it, one entry per task.

    The second number is exactly the greedy exact match.
    """
    parts = []
    for task, items in examples.items():
        loss, _, right = judged(
            model, [encode_conversation(tokenizer, [item]) for item in items], device
        )
        parts.append(f"{task} {loss:.3f}/{100 * right.all(1).float().mean():.0f}%")
    return "  ".join(parts)


def train(
    options: argparse.Namespace,
    config: LlamaConfig,
    draw: Callable[[random.Random], Row],
    check: Callable[[Llama], str],
    begin: Callable[[Llama], None] = lambda model: None,
) -> None:
    """Trains a target of the shape ``config``, or continues from an existing checkpoint, and writes it.

    draw    the next conversation; the loss counts ids marked as response
    check   a line on held-out text;  begin changes the initial weights of a new model
    """
    torch.manual_seed(options.seed)
    saved = load_checkpoint(options.out, "model") if os.path.exists(options.out) else None
    if saved:
        begun = config_from_dict(
            saved["config"]
        )  # a larger --longest continues with a longer context
        config = dataclasses.replace(
            begun,
            max_position_embeddings=max(
                begun.max_position_embeddings, config.max_position_embeddings
            ),
        )
    model, clock = Llama(config), loop.Clock()
    if not saved:
        begin(model)
    else:
        model.load_state_dict(saved["model"])
        clock = loop.Clock.continued(saved, options)
    model.to(options.device)
    length = (
        f"{options.steps} steps from {clock.step}"
        if options.steps
        else f"{options.minutes:g} minutes from {clock.elapsed / 60:.1f}"
    )
    print(f"{model.count_parameters() / 1e6:.2f} M parameters; {length}", flush=True)

    def compute(batch, rank):
        tokens, labels = batch
        labels = labels.flatten()
        rows = (labels != IGNORE).nonzero().squeeze(1)
        # Few shapes; padding repeats the last row, which ends a conversation or is padding and has no label.
        rows = F.pad(rows, (0, -len(rows) % 128), value=len(labels) - 1)
        tokens, rows, wanted = loop.to_device(
            (tokens, rows, labels[rows]), torch.device(options.device)
        )
        with loop.precision(options):
            logits = model.head(model(tokens, head=False).feature.flatten(0, 1)[rows])
        return {"target": F.cross_entropy(logits.float(), wanted, ignore_index=IGNORE)}

    def trained() -> dict:
        return {"model": model.state_dict(), "config": dataclasses.asdict(config)}

    loop.fit(
        options,
        {"target": list(model.named_parameters())},
        compute,
        lambda rank: (
            batch
            for batch in Batches(draw, options.seed + 1000 * rank, options.tokens, options.longest)
            if bool((batch[1] != IGNORE).any())
        ),
        lambda: check(model),
        trained,
        clock,
    )


def main() -> None:
    options = parse()
    tokenizer, source = Tokenizer(options.tokenizer), Source(options.data)
    examples = source.held_out_set(40)
    print(source.describe())
    train(
        options,
        new_config(options, vocab_size=tokenizer.vocabulary),
        lambda rng: random_conversation(source, tokenizer, rng, options.longest),
        lambda model: held_out_line(model, tokenizer, examples, options.device),
        lambda model: share_spaced_pieces(model, tokenizer),
    )


if __name__ == "__main__":
    main()
