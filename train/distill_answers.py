#!/usr/bin/env python3
"""Trains drafters for the target of a Hugging Face folder, on answers that it wrote itself.

Uses distill.py's drafters, loss and checkpoint.  Conversations are token ids, so no tokenizer is needed.  One prompt in
40 of each task is held out for the checks, with all its answers.

Example:
    python3 distill_answers.py --target MiniMind2-Small --answers answers.jsonl --drafters independent --out drafters.pt --minutes 20
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import sys
from typing import Dict, List, Tuple

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import distill
from checkpoint import load_target
from data import Row, check_ids
from drafters import described
from tasks import pick

HELD_OUT_ONE_IN = 40
CHECKED = 250  # held-out answers per task in a check: more would take longer than the training between two checks


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="drafters:\n" + described(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--target", metavar="FOLDER", required=True, help="Hugging Face folder (Llama or Qwen2)")
    add("--answers", metavar="FILE", required=True, help="JSON lines of answer_prompts.py")
    add("--shortest", type=int, default=2, help="skip answers of fewer token ids (default 2)")
    distill.add_options(parser)
    options = parser.parse_args()
    distill.check_options(options)
    return options


def answers_by_task(path: str, vocabulary: int) -> Dict[str, List[Row]]:
    """The file's conversations; their ids must be below ``vocabulary``."""
    answers: Dict[str, List[Row]] = {}
    number = 0
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                entry = json.loads(line)
                prompt, answer = entry["prompt"], entry["answer"]
                check_ids(prompt + answer, vocabulary)
                answers.setdefault(entry["task"], []).append(
                    Row(prompt + answer, [False] * len(prompt) + [True] * len(answer))
                )
    except OSError as error:
        sys.exit(f"error: {error}")
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(
            f"error: {path}, line {number}: {error!r}; give a file written by answer_prompts.py"
        )
    return answers


def split_by_prompt(answers: Dict[str, List[Row]]) -> Tuple[List[Row], Dict[str, List[Row]]]:
    """(rows to train on, held-out rows by task).

    All answers to one prompt are on one side.  The prompts with the smallest hashes are held out, at least one of a
    task that has two, in any order of the rows.
    """
    training: List[Row] = []
    held: Dict[str, List[Row]] = {}
    for task, rows in answers.items():
        hashes = [hashlib.md5(json.dumps(row.prompt()).encode()).hexdigest() for row in rows]
        prompts = sorted(set(hashes))
        held_out = set(prompts[: min(len(prompts) - 1, math.ceil(len(prompts) / HELD_OUT_ONE_IN))])
        for row, prompt in zip(rows, hashes):
            (held.setdefault(task, []) if prompt in held_out else training).append(row)
    return training, held


def of_length(rows: List[Row], longest: int, shortest: int = 2) -> List[Row]:
    """Rows of at most ``longest`` ids whose answer has at least ``shortest``."""
    return [row for row in rows if len(row.ids) <= longest and sum(row.response) >= shortest]


def split_of_length(
    answers: Dict[str, List[Row]], longest: int, shortest: int = 2
) -> Tuple[List[Row], Dict[str, List[Row]]]:
    """split_by_prompt filtered by of_length, so that the held-out set does not depend on it."""
    training, held = split_by_prompt(answers)
    kept = {task: of_length(rows, longest, shortest) for task, rows in held.items()}
    return of_length(training, longest, shortest), {
        task: rows for task, rows in kept.items() if rows
    }


def left_out(answers: Dict[str, List[Row]], longest: int, shortest: int) -> str:
    """Error text about answers that of_length removed."""
    rows = list(itertools.chain(*answers.values()))
    counts = (
        ("--longest", len(rows) - len(of_length(rows, longest, 0))),
        ("--shortest", len(rows) - len(of_length(rows, sys.maxsize, shortest))),
    )
    told = [f"{option} skips {count}" for option, count in counts if count]
    return f"; of its {len(rows)} answers {' and '.join(told)}" if told else ""


def read_answers(
    path: str, vocabulary: int, longest: int, shortest: int = 2
) -> Tuple[List[Row], Dict[str, List[Row]]]:
    """split_of_length of answers_by_task."""
    answers = answers_by_task(path, vocabulary)
    training, held = split_of_length(answers, longest, shortest)
    for rows in (training, list(itertools.chain(*held.values()))):
        # a drafter guesses from an answer's second id on
        if not any(sum(row.response[1:]) > 1 for row in rows):
            sys.exit(
                f"error: {path} has too few prompts with answers of at least two ids"
                + left_out(answers, longest, shortest)
            )
    return training, held


def main() -> None:
    options = parse()
    target = load_target(options.target)
    training, held = read_answers(
        options.answers, target.config.vocab_size, options.longest, options.shortest
    )
    distill.distill(
        options,
        target,
        lambda rng: pick(rng, training),
        [rows[:CHECKED] for rows in held.values()],
        f"{len(training)}+{sum(map(len, held.values()))} answers (training+held out)",
    )


if __name__ == "__main__":
    main()
