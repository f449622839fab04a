"""Trees of MEDUSA chosen by measurement, and the means that are reported."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock

import torch

import calibrate
import distill
import evaluate
from checkpoint import write_llama
from data import Row
from distill_answers import split_by_prompt
from model import Llama, LlamaConfig


class CalibrationTest(unittest.TestCase):
    """The tree of a MEDUSA drafter whose heads are sometimes right."""

    def setUp(self):
        torch.manual_seed(9)
        self.target = (
            Llama(
                LlamaConfig(
                    vocab_size=12,
                    hidden_size=32,
                    num_hidden_layers=2,
                    num_attention_heads=4,
                    num_key_value_heads=2,
                    head_dim=8,
                    intermediate_size=40,
                )
            )
            .requires_grad_(False)
            .eval()
        )
        self.drafter = distill.make_drafter("medusa", self.target, 0.9).requires_grad_(False)
        for parameter in self.drafter.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        self.rows = []
        for _ in range(8):
            ids = torch.randint(0, 12, (1, 5))
            while ids.shape[1] < 40:
                ids = torch.cat((ids, self.target(ids).logits[:, -1:].argmax(-1)), 1)
            self.rows.append(Row(ids[0].tolist(), [False] * 5 + [True] * 35))
        self.answers = [calibrate.ranks(self.drafter, self.target, row) for row in self.rows]

    def test_short_answer_is_prefix_of_a_longer_one(self):
        row = self.rows[0]
        cut = Row(
            row.ids[:7], row.response[:7]
        )  # two ids of the answer: a root, and the first head's goal
        found = calibrate.ranks(self.drafter, self.target, cut)
        self.assertEqual(
            found, [(self.answers[0][0][0],) + (calibrate.GUESSES,) * (len(self.drafter) - 1)]
        )

    def test_finds_best_tree_of_its_size(self):
        acc = torch.rand(2, calibrate.GUESSES)
        nodes = [(i,) for i in range(10)] + [(i, j) for i in range(10) for j in range(10)]
        values = sorted(
            (float(acc[0, node[0]] * (acc[1, node[1]] if len(node) > 1 else 1)) for node in nodes),
            reverse=True,
        )
        for size in (1, 7, 40, 110):
            tree = calibrate.best_tree(acc, size)
            self.assertEqual(len(set(tree)), size)
            self.assertTrue(
                all(node[:-1] in tree[:i] for i, node in enumerate(tree) if len(node) > 1)
            )
            self.assertAlmostEqual(
                calibrate.product_tau(acc, tree), 1 + sum(values[:size]), places=4
            )

    def test_predicted_tau_equals_verified_tau(self):
        tree = calibrate.best_tree(calibrate.accuracies(self.answers), 25)
        tokens = passes = 0
        for row in self.rows:
            trace, root = self.target(torch.tensor([row.ids])), 5
            while root < len(row.ids) - 1:
                best = self.drafter.logits(self.target, trace.feature[0, root - 1]).topk(10).indices
                path, at = (), root
                while True:
                    said = int(
                        trace.logits[0, at].argmax()
                    )  # the target's own token after the accepted ones
                    down = [
                        node
                        for node in tree
                        if node[:-1] == path
                        and len(node) == len(path) + 1
                        and int(best[len(path), node[-1]]) == said
                    ]
                    if not down or at + 1 > len(row.ids) - 1:
                        break
                    path, at = down[0], at + 1
                root = at + 1
                passes += 1
            tokens += len(row.ids) - 6
        self.assertGreater(tokens / passes, 1.2)
        self.assertAlmostEqual(calibrate.walked_tau(tree, self.answers), tokens / passes, places=9)

    def test_walks_greedy_answers_by_task(self):
        """Up to the requested count per task, cut at the measurement's limit; without sampled answers and training
        data."""
        self.addCleanup(torch.set_grad_enabled, torch.is_grad_enabled())
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        target, drafter, path = (
            os.path.join(folder.name, name) for name in ("target", "medusa", "answers.jsonl")
        )
        write_llama(target, self.target)
        distill.kind_of("medusa").write(drafter, self.drafter)
        entries, greedy = [], {}
        for task, rows in (("chat", self.rows[:5]), ("code", self.rows[5:])):
            drawn = [
                Row(row.ids[:5] + [(token + 1) % 12 for token in row.ids[5:]], row.response)
                for row in rows
            ]
            entries += [
                {"task": task, "prompt": row.parts()[0], "answer": row.parts()[1]}
                for row in drawn + rows
            ]
            held = split_by_prompt({task: drawn + rows})[1][task]
            greedy[task] = [Row(row.ids[:25], row.response[:25]) for row in rows if row in held]
            entries += [
                {"task": "drawn", "prompt": row.parts()[0], "answer": row.parts()[1]}
                for row in drawn
            ]
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        said, arguments = io.StringIO(), [
            "--target",
            target,
            "--drafter",
            drafter,
            "--answers",
            path,
            "--walk",
            "3",
            "--limit",
            "20",
            "--threads",
            "1",
        ]
        with unittest.mock.patch.object(
            sys, "argv", ["calibrate.py", *arguments]
        ), contextlib.redirect_stdout(said):
            calibrate.main()
        with open(os.path.join(drafter, "config.json"), encoding="utf-8") as file:
            tree = [tuple(node) for node in json.load(file)["medusa_choices"]]
        taus = {
            task: calibrate.walked_tau(
                tree, [calibrate.ranks(self.drafter, self.target, row) for row in rows]
            )
            for task, rows in greedy.items()
        }
        self.assertEqual([len(rows) for rows in greedy.values()], [1, 1])
        self.assertIn(
            f"chat: tau {taus['chat']:.3f} over 1 greedy answers\ndrawn: no greedy held-out answers\n"
            f"code: tau {taus['code']:.3f} over 1 greedy answers\nmean of the tasks: tau {sum(taus.values()) / 2:.3f}\n",
            said.getvalue(),
        )

    def test_chain_of_best_guesses_is_a_valid_tree(self):
        tokens, passes = 0, 0
        for row in self.rows:
            gained, asked = evaluate.acceptance(
                "medusa", self.drafter, self.target, *row.parts(), 4
            )
            tokens, passes = tokens + gained, passes + asked
        self.assertAlmostEqual(
            calibrate.walked_tau([(0,) * depth for depth in range(1, 5)], self.answers),
            tokens / passes,
            places=9,
        )


class EvaluateTest(unittest.TestCase):
    def test_mean_is_over_tasks_and_drawn_prompts(self):
        counts = {"a": [(4, 2), (2, 2)], "b": [(3, 1)]}
        self.assertEqual(evaluate.mean_tau(counts, {"a": [0, 1], "b": [0]}), (6 / 4 + 3) / 2)
        self.assertEqual(evaluate.mean_tau(counts, {"a": [0, 0], "b": [0]}), (2 + 3) / 2)

    def test_interval_excludes_a_fortieth_at_each_end(self):
        self.assertEqual(evaluate.interval([float(i) for i in range(1000)]), "[25.00, 975.00]")


if __name__ == "__main__":
    unittest.main()
