#!/usr/bin/env python3
"""The target's own greedy answers to training prompts, as JSON lines for distill.py --own-answers.

A drafter has to guess the target's text, not the data set's; the two differ for descriptions and stories.  Prompts of
similar length are answered together.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any, Callable, Collection, Dict, List, Sequence, TypeVar

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import torch

from arguments import count, out_file
from checkpoint import load_target
from data import Source
from model import Cache, Llama, additive
from progress import Progress
from tokenizer import Tokenizer

Item = TypeVar("Item")


@torch.no_grad()
def written(
    model: Llama,
    ends: Collection[int],
    prompts: List[List[int]],
    limit: int,
    temperature: float = 0,
    keep_end: bool = False,
) -> List[List[int]]:
    """Answers of prompts [n][T_n], each up to one of the ids ``ends`` or of ``limit`` ids; the prompts share passes.

    The end is omitted unless requested.  At a temperature of 0 the likeliest id is taken, otherwise one is sampled.
    """
    device, longest, cache = model.head_weight.device, max(map(len, prompts)), Cache()
    # Shorter prompts are padded on the left, which is masked: RoPE depends only on distances.
    padding = torch.tensor([longest - len(prompt) for prompt in prompts], device=device)
    tokens = torch.tensor(
        [[0] * (longest - len(prompt)) + prompt for prompt in prompts], device=device
    )
    answers: List[List[int]] = [[] for _ in prompts]
    open_rows = list(range(len(prompts)))
    for _ in range(limit):
        slots = torch.arange(len(cache) + tokens.shape[1], device=device)
        own = slots[len(cache) :, None]
        visible = (slots <= own) & ((slots >= padding[:, None, None]) | (slots == own))
        trace = model(tokens, cache.past, additive(visible), head=False)
        cache.append(trace)
        logits = model.head(trace.feature[:, -1])
        said = (
            torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]
            if temperature
            else logits.argmax(-1)
        )
        ids = said.tolist()
        keep = [i for i, token in enumerate(ids) if token not in ends]
        for i in range(len(ids)) if keep_end else keep:
            answers[open_rows[i]].append(ids[i])
        if not keep:
            break
        if len(keep) < len(open_rows):
            open_rows = [open_rows[i] for i in keep]
            cache.select(keep)
            padding = padding[keep]
        tokens = said[keep][:, None]
    return answers


def alike(items: Sequence[Item], order: Callable[[Item], Any], count: int) -> List[List[Item]]:
    """Chunks of up to ``count`` consecutive items of ``order``; the chunks in a fixed random order."""
    items = sorted(items, key=order)
    chunks = [items[i : i + count] for i in range(0, len(items), count)]
    random.Random(1).shuffle(chunks)
    return chunks


def answer_all(
    model: Llama,
    tokenizer: Tokenizer,
    prompts: List[str],
    limit: int,
    batch: int = 48,
    until: float = float("inf"),
    tell=lambda done: None,
) -> Dict[str, str]:
    """Greedy answers by prompt; stops early at the time ``until``."""
    text = {tuple(tokenizer.prompt(prompt)): prompt for prompt in prompts}
    chunks = alike([list(ids) for ids in text], len, batch)
    answers = {}
    for chunk in chunks:
        if time.time() > until:
            break
        for ids, answer in zip(chunk, written(model, [tokenizer.end], chunk, limit)):
            answers[text[tuple(ids)]] = tokenizer.decode(answer)
        tell(len(answers))
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--target", metavar="FILE", required=True, help="checkpoint of train_target.py")
    add("--tokenizer", metavar="FILE", required=True)
    add(
        "--data",
        metavar="DIR",
        required=True,
        help="folder of the text data sets (listed in data.py)",
    )
    add(
        "--out",
        type=out_file,
        metavar="FILE",
        required=True,
        help="JSON lines: task, prompt, answer",
    )
    add("--task", choices=["e2e", "story"], required=True)
    add("--count", type=int, default=1500, help="number of prompts (default 1500)")
    add("--minutes", type=float, default=10, help="stop after this time (default 10)")
    add(
        "--limit",
        type=int,
        default=160,
        help="maximum answer in token ids; longer ones are skipped (default 160)",
    )
    add("--seed", type=int, default=1)
    add("--threads", type=count, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model, tokenizer, source = (
        load_target(options.target),
        Tokenizer(options.tokenizer),
        Source(options.data),
    )
    rng = random.Random(options.seed)
    wanted = {}
    for _ in range(5 * options.count):
        if len(wanted) < options.count:
            wanted[source.example(options.task, rng).prompt] = None
    prompts = list(wanted)
    bar = Progress(len(prompts))
    answers = answer_all(
        model,
        tokenizer,
        prompts,
        options.limit,
        until=time.time() + 60 * options.minutes,
        tell=bar.update,
    )
    kept = 0
    with open(options.out, "w", encoding="utf-8") as file:
        for prompt, answer in answers.items():
            if len(tokenizer.encode(answer)) < options.limit - 1:
                file.write(
                    json.dumps(
                        {"task": options.task, "prompt": prompt, "answer": answer},
                        ensure_ascii=False,
                    )
                    + "\n"
                )
                kept += 1
    bar.line(f"{options.out}: {kept} of {len(prompts)} prompts")


if __name__ == "__main__":
    main()
