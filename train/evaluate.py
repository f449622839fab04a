#!/usr/bin/env python3
"""Held-out scores of the target and acceptance of its drafters, as Markdown tables.

Exact match compares the graded part of a greedy answer (after "Answer:" if there is working).  E2E has BLEU-4 against
all references, lower-cased; stories have the share of repeated four-word sequences. tau is the mean number of tokens
per target pass for greedy chains of --chain tokens: the accepted ones plus the target's own.  The first token, from the
prompt's pass, does not count.

For the target of a Hugging Face folder, with --answers, only drafters' acceptance is measured. It uses the greedy
answers that distill_answers.py holds out or, with --every-answer, all in the file.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import math
import os
import re
import sys
from typing import Dict, List, Tuple

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import torch
from torch import nn

from arguments import count
from checkpoint import load_target
from data import Row, Source
from distill import load_drafters
from distill_answers import answers_by_task, of_length, read_answers
from generate import answer_all, written
from drafters import kind_of
from model import Llama
from tasks import Example, final_answer
from tokenizer import Tokenizer


def words(text: str) -> List[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def ngrams(items: List[str], n: int) -> collections.Counter:
    return collections.Counter(tuple(items[i : i + n]) for i in range(len(items) - n + 1))


def bleu(candidates: List[str], references: List[List[str]]) -> float:
    """Corpus BLEU-4 in percent (Papineni et al., 2002), closest reference length."""
    hits, totals, length, reference_length = [0] * 4, [0] * 4, 0, 0
    for candidate, group in zip(candidates, references):
        c, rs = words(candidate), [words(r) for r in group]
        length += len(c)
        reference_length += min((abs(len(r) - len(c)), len(r)) for r in rs)[1]
        for n in range(1, 5):
            counts, most = ngrams(c, n), collections.Counter()
            for r in rs:
                most |= ngrams(r, n)
            hits[n - 1] += sum((counts & most).values())
            totals[n - 1] += sum(counts.values())
    if min(hits) == 0:
        return 0.0
    brevity = min(0.0, 1 - reference_length / max(1, length))
    return 100 * math.exp(brevity + sum(math.log(h / t) for h, t in zip(hits, totals)) / 4)


def repetition(text: str) -> float:
    """Share of four-word sequences that occurred earlier in the same text."""
    counts = ngrams(words(text), 4)
    total = sum(counts.values())
    return 1 - len(counts) / total if total else 0.0


def score(task: str, items: List[Example], answers: Dict[str, str]) -> str:
    if task == "e2e":
        value = bleu(
            [answers[i.prompt] for i in items], [i.references or [i.answer] for i in items]
        )
        return f"BLEU-4 {value:.1f}"
    if task == "story":
        loops = [repetition(answers[i.prompt]) for i in items]
        return f"repeated 4-grams {100 * sum(loops) / len(loops):.1f} %, worst {100 * max(loops):.0f} %"
    right = sum(final_answer(answers[i.prompt]) == final_answer(i.answer) for i in items)
    return f"exact {100 * right / len(items):.1f} %"


def acceptance(name: str, drafter, target: Llama, prompt: List[int], answer: List[int], depth: int):
    """(tokens, target passes) for a greedy ``answer`` of the target, up to its end or its cut."""
    kind, sequence = kind_of(name), prompt + answer
    trace = target(torch.tensor([sequence]), head=False)
    position, tokens, passes = len(prompt), 0, 0  # sequence[position] is the root
    while position < len(sequence) - 1:
        guesses = kind.draft_chain(drafter, target, trace, sequence, position, depth)
        accepted = 0
        while (
            accepted < len(guesses)
            and position + 1 + accepted < len(sequence) - 1
            and guesses[accepted] == sequence[position + 1 + accepted]
        ):
            accepted += 1
        if (
            position + 1 + accepted == len(sequence) - 1
            and accepted < len(guesses)
            and guesses[accepted] == sequence[-1]
        ):
            accepted += 1  # the end itself was guessed; nothing follows it
            gained = accepted
        else:
            gained = accepted + 1
        position += gained
        tokens += gained
        passes += 1
    return tokens, passes


def is_greedy(target: Llama, row: Row) -> bool:
    """Whether each token of the answer is the target's argmax."""
    prompt, answer = row.parts()
    logits = target(torch.tensor([row.ids])).logits[0, len(prompt) - 1 : -1]
    return logits.argmax(-1).tolist() == answer


Counts = Dict[str, List[Tuple[int, int]]]  # per task, for each prompt (tokens, target passes)


def mean_tau(counts: Counts, chosen: Dict[str, List[int]]) -> float:
    """The unweighted mean over the tasks of tau over each task's chosen prompts."""
    taus = []
    for task, prompts in counts.items():
        tokens, passes = (sum(column) for column in zip(*(prompts[i] for i in chosen[task])))
        taus.append(tokens / max(1, passes))
    return sum(taus) / len(taus)


def interval(values: List[float]) -> str:
    ordered = sorted(values)
    low, high = ordered[int(0.025 * len(ordered))], ordered[int(0.975 * len(ordered))]
    return f"[{low:.2f}, {high:.2f}]"


def print_acceptance(
    drafters: Dict[str, nn.Module],
    target: Llama,
    answers: Dict[str, List[Tuple[List[int], List[int]]]],
    depth: int,
    against: str,
) -> None:
    """Table of tau by drafter and task; answers are pairs of a prompt's and an answer's ids.

    Intervals (95 %) come from resampling prompts within their tasks 2,000 times, the same samples for all drafters.
    """
    columns = ["mean"] + ([f"minus {against}"] if against else []) + ["pooled"]
    print(
        f"\ntau, chain of {depth}, greedy\n\n| drafter | {' | '.join([*answers, *columns])} |\n|{'---|' * (len(answers) + len(columns) + 1)}"
    )
    random = torch.Generator().manual_seed(1)
    draws = [
        {
            task: torch.randint(len(pairs), (len(pairs),), generator=random).tolist()
            for task, pairs in answers.items()
        }
        for _ in range(2000)
    ]
    everything = {task: list(range(len(pairs))) for task, pairs in answers.items()}
    base: List[float] = []
    base_mean = 0.0
    for name in sorted(drafters, key=lambda name: name != against):
        counts = {
            task: [
                acceptance(name, drafters[name], target, prompt, answer, depth)
                for prompt, answer in pairs
            ]
            for task, pairs in answers.items()
        }
        sums = [[sum(both) for both in zip(*prompts)] for prompts in counts.values()]
        taus = [tokens / max(1, passes) for tokens, passes in sums]
        drawn = [mean_tau(counts, draw) for draw in draws]
        cells = [f"{tau:.2f}" for tau in taus] + [
            f"{mean_tau(counts, everything):.2f} {interval(drawn)}"
        ]
        if name == against:
            base, base_mean = drawn, mean_tau(counts, everything)
            cells.append("")
        elif against:
            difference = mean_tau(counts, everything) - base_mean
            cells.append(
                f"{difference:+.2f} {interval([mine - theirs for mine, theirs in zip(drawn, base)])}"
            )
        cells.append(
            f"{sum(tokens for tokens, _ in sums) / max(1, sum(passes for _, passes in sums)):.2f}"
        )
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


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
    add(
        "--answers",
        metavar="FILE",
        help="JSON lines of answer_prompts.py, instead of --tokenizer and --data",
    )
    add(
        "--every-answer",
        action="store_true",
        help="treat all of --answers as held out (no drafter was trained on its prompts)",
    )
    add("--tokenizer", metavar="FILE", help="tokenizer.model of a target of train_target.py")
    add("--data", metavar="DIR", help="folder of the text data sets (listed in data.py)")
    add(
        "--drafters",
        metavar="FILE",
        nargs="+",
        default=[],
        help="checkpoints of distill.py or distill_answers.py, to measure acceptance too; among equal names the last one counts",
    )
    add("--count", type=count, default=100, help="held-out prompts per task (default 100)")
    add(
        "--acceptance-count",
        type=count,
        default=10,
        help="of these, prompts for the acceptance (default 10)",
    )
    add(
        "--against",
        metavar="NAME",
        default="",
        help="drafter to compare the others with, prompt by prompt",
    )
    add("--chain", type=count, default=4, help="drafted tokens per pass (default 4)")
    add(
        "--longest",
        type=int,
        default=600,
        help="maximum conversation of --answers in token ids (default 600)",
    )
    add("--limit", type=count, default=200, help="maximum answer in token ids (default 200)")
    add("--samples", metavar="FILE", help="write prompts and answers to FILE as JSON lines")
    add("--threads", type=count, default=2)
    options = parser.parse_args()
    if not options.answers and not options.tokenizer:
        parser.error(
            "--answers is missing" if os.path.isdir(options.target) else "--tokenizer is missing"
        )
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    target = load_target(options.target)
    drafters = {
        name: drafter
        for path in options.drafters
        for name, drafter in load_drafters(path, target).items()
    }
    if options.against and options.against not in drafters:
        parser.error(f"--against {options.against}: expected one of {', '.join(drafters)}")
    if options.answers:
        vocabulary = target.config.vocab_size
        if options.every_answer:
            held = {
                task: of_length(rows, options.longest)
                for task, rows in answers_by_task(options.answers, vocabulary).items()
            }
        else:
            held = read_answers(options.answers, vocabulary, options.longest)[1]
        if not any(held.values()):
            sys.exit(f"error: {options.answers} has no answers of at least two ids")
        greedy = {
            task: list(
                itertools.islice(
                    (row.parts() for row in rows if is_greedy(target, row)),
                    options.acceptance_count,
                )
            )
            for task, rows in held.items()
        }
        if not all(greedy.values()):
            sys.exit(
                f"error: {options.answers} has no greedy held-out answer of {', '.join(task for task in greedy if not greedy[task])}"
            )
        print_acceptance(drafters, target, greedy, options.chain, options.against)
        return
    tokenizer, source = Tokenizer(options.tokenizer), Source(options.data)
    examples = source.held_out_set(options.count)
    print("| task | prompts | score |\n|---|---|---|")
    samples = open(options.samples, "w", encoding="utf-8") if options.samples else None
    for task, items in examples.items():
        answers = answer_all(target, tokenizer, [item.prompt for item in items], options.limit)
        print(f"| {task} | {len(items)} | {score(task, items, answers)} |", flush=True)
        for item in items if samples else []:
            samples.write(
                json.dumps(
                    {
                        "task": task,
                        "prompt": item.prompt,
                        "answer": answers[item.prompt],
                        "reference": item.answer,
                    },
                    ensure_ascii=False,
                )
                + "\n"
            )
    if not drafters:
        return
    pairs: Dict[str, List[Tuple[List[int], List[int]]]] = {task: [] for task in examples}
    for task, items in examples.items():
        for item in items[: options.acceptance_count]:
            prompt = tokenizer.prompt(item.prompt)
            answer = written(target, [tokenizer.end], [prompt], options.limit)[0]
            if len(answer) > 1:
                pairs[task].append(
                    (prompt, answer + [tokenizer.end] * (len(answer) < options.limit))
                )
    print_acceptance(drafters, target, pairs, options.chain, options.against)


if __name__ == "__main__":
    main()
