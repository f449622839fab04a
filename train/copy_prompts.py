#!/usr/bin/env python3
"""Prompts for measuring or training drafters, as JSON lines: task, prompt.  Prompts depend only on the data sets.

--data DIR is a folder with these public data sets:
    DIR/dialogsum/dialogsum.{dev,test}.jsonl                   DialogSum (CC BY-NC-SA 4.0)
    DIR/humaneval/HumanEval.jsonl.gz                           HumanEval (MIT)
    DIR/mt_bench/question.jsonl                                MT-bench (Apache-2.0)
    DIR/spec_bench/question.jsonl                              Spec-Bench (Apache-2.0)
    DIR/self_instruct/{seed_tasks,user_oriented_instructions}.jsonl   Self-Instruct (Apache-2.0)
    DIR/gsm8k/train.jsonl                                      GSM8K (MIT)
    DIR/wikisql/test.jsonl                                     WikiSQL (BSD-3), for --split open alone

--split measure has three tasks whose answers repeat much of the prompt; --split train has other items of them:
    summary    dialogues of DialogSum's test set under 900 characters (train: of its dev set)
    code       the same function under another name: HumanEval's under 700 characters, one in four of them (train: the rest)
    chat       first turns of MT-bench (train: Spec-Bench's other questions under 900 characters)
and only for --split train
    instruct   Self-Instruct's tasks
    maths      GSM8K's questions
--split open has prompts to train drafters that are measured with MT-bench, Spec-Bench, HumanEval or DialogSum's test
set:
    summary    dialogues of DialogSum's dev set
    instruct, maths    as above
    question   WikiSQL's questions, without their tables
No prompt of it shares ten consecutive words with one of those.

Each task has the --per-task prompts with the lowest MD5, in that order.

DialogSum is not for commercial use and the benchmarks are for measuring: do not publish weights trained on these prompts.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import sys
from typing import Dict, Iterator, List, Set, Tuple

from arguments import out_file
from split import hashed_out

LONGEST = 900  # characters per dialogue or question
SHORT_FUNCTION = 700
NAMES = ("my_{}", "new_{}", "{}_copy")  # measured prompts use the first


def read(folder: str, name: str) -> Iterator[dict]:
    path = os.path.join(folder, name)
    try:
        with (gzip.open if name.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except FileNotFoundError as error:
        sys.exit(f"error: --data: {error}")


def summaries(folder: str, part: str) -> List[str]:
    dialogues = (entry["dialogue"] for entry in read(folder, f"dialogsum/dialogsum.{part}.jsonl"))
    return [
        f"Summarize this dialogue: {dialogue}" for dialogue in dialogues if len(dialogue) < LONGEST
    ]


def functions(folder: str, measure: bool) -> List[str]:
    prompts = []
    for entry in read(folder, "humaneval/HumanEval.jsonl.gz"):
        code = entry["prompt"].strip() + "\n" + entry["canonical_solution"].rstrip()
        measured = len(code) < SHORT_FUNCTION and hashed_out(entry["task_id"], 4)
        if measured == measure:
            for name in NAMES[:1] if measure else NAMES:
                prompts.append(
                    f"Print this function again, but name it {name.format(entry['entry_point'])}:\n\n{code}"
                )
    return prompts


def first_turns(folder: str, name: str) -> List[str]:
    return [entry["turns"][0] for entry in read(folder, f"{name}/question.jsonl")]


def instructions(folder: str) -> List[str]:
    prompts = []
    for part in ("seed_tasks", "user_oriented_instructions"):
        for entry in read(folder, f"self_instruct/{part}.jsonl"):
            given = entry["instances"][0]["input"]
            prompts.append(entry["instruction"] + (f"\n\n{given}" if given else ""))
    return prompts


def measured(folder: str) -> Dict[str, List[str]]:
    return {
        "summary": summaries(folder, "test"),
        "code": functions(folder, True),
        "chat": first_turns(folder, "mt_bench"),
    }


def to_train_on(folder: str) -> Dict[str, List[str]]:
    found = {
        "summary": summaries(folder, "dev"),
        "code": functions(folder, False),
        "chat": first_turns(folder, "spec_bench"),
        "instruct": instructions(folder),
        "maths": [entry["question"] for entry in read(folder, "gsm8k/train.jsonl")],
    }
    # Spec-Bench includes MT-bench, and any two data sets may share items.
    kept_apart = {prompt for prompts in measured(folder).values() for prompt in prompts}
    return {
        task: [
            prompt
            for prompt in prompts
            if prompt not in kept_apart and (task in ("summary", "code") or len(prompt) < LONGEST)
        ]
        for task, prompts in found.items()
    }


def runs_of_ten(text: str) -> Set[Tuple[str, ...]]:
    """All runs of ten words, ignoring case and punctuation; of a shorter text all its words."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + 10]) for i in range(max(1, len(words) - 9))}


def apart_from_benchmarks(folder: str) -> Dict[str, List[str]]:
    benchmarks = summaries(folder, "test") + [
        entry["prompt"] for entry in read(folder, "humaneval/HumanEval.jsonl.gz")
    ]
    for name in ("mt_bench", "spec_bench"):
        benchmarks += [
            turn for entry in read(folder, f"{name}/question.jsonl") for turn in entry["turns"]
        ]
    known = {run for prompt in benchmarks for run in runs_of_ten(prompt)}
    found = {
        "summary": summaries(folder, "dev"),
        "instruct": instructions(folder),
        "maths": [entry["question"] for entry in read(folder, "gsm8k/train.jsonl")],
        "question": [entry["question"].strip() for entry in read(folder, "wikisql/test.jsonl")],
    }
    return {
        task: [
            prompt
            for prompt in prompts
            if len(prompt) < LONGEST + 100 and not known & runs_of_ten(prompt)
        ]
        for task, prompts in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", metavar="DIR", required=True, help="folder of the data sets above")
    add("--out", type=out_file, metavar="FILE", required=True, help="JSON lines: task, prompt")
    add(
        "--split",
        choices=["measure", "train", "open"],
        default="measure",
        help="see above (default measure)",
    )
    add("--per-task", type=int, default=12, help="maximum prompts per task (default 12)")
    options = parser.parse_args()
    tasks = {"measure": measured, "train": to_train_on, "open": apart_from_benchmarks}[
        options.split
    ](options.data)
    with open(options.out, "w", encoding="utf-8") as file:
        for task, prompts in tasks.items():
            chosen = sorted(set(prompts), key=lambda prompt: hashlib.md5(prompt.encode()).digest())[
                : options.per_task
            ]
            for prompt in chosen:
                file.write(json.dumps({"task": task, "prompt": prompt}, ensure_ascii=False) + "\n")
            print(f"{task}: {len(chosen)} of {len(prompts)} prompts")


if __name__ == "__main__":
    main()
