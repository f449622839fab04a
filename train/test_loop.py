"""The training loop: continued runs, checkpoints and output."""

import argparse
import contextlib
import io
import itertools
import os
import tempfile
import unittest
import unittest.mock

import torch

import loop


class LoopTest(unittest.TestCase):
    def test_continued_run_sees_the_remaining_batches(self):
        weight = torch.nn.Parameter(torch.ones(4, 4))
        seen = []

        def compute(batch, rank):
            seen.append(int(batch[0][0]))
            return {"one": weight.sum()}

        with tempfile.TemporaryDirectory() as folder:
            parser = argparse.ArgumentParser()
            loop.add_options(parser, 1, 0.01, 0.01, 0.5)
            for steps in (3, 7):
                options = parser.parse_args(
                    [
                        "--out",
                        os.path.join(folder, "run.pt"),
                        "--steps",
                        str(steps),
                        "--threads",
                        "1",
                    ]
                )
                clock = loop.Clock(len(seen))
                with contextlib.redirect_stdout(io.StringIO()):
                    loop.fit(
                        options,
                        {"one": [("weight", weight)]},
                        compute,
                        lambda rank: ((torch.tensor([i]), None) for i in itertools.count()),
                        lambda: "",
                        dict,
                        clock,
                    )
                self.assertEqual(clock.step, steps)
        self.assertEqual(seen, list(range(7)))

    def test_continued_run_equals_uninterrupted_run(self):
        """Weights, the optimiser's averages and token counts continue; a finished run stays unchanged."""
        found = []
        with tempfile.TemporaryDirectory() as folder:
            parser = argparse.ArgumentParser()
            loop.add_options(parser, 1, 0.01, 0.01, 0.5)
            for parts in ((6,), (2, 4, 6, 6)):
                torch.manual_seed(1)
                weight, bias, clock = (
                    torch.nn.Parameter(torch.randn(4, 4)),
                    torch.nn.Parameter(torch.randn(4)),
                    loop.Clock(),
                )
                out = os.path.join(folder, f"{len(parts)}.pt")
                for stop in parts:
                    options = parser.parse_args(
                        ["--out", out, "--steps", "6", "--threads", "1", "--save-every", "0"]
                    )
                    batches = ((torch.full((1, 4), float(i)), None) for i in range(stop))
                    # as if stopped there
                    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(
                        StopIteration
                    ):
                        loop.fit(
                            options,
                            {"one": [("weight", weight), ("bias", bias)]},
                            lambda batch, rank: {
                                "one": (batch[0] @ weight + bias).tanh().pow(2).sum()
                            },
                            lambda rank: batches,
                            lambda: "",
                            dict,
                            clock,
                        )
                found.append((weight.tolist(), bias.tolist(), clock.step, clock.tokens))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0][2:], (6, 24))

    def fit(self, weight, clock, *arguments, check=lambda: "", compute=None):
        """Trains one matrix on numbered batches; returns the log lines."""
        parser = argparse.ArgumentParser()
        loop.add_options(parser, 1, 0.01, 0.01, 0.5)
        options, said = parser.parse_args(["--threads", "1", *arguments]), io.StringIO()
        with contextlib.redirect_stdout(said):
            loop.fit(
                options,
                {"one": [("weight", weight)]},
                compute or (lambda batch, rank: {"one": (batch[0] @ weight).tanh().pow(2).sum()}),
                lambda rank: ((torch.full((1, 4), float(i)), None) for i in itertools.count()),
                check,
                lambda: {"weight": weight.detach()},
                clock,
            )
        return said.getvalue().splitlines()

    def test_rejects_averages_of_another_step(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "run.pt")
            weight = torch.nn.Parameter(torch.ones(4, 4))
            self.assertEqual(
                self.fit(weight, loop.Clock(), "--out", out, "--steps", "3")[-1], f"wrote {out}"
            )
            saved = torch.load(out)
            self.assertEqual((saved["step"], saved["seed"]), (3, 1))
            saved["step"] = 2  # as if killed after replacing one of the two files
            with self.assertRaises(SystemExit) as caught:
                self.fit(weight, loop.Clock.of(saved), "--out", out, "--steps", "6")
            for part in ("step 3", "step 2", f"remove {out}.optimiser0"):
                self.assertIn(part, str(caught.exception))
            with open(out + ".optimiser0", "rb") as file:
                whole = file.read()
            for damaged in (b"", whole[:100]):
                with open(out + ".optimiser0", "wb") as file:
                    file.write(damaged)
                with self.assertRaises(SystemExit) as caught:
                    self.fit(weight, loop.Clock.of(saved), "--out", out, "--steps", "6")
                self.assertIn(f"remove {out}.optimiser0", str(caught.exception))
            with open(out + ".optimiser0", "wb") as file:
                file.write(whole)
            torch.save(
                torch.load(out + ".optimiser0")["parts"], out + ".optimiser0"
            )  # the format of older versions
            self.fit(weight, loop.Clock.of(saved), "--out", out, "--steps", "6")
            self.assertEqual(torch.load(out)["step"], 6)
            finished = self.fit(
                weight, loop.Clock.of(torch.load(out)), "--out", out, "--steps", "6"
            )
            self.assertEqual(finished, [f"{out} already has its 6 steps"])

    def test_failed_write_keeps_both_files(self):
        with tempfile.TemporaryDirectory() as folder:
            out, weight = os.path.join(folder, "run.pt"), torch.nn.Parameter(torch.ones(4, 4))
            self.fit(weight, loop.Clock(), "--out", out, "--steps", "3")
            save = torch.save

            def full_disk(what, path):
                if path == out + ".new":
                    raise OSError("no space left on device")
                save(what, path)

            with unittest.mock.patch("torch.save", full_disk), self.assertRaises(OSError):
                self.fit(weight, loop.Clock.of(torch.load(out)), "--out", out, "--steps", "6")
            self.assertEqual(
                (torch.load(out)["step"], torch.load(out + ".optimiser0")["step"]), (3, 3)
            )

    def test_rejects_another_seed_for_continued_run(self):
        options = argparse.Namespace(out="run.pt", seed=2)
        saved = {"step": 3, "elapsed": 1.0, "tokens": 12}
        self.assertEqual(loop.Clock.continued({**saved, "seed": 2}, options).step, 3)
        self.assertEqual(loop.Clock.continued(saved, options).step, 3)
        with self.assertRaises(SystemExit) as caught:
            loop.Clock.continued({**saved, "seed": 1}, options)
        self.assertIn("--seed 1", str(caught.exception))

    def test_speed_excludes_held_out_checks(self):
        """Steps of 4 ids take 2 seconds each, checks 100."""
        now = [0.0]
        weight = torch.nn.Parameter(torch.ones(4, 4))

        def compute(batch, rank):
            now[0] += 2
            return {"one": weight.sum()}

        def check():
            now[0] += 100
            return "checked"

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(
            loop.time, "time", lambda: now[0]
        ):
            lines = self.fit(
                weight,
                loop.Clock(),
                "--out",
                os.path.join(folder, "run.pt"),
                "--steps",
                "9",
                "--log-every",
                "5",
                "--evaluate-every",
                "7",
                check=check,
                compute=compute,
            )
        self.assertEqual(
            [line.split("  ")[-1].strip() for line in lines if "tok/s" in line], ["2 tok/s"] * 3
        )
        self.assertGreater(lines.count("held out  checked"), 1)


if __name__ == "__main__":
    unittest.main()
