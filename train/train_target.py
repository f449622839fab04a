#!/usr/bin/env python3
"""Trains the target: a Llama model of a few million parameters on the mixture of data.py.

The run is planned by the clock, or by --steps: the learning rate warms up, stays constant and falls to zero over
the last part of it (--decay), whatever the speed of the machine.  The loss counts answers only, and the LM head is
applied only to the rows that predict an answer token.  Stop it at any time and start it again with the same
command: it continues from the last checkpoint, and the time already trained counts.

Example, two CPU cores, an hour:
    python3 train_target.py --data text --tokenizer out/tokenizer.model --out out/target.pt --minutes 60 --workers 2
"""

from __future__ import annotations

import argparse
import dataclasses
import os

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import torch
import torch.nn.functional as F

import loop
from data import Batches, IGNORE, Source, collate, encode_conversation, random_conversation
from model import Llama, LlamaConfig, config_from_dict
from tokenizer import Tokenizer


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    loop.add_data_options(parser)
    loop.add_options(parser, minutes=60, muon_lr=0.006, adam_lr=1e-3, decay=0.35, residual_lr=1 / 16, embedding=True)
    add = parser.add_argument
    add("--hidden", type=int, default=256, help="E, residual width (default 256)")
    add("--layers", type=int, default=6, help="L (default 6)")
    add("--heads", type=int, default=4, help="query heads (default 4)")
    add("--kv-heads", type=int, default=2, help="key/value heads (default 2)")
    add("--head-dim", type=int, default=64, help="D (default 64)")
    add("--ffn", type=int, default=512, help="F, SwiGLU width (default 512)")
    options = parser.parse_args()
    loop.check_options(options)
    return options


def share_spaced_pieces(model: Llama, tokenizer: Tokenizer) -> None:
    """Gives a word the embedding that it has with a leading space.

    Copying a word of the prompt into quotes is then the same as copying it as it is; otherwise each word would have to
    be learned by itself.
    """
    ids = {tokenizer.processor.id_to_piece(i): i for i in range(tokenizer.vocabulary)}
    embedding = model.model.embed_tokens.weight.data
    for piece, spaced in ids.items():
        word = piece[1:]
        if piece.startswith("\u2581") and word.isalpha() and len(word) >= (3 if word[0].isupper() else 4) and word in ids:
            embedding[ids[word]] = embedding[spaced]


def held_out_line(model: Llama, tokenizer: Tokenizer, examples, device: str) -> str:
    """Loss / share of answers whose every token is the argmax given the reference before it, one entry a task.

    The second number is exactly the greedy exact match.
    """
    parts = []
    with torch.no_grad():
        for task, items in examples.items():
            tokens, labels = collate([encode_conversation(tokenizer, [item]) for item in items])
            tokens, labels = tokens.to(device), labels.to(device)
            wanted = labels != IGNORE
            logits = model.head(model(tokens, head=False).feature[wanted])
            loss = F.cross_entropy(logits.float(), labels[wanted])
            right = torch.ones_like(wanted)
            right[wanted] = logits.argmax(-1) == labels[wanted]
            parts.append(f"{task} {loss:.3f}/{100 * right.all(1).float().mean():.0f}%")
    return "  ".join(parts)


def main() -> None:
    options = parse()
    tokenizer, source = Tokenizer(options.tokenizer), Source(options.data)
    torch.manual_seed(options.seed)
    config = LlamaConfig(vocab_size=tokenizer.vocabulary, hidden_size=options.hidden, num_hidden_layers=options.layers,
                         num_attention_heads=options.heads, num_key_value_heads=options.kv_heads,
                         head_dim=options.head_dim, intermediate_size=options.ffn)
    saved = torch.load(options.out, map_location="cpu") if os.path.exists(options.out) else None
    if saved:
        config = config_from_dict(saved["config"])
    model, clock = Llama(config), loop.Clock()
    if not saved:
        share_spaced_pieces(model, tokenizer)
    else:
        model.load_state_dict(saved["model"])
        clock = loop.Clock.of(saved)
    model.to(options.device)
    examples = source.held_out_set(40)
    print(source.describe())
    length = f"{options.steps} steps from {clock.step}" if options.steps else f"{options.minutes:g} minutes from {clock.elapsed / 60:.1f}"
    print(f"{model.count_parameters() / 1e6:.2f} M parameters; {length}", flush=True)

    def compute(batch, rank):
        tokens, labels = batch
        labels = labels.flatten()
        rows = (labels != IGNORE).nonzero().squeeze(1)
        rows = F.pad(rows, (0, -len(rows) % 128))  # few shapes; row 0 is <s>, which has no label
        tokens, rows, wanted = loop.to_device((tokens, rows, labels[rows]), torch.device(options.device))
        with loop.precision(options):
            logits = model.head(model(tokens, head=False).feature.flatten(0, 1)[rows])
        return {"target": F.cross_entropy(logits.float(), wanted, ignore_index=IGNORE)}

    def save(clock: loop.Clock) -> None:
        torch.save({"model": model.state_dict(), "config": dataclasses.asdict(config), "step": clock.step,
                    "elapsed": clock.elapsed, "tokens": clock.tokens, "seed": options.seed}, options.out + ".new")
        os.replace(options.out + ".new", options.out)

    loop.fit(options, {"target": list(model.named_parameters())}, compute,
             lambda rank: (batch for batch in Batches(lambda rng: random_conversation(source, tokenizer, rng, options.longest),
                                                      options.seed + 1000 * rank, options.tokens, options.longest)
                           if bool((batch[1] != IGNORE).any())),
             lambda: held_out_line(model, tokenizer, examples, options.device), save, clock)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
