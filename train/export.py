#!/usr/bin/env python3
"""Writes the trained models as Hugging Face folders, and the held-out prompts.

    OUT/target            LlamaForCausalLM
    OUT/NAME              a drafter, as its kind lays it out (drafters/)
    OUT/heldout.jsonl     one prompt per line: task, prompt, reference, and all references if there are several
Each folder has config.json, model.safetensors and the tokenizer with its chat template.

If the target is itself a Hugging Face folder, only the drafters are written, without the tokenizer, which edgedraft
convert --bundle takes from the target.
"""

from __future__ import annotations

import argparse
import json
import os

import torch

from checkpoint import amend_config, load_checkpoint, load_target, write_llama
from data import Source
from distill import load_drafters
from drafters import kind_of
from loop import Clock
from tokenizer import Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--target",
        metavar="FILE",
        required=True,
        help="checkpoint of train_target.py, or Hugging Face folder",
    )
    add("--drafters", metavar="FILE", help="checkpoint of distill.py or distill_answers.py")
    add("--tokenizer", metavar="FILE", help="tokenizer.model of a target of train_target.py")
    add("--out", metavar="DIR", required=True)
    add("--dtype", choices=["f32", "f16"], default="f32", help="type of the weights (default f32)")
    add(
        "--data",
        metavar="DIR",
        help="folder of the text data sets, for the held-out prompts of their tasks",
    )
    add("--per-task", type=int, default=20, help="held-out prompts per task (default 20)")
    options = parser.parse_args()
    dtype = {"f32": torch.float32, "f16": torch.float16}[options.dtype]
    own = not os.path.isdir(options.target)
    if own and not options.tokenizer:
        parser.error("--tokenizer is missing")
    tokenizer, target = Tokenizer(options.tokenizer) if own else None, load_target(options.target)
    if own:
        write_llama(os.path.join(options.out, "target"), target, tokenizer, dtype)
        print(f"{options.out}/target: {target.count_parameters()} parameters")
    if options.drafters:
        drafters = load_drafters(options.drafters, target)
        training = Clock.of(load_checkpoint(options.drafters, "drafters")).record(len(drafters))
        for name, drafter in drafters.items():
            folder = os.path.join(options.out, name)
            kind_of(name).write(folder, drafter, tokenizer, dtype)
            amend_config(folder, edgedraft_training=training)
            print(f"{folder}: {sum(p.numel() for p in drafter.parameters())} parameters")
    if not own:
        return
    path = os.path.join(options.out, "heldout.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for items in Source(options.data).held_out_set(options.per_task).values():
            for item in items:
                entry = {"task": item.task, "prompt": item.prompt, "reference": item.answer}
                if item.references:
                    entry["references"] = item.references
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    print(path)


if __name__ == "__main__":
    main()
