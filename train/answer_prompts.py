#!/usr/bin/env python3
"""Greedy answers of a server's target to given prompts, as token ids: JSON lines for distill_answers.py.

The server is edgedraft-server with the model; with --max-sessions it answers several prompts at a time.  The ids of a
prompt come from edgedraft tokenize --chat, so they are those that the target gets.

Example:
    edgedraft-server --model minimind2-small.gguf        # says ADDRESS and PIN
    python3 answer_prompts.py --model minimind2-small.gguf --server ADDRESS --pin PIN --prompts train.jsonl --out answers.jsonl
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import subprocess
import sys
from typing import List, Tuple

from progress import Progress


def run(command: List[str], text: str) -> str:
    try:
        done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE)
    except OSError as error:
        sys.exit(f"error: --edgedraft: {error}")
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} {command[1]} failed")  # it has said why
    return done.stdout.decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", metavar="FILE.gguf", required=True, help="the server's model, for its tokenizer and chat template")
    add("--server", metavar="HOST:PORT", required=True, help="where it listens")
    add("--pin", metavar="sha256:HEX", required=True, help="its pin, as it said")
    add("--edgedraft", metavar="PROGRAM", default="edgedraft", help="default: edgedraft of the PATH")
    add("--prompts", metavar="FILE", required=True, help="JSON lines: task, prompt")
    add("--out", metavar="FILE", required=True, help="JSON lines: task, ids of the prompt and of the answer")
    add("--limit", type=int, default=96, help="longest answer in token ids (default 96)")
    add("--jobs", type=int, default=4, help="prompts answered at a time (default 4)")
    options = parser.parse_args()

    def answer(prompt: str) -> Tuple[List[int], List[int]]:
        ids = run([options.edgedraft, "tokenize", "--model", options.model, "--chat", "-f", "-"], prompt)
        said = run([options.edgedraft, "run", "--plain", "--json", "-f", "-", "--bundle", options.model, "--server", options.server,
                    "--pin", options.pin, "--max-tokens", str(options.limit)], prompt)
        return [int(number) for number in ids.split()], json.loads(said)["tokens"]

    with open(options.prompts, encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    bar = Progress(len(entries))
    count = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, open(options.out, "w", encoding="utf-8") as file:
        try:
            for done, (entry, (prompt, ids)) in enumerate(zip(entries, pool.map(answer, (entry["prompt"] for entry in entries)))):
                file.write(json.dumps({"task": entry["task"], "prompt": prompt, "answer": ids}) + "\n")
                count += len(ids)
                bar.update(done + 1)
        except RuntimeError as error:
            pool.shutdown(cancel_futures=True)
            sys.exit(f"error: {error}")
    bar.line(f"{options.out}: {len(entries)} answers, {count} ids")


if __name__ == "__main__":
    main()
