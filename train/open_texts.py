#!/usr/bin/env python3
"""Open text as conversations for training a target and for measuring: JSON lines with task, prompt and, if there is
one, answer.

--data DIR is a folder with these public data sets:
    DIR/tinystories/*.txt                                      TinyStories (CDLA-Sharing 1.0)
    DIR/gutenberg/*.txt                                        books of Project Gutenberg (public domain)
    DIR/gsm8k/train.jsonl                                      GSM8K (MIT)
    DIR/dialogsum/dialogsum.dev.jsonl                          DialogSum (CC BY-NC-SA 4.0)
    DIR/self_instruct/{seed_tasks,user_oriented_instructions}.jsonl   Self-Instruct (Apache-2.0)
    DIR/wikisql/test.jsonl                                     WikiSQL (BSD-3)
and those of copy_prompts.py --split measure.

    story      a story about its keywords
    book       a passage of a book to continue; the answer is its continuation, which is also the next passage
    maths      GSM8K's questions with their worked answers
    question   WikiSQL's questions, without their tables and without answers
    summary    dialogues of DialogSum's dev set with their summaries
    instruct   Self-Instruct's tasks

--split train omits prompts of --split measure from the first four. From the last four it omits items that share ten
consecutive words with MT-bench, Spec-Bench, HumanEval or DialogSum's test set.  --split measure has the --per-task
prompts of the lowest MD5 of the first four, and as many first turns of MT-bench ("chat"), without answers.

DialogSum is not for commercial use: do not publish weights trained on this.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import sys
from typing import Dict, Iterator, List, Optional, Tuple

from arguments import out_file
from copy_prompts import LONGEST, apart_from_benchmarks, first_turns, read
from data import load_stories, story_prompt
from split import hashed_out

Item = Tuple[str, Optional[str]]  # prompt, answer
MEASURED = ("story", "book", "maths", "question")
HELD_OUT_ONE_IN = 40
PASSAGE = 60  # minimum words of a passage; it ends with a sentence


def stories(folder: str) -> List[Item]:
    """One story each; its prompt depends only on the story."""
    return [
        (story_prompt(keywords, random.Random(text)), text)
        for text, keywords in load_stories(folder)
    ]


def passages(folder: str) -> List[Item]:
    """Passages of every book in order, each with the next as its answer."""
    items: List[Item] = []
    path = os.path.join(folder, "gutenberg")
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".txt"))
    except FileNotFoundError as error:
        sys.exit(f"error: --data: {error}")
    for name in names:
        with open(os.path.join(path, name), encoding="utf-8", errors="ignore") as file:
            sentences = re.split(r"(?<=[.!?])\s+", " ".join(file.read().split()))
        found = list(in_passages(sentences))
        items += [
            (f"Continue this text:\n\n{first}", then) for first, then in zip(found, found[1:])
        ]
    return items


def in_passages(sentences: List[str]) -> Iterator[str]:
    """Runs of whole sentences of at least PASSAGE words; drops the remainder."""
    passage: List[str] = []
    for sentence in sentences:
        passage.append(sentence)
        if sum(len(part.split()) for part in passage) >= PASSAGE:
            yield " ".join(passage)
            passage = []


def problems(folder: str) -> List[Item]:
    """GSM8K, with the calculator marks removed from the answers."""
    return [
        (entry["question"], re.sub(r"<<[^>]*>>", "", entry["answer"]))
        for entry in read(folder, "gsm8k/train.jsonl")
    ]


def answers_written(folder: str) -> Dict[str, str]:
    """Answers of DialogSum's dev set and of Self-Instruct, by the prompts of copy_prompts.py."""
    found = {
        f"Summarize this dialogue: {entry['dialogue']}": entry["summary"]
        for entry in read(folder, "dialogsum/dialogsum.dev.jsonl")
    }
    for part in ("seed_tasks", "user_oriented_instructions"):
        for entry in read(folder, f"self_instruct/{part}.jsonl"):
            first = entry["instances"][0]
            found[
                entry["instruction"] + (f"\n\n{first['input']}" if first["input"] else "")
            ] = first["output"]
    return found


def conversations(folder: str) -> Dict[str, List[Item]]:
    apart, written = apart_from_benchmarks(folder), answers_written(folder)
    maths = set(apart["maths"])
    return {
        "story": stories(folder),
        "book": passages(folder),
        "maths": [item for item in problems(folder) if item[0] in maths],
        "question": [(prompt, None) for prompt in apart["question"]],
        "summary": [(prompt, written[prompt]) for prompt in apart["summary"]],
        "instruct": [(prompt, written[prompt]) for prompt in apart["instruct"]],
    }


def split(folder: str) -> Tuple[Dict[str, List[Item]], Dict[str, List[Item]]]:
    """(training items, held-out items) of each task.  If prompts differ only in case and spaces, the last is kept."""
    training: Dict[str, List[Item]] = {}
    held: Dict[str, List[Item]] = {}
    for task, items in conversations(folder).items():
        unique = {" ".join(prompt.split()).lower(): (prompt, answer) for prompt, answer in items}
        out = {key for key in unique if task in MEASURED and hashed_out(key, HELD_OUT_ONE_IN)}
        training[task] = [item for key, item in unique.items() if key not in out]
        held[task] = [
            unique[key] for key in sorted(out, key=lambda key: hashlib.md5(key.encode()).digest())
        ]
    return training, held


def measured(folder: str, per_task: int) -> Dict[str, List[Item]]:
    tasks = {
        task: [(prompt, None) for prompt, _ in items[:per_task]]
        for task, items in split(folder)[1].items()
        if task in MEASURED
    }
    tasks["chat"] = [
        (turn, None) for turn in first_turns(folder, "mt_bench") if len(turn) < LONGEST
    ][:per_task]
    return tasks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", metavar="DIR", required=True, help="folder of the data sets above")
    add(
        "--out",
        type=out_file,
        metavar="FILE",
        required=True,
        help="JSON lines: task, prompt, answer",
    )
    add("--split", choices=["train", "measure"], default="train", help="see above (default train)")
    add(
        "--per-task",
        type=int,
        default=30,
        help="with --split measure: maximum prompts per task (default 30)",
    )
    options = parser.parse_args()
    if options.split == "train":
        tasks = split(options.data)[0]
    else:
        tasks = measured(options.data, options.per_task)
    with open(options.out, "w", encoding="utf-8") as file:
        for task, items in tasks.items():
            for prompt, answer in items:
                entry = {
                    "task": task,
                    "prompt": prompt,
                    **({} if answer is None else {"answer": answer}),
                }
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            print(
                f"{task}: {len(items)} prompts, {sum(answer is not None for _, answer in items)} with answers"
            )


if __name__ == "__main__":
    main()
