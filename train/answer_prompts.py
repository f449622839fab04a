#!/usr/bin/env python3
"""Computes a target's answers to given prompts, as token ids: JSON lines for distill_answers.py.

edgedraft tokenize --chat computes a prompt's ids, so they equal the target's. edgedraft-server with the model answers;
with --max-sessions it answers several prompts at once.  With --target, PyTorch answers here instead, batching a task's
prompts of similar length; --seconds then stops early and keeps the answers so far.  A folder of unpack_gguf.py has the
demo's tokenizer; with --demo-tokenizer it makes the ids and needs no other program.

A server gets each prompt unmasked (--private off), so that its answer belongs to the recorded ids.  For the same reason
edgedraft's configuration file and variables are ignored, except those that sign in to the server: EDGEDRAFT_TOKEN_FILE,
EDGEDRAFT_TLS_CERT and EDGEDRAFT_TLS_KEY.

An answer is greedy, or sampled at --temperature; a server uses --seed for the first prompt, then --seed + 1.  The
answer includes the id that ends it.  Answers go to FILE.new, which replaces --out at the end; a failed run's FILE.new
is not overwritten.

With --given no model answers: the ids come from the answers in --prompts, as open_texts.py writes them, to train a
target on.  Prompts without one have an empty answer.  Prompts may also be ids in a file that this program wrote, which
needs no tokenizer.

Examples:
    edgedraft-server --model minimind2-small.gguf        # prints ADDRESS and PIN
    python3 answer_prompts.py --model minimind2-small.gguf --server ADDRESS --pin PIN --prompts train.jsonl --out answers.jsonl
    python3 answer_prompts.py --model minimind2-small.gguf --target MiniMind2-Small --prompts train.jsonl --out answers.jsonl
    python3 answer_prompts.py --model minimind2-small.gguf --given --end 2 --prompts texts.jsonl --out given.jsonl
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import os
import subprocess
import sys
import time
from typing import Dict, Iterator, List, Tuple, Union

from arguments import count, out_file
from progress import Progress


SIGNING_IN = ("EDGEDRAFT_TOKEN_FILE", "EDGEDRAFT_TLS_CERT", "EDGEDRAFT_TLS_KEY")


def without_settings() -> Dict[str, str]:
    """The environment without the user's edgedraft settings, except those that sign in to a server.

    Settings for conversations, such as a chat template or --top-p, would change answers or ids.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("EDGEDRAFT_") or name in SIGNING_IN
    }
    return {**kept, "XDG_CONFIG_HOME": os.devnull}  # contains no configuration file


def run(command: List[str], text: str) -> str:
    try:
        done = subprocess.run(
            command, input=text.encode(), stdout=subprocess.PIPE, env=without_settings()
        )
    except OSError as error:
        sys.exit(f"error: --edgedraft: {error}")
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} {command[1]} failed")  # it has printed the reason
    return done.stdout.decode()


def written_here(
    options: argparse.Namespace, tasks: List[str], prompts: List[List[int]]
) -> Iterator[Tuple[int, List[int]]]:
    """Yields (index of a prompt, answer) as they finish; prompts of one task share passes, since their answers have
    similar lengths."""
    import torch

    from checkpoint import load_target
    from data import check_ids
    from end_ids import end_ids
    from generate import alike, written

    if options.device == "cpu":
        torch.set_num_threads(options.jobs)
    torch.manual_seed(options.seed)
    target = load_target(options.target).to(options.device)
    for number, prompt in enumerate(prompts, 1):
        try:
            check_ids(prompt, target.config.vocab_size)
            if not prompt:
                raise ValueError("the prompt is empty")
        except ValueError as error:
            sys.exit(f"error: {options.prompts}, line {number}: {error}")
    ends = end_ids(options.target)
    chunks = alike(
        range(len(prompts)), lambda index: (tasks[index], len(prompts[index])), options.batch
    )
    for chunk in chunks:
        answers = written(
            target,
            ends,
            [prompts[index] for index in chunk],
            options.limit,
            options.temperature,
            keep_end=True,
        )
        yield from zip(chunk, answers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--model",
        metavar="FILE.gguf",
        help="the server's model file, for its tokenizer and chat template",
    )
    add("--server", metavar="HOST:PORT", help="address of the server")
    add("--pin", metavar="sha256:HEX", help="pin that the server printed")
    add("--target", metavar="FOLDER", help="Hugging Face folder of the model, instead of a server")
    add("--given", action="store_true", help="use the answers in --prompts")
    add(
        "--end",
        type=int,
        metavar="ID",
        help="with --given: id that ends an answer (eos_token_id of config.json)",
    )
    add(
        "--demo-tokenizer",
        action="store_true",
        help="--target has the demo's tokenizer and chat template, so --model is not needed",
    )
    add("--device", default="cpu", help="device of --target: cpu or cuda (default cpu)")
    add("--batch", type=count, default=48, help="with --target: prompts per batch (default 48)")
    add("--seconds", type=float, default=float("inf"), help="stop after this time")
    add(
        "--edgedraft",
        metavar="PROGRAM",
        default="edgedraft",
        help="the client (default: edgedraft in PATH)",
    )
    add("--prompts", metavar="FILE", required=True, help="JSON lines: task, prompt (text or ids)")
    add(
        "--out",
        type=out_file,
        metavar="FILE",
        required=True,
        help="JSON lines: task, ids of prompt and answer",
    )
    add("--limit", type=count, default=96, help="maximum answer in token ids (default 96)")
    add("--temperature", type=float, default=0.0, help="sampling temperature (default 0: greedy)")
    add("--seed", type=int, default=1, help="seed of sampled answers (default 1)")
    add(
        "--jobs",
        type=count,
        default=4,
        help="parallel prompts on a server, or threads of --target (default 4)",
    )
    options = parser.parse_args()
    if [options.target is None, options.server is None, not options.given].count(False) != 1 or (
        options.server is None
    ) != (options.pin is None):
        parser.error("give --server and --pin, or --target, or --given")
    if options.given != (options.end is not None):
        parser.error("give --given and --end together")
    if not options.temperature >= 0:  # also rejects nan
        parser.error("--temperature must be at least 0")
    if options.target and not os.path.isdir(options.target):
        parser.error(f"--target {options.target} is not a folder")
    if options.target:
        import parallel  # a server's answers need no PyTorch

        parallel.environment()  # restarts the program, so before reading --prompts, which may be a pipe
    try:
        with open(options.prompts, encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        tasks, texts = [entry["task"] for entry in entries], [entry["prompt"] for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(
            f"--prompts {options.prompts}: expected JSON lines with task and prompt: {error!r}"
        )
    if not entries:
        parser.error(f"--prompts {options.prompts} has no prompts")
    tokenized = all(isinstance(text, list) for text in texts)
    if os.path.exists(options.out) and os.path.samefile(options.prompts, options.out):
        parser.error("--out would replace --prompts")
    coming = options.out + ".new"
    if os.path.exists(coming) and os.path.getsize(coming) > 0:
        parser.error(f"{coming} holds the answers of an unfinished run: move or delete it")
    if options.server and any(isinstance(text, list) for text in texts):
        parser.error("--prompts: prompts given as ids need --target")
    if options.demo_tokenizer and (options.model or not options.target):
        parser.error("--demo-tokenizer needs --target, and no --model")
    if not options.model and not options.demo_tokenizer and not (options.target and tokenized):
        parser.error("give --model, or --demo-tokenizer with --target")
    if options.demo_tokenizer:
        from tokenizer import Tokenizer

        tokenizer = Tokenizer(os.path.join(options.target, "tokenizer.model"))

    def tokenize(text: str, *how: str) -> List[int]:
        return [
            int(number)
            for number in run(
                [options.edgedraft, "tokenize", "--model", options.model, "-f", "-", *how], text
            ).split()
        ]

    def ids_of(prompt: Union[str, List[int]]) -> List[int]:
        if isinstance(prompt, list):
            return prompt
        return tokenizer.prompt(prompt) if options.demo_tokenizer else tokenize(prompt, "--chat")

    def given(entry: dict) -> List[int]:
        return tokenize(entry["answer"]) + [options.end] if entry.get("answer") else []

    def answer(prompt: str, seed: int) -> List[int]:
        said = run(
            [
                options.edgedraft,
                "run",
                "--plain",
                "--json",
                "-f",
                "-",
                "--bundle",
                options.model,
                "--server",
                options.server,
                "--pin",
                options.pin,
                "--private",
                "off",
                "--max-tokens",
                str(options.limit),
                "--temperature",
                str(options.temperature),
                "--seed",
                str(seed),
            ],
            prompt,
        )
        return json.loads(said)["tokens"]

    bar, until = Progress(len(entries)), time.time() + options.seconds
    answers, written_ids = 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, open(
        coming, "w", encoding="utf-8"
    ) as file:
        try:
            prompts = list(pool.map(ids_of, texts))
            if options.target:
                found = written_here(options, tasks, prompts)
            else:
                found = enumerate(
                    pool.map(given, entries)
                    if options.given
                    else pool.map(answer, texts, itertools.count(options.seed))
                )
            for index, ids in found:
                file.write(
                    json.dumps({"task": tasks[index], "prompt": prompts[index], "answer": ids})
                    + "\n"
                )
                answers, written_ids = answers + 1, written_ids + len(ids)
                bar.update(answers)
                if time.time() > until:
                    break
            pool.shutdown(cancel_futures=True)
        except RuntimeError as error:
            pool.shutdown(cancel_futures=True)
            sys.exit(
                f"error: {error}"
                + (f"; {coming} holds the {answers} answers so far" if answers else "")
            )
    os.replace(coming, options.out)
    bar.line(f"{options.out}: {answers} answers, {written_ids} ids")


if __name__ == "__main__":
    main()
