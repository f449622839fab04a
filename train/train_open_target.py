#!/usr/bin/env python3
"""Trains a target from scratch on conversations given as token ids, such as open text, and writes its Hugging Face
folder.

--conversations are files of answer_prompts.py: existing texts (--given) and answers of another model.  The loss counts
every token, including prompts.  One prompt in 40 of each task is held out for the checks, with all its answers.  The
tokenizer, its chat template and the ids that begin and end a text come from the folder --like; its weights are not
read.

It plans a run and continues from its checkpoint like train_target.py; see there.

Example:
    python3 train_open_target.py --conversations given.jsonl drawn.jsonl --like MiniMind2-Small --qwen2 --out target.pt --hf open-target \\
        --device cuda --bf16 --tokens 30720 --minutes 3
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from typing import Dict, List, Tuple

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import torch

import loop
from arguments import out_folder
from checkpoint import amend_config, load_target, write_llama
from data import Row
from distill_answers import answers_by_task, split_of_length
from model import Llama, LlamaConfig
from tasks import pick
from train_target import add_target_options, judged, new_config, train

CHECKED = 50  # held-out conversations per task in a check
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "chat_template.jinja",
    "generation_config.json",
)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--conversations",
        metavar="FILE",
        nargs="+",
        required=True,
        help="JSON lines: task, ids of prompt and answer",
    )
    add(
        "--like",
        metavar="FOLDER",
        required=True,
        help="Hugging Face folder with the tokenizer of the ids",
    )
    add(
        "--hf",
        type=out_folder,
        metavar="FOLDER",
        required=True,
        help="output: the target as a Hugging Face folder, in 16 bits",
    )
    add(
        "--qwen2",
        action="store_true",
        help="train a Qwen2 (biases on queries, keys and values) instead of a Llama",
    )
    add_target_options(
        parser,
        LlamaConfig(
            hidden_size=512,
            num_hidden_layers=12,
            num_attention_heads=8,
            num_key_value_heads=2,
            head_dim=64,
            intermediate_size=1536,
        ),
    )
    options = parser.parse_args()
    loop.check_options(options)
    return options


def read_conversations(
    paths: List[str], vocabulary: int, longest: int
) -> Tuple[List[Row], Dict[str, List[Row]]]:
    """(rows to train on, held-out rows by task) of all files together, including those without an answer."""
    answers: Dict[str, List[Row]] = {}
    for path in paths:
        for task, rows in answers_by_task(path, vocabulary).items():
            answers.setdefault(task, []).extend(rows)
    return split_of_length(answers, longest, shortest=0)


def held_out_line(model: Llama, held: Dict[str, List[Row]], device: str) -> str:
    """Loss / share of tokens that are the argmax, over the held-out answers of each task."""
    parts = []
    for task, rows in held.items():
        loss, wanted, right = judged(model, rows, device)
        parts.append(f"{task} {loss:.3f}/{100 * right[wanted].float().mean():.0f}%")
    return "  ".join(parts)


def main() -> None:
    options = parse()
    try:
        with open(os.path.join(options.like, "config.json"), encoding="utf-8") as file:
            like = json.load(file)
        ids = {name: like[name] for name in ("bos_token_id", "eos_token_id")}
        config = new_config(options, vocab_size=like["vocab_size"], attention_bias=options.qwen2)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: --like: {options.like}/config.json: {error!r}")
    training, held = read_conversations(options.conversations, config.vocab_size, options.longest)
    if not training or not held:
        sys.exit("error: --conversations has too few prompts")
    answered = {task: [row for row in rows if True in row.response] for task, rows in held.items()}
    checked = {task: rows[:CHECKED] for task, rows in answered.items() if rows}
    whole = [Row(row.ids, [True] * len(row.ids)) for row in training]
    print(
        f"{len(training)}+{sum(map(len, held.values()))} conversations (training+held out), {sum(len(row.ids) for row in training)} ids"
    )
    train(
        options,
        config,
        lambda rng: pick(rng, whole),
        lambda model: held_out_line(model, checked, options.device),
    )
    if parallel.rank() > 0:
        return
    write_llama(options.hf, load_target(options.out), dtype=torch.float16)
    amend_config(options.hf, **ids)
    for name in TOKENIZER_FILES:
        if os.path.exists(os.path.join(options.like, name)):
            shutil.copyfile(os.path.join(options.like, name), os.path.join(options.hf, name))
    print(f"wrote {options.hf}")


if __name__ == "__main__":
    main()
