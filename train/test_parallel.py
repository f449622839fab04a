"""Training in several processes."""

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import torch

import distill_answers
import parallel
from checkpoint import write_llama
from model import Llama, LlamaConfig


def average_with_another(rank, found):
    """A process of LaunchedGroupTest: puts its state after averaging with the other one into ``found``."""
    os.environ.update(
        {
            "TORCHELASTIC_RUN_ID": "test",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
        }
    )
    device, world = parallel.join("cpu")
    parameters = [torch.full((2,), 10.0 + rank), torch.full((3,), 20.0 + rank)]
    group = parallel.LaunchedGroup(parameters, 2)
    parameters[0].grad = torch.full((2,), 1.0 + 2 * rank)
    if rank == 1:
        parameters[1].grad = torch.full((3,), 4.0)
    group.numbers[rank, 0] = 100 + rank
    norms = group.average_gradients(
        rank, group.owned(rank), [0, 1], [torch.tensor(0.5 + rank), torch.tensor(7.0)]
    )
    found.put(
        (
            rank,
            device,
            world,
            [p.tolist() for p in parameters],
            [p.grad.tolist() for p in parameters],
            norms,
            group.numbers[:, [0, 4, 5]].tolist(),
        )
    )
    group.wait()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class LaunchedGroupTest(unittest.TestCase):
    def test_averages_gradients_of_two_processes(self):
        context = torch.multiprocessing.get_context("fork")
        found = context.Queue()
        with unittest.mock.patch.dict(
            os.environ, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ):
            processes = [
                context.Process(target=average_with_another, args=(rank, found), daemon=True)
                for rank in (0, 1)
            ]
            for process in processes:
                process.start()
        results = sorted(found.get(timeout=60) for _ in processes)
        for process in processes:
            process.join(60)
        for rank, result in enumerate(results):
            self.assertEqual(
                result[:5], (rank, "cpu", 2, [[10.0] * 2, [20.0] * 3], [[2.0] * 2, [2.0] * 3])
            )
            self.assertAlmostEqual(result[5][0], 8**0.5, places=6)
            self.assertAlmostEqual(result[5][1], 12**0.5, places=6)
            self.assertEqual(result[6], [[100, 0.5, 7], [101, 1.5, 7]])

    def test_torchrun_processes_train_like_workers(self):
        """Two processes, also continued, and the workers of one program: each has its batches, and gradients are
        averaged."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        target, path, launched, forked = (
            os.path.join(folder.name, name)
            for name in ("target", "answers.jsonl", "launched.pt", "forked.pt")
        )
        torch.manual_seed(5)
        write_llama(
            target,
            Llama(
                LlamaConfig(
                    vocab_size=60,
                    hidden_size=32,
                    num_hidden_layers=2,
                    num_attention_heads=4,
                    num_key_value_heads=2,
                    head_dim=8,
                    intermediate_size=40,
                )
            ),
        )
        with open(path, "w", encoding="utf-8") as file:
            for _ in range(80):
                row = torch.randint(0, 60, (12,)).tolist()
                file.write(
                    json.dumps({"task": "chat", "prompt": row[:4], "answer": row[4:]}) + "\n"
                )
        base = [
            sys.executable,
            distill_answers.__file__,
            "--target",
            target,
            "--answers",
            path,
            "--tokens",
            "96",
            "--longest",
            "16",
            "--share",
            "0.6",
            "--warmup",
            "2",
            "--threads",
            "1",
            "--drafters",
            "eagle",
        ]
        for steps in ("2", "4"):
            environment = {
                **os.environ,
                "TORCHELASTIC_RUN_ID": "test",
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free_port()),
            }
            started = [
                subprocess.Popen(
                    [*base, "--steps", steps, "--out", launched],
                    stderr=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    text=True,
                    env={**environment, "RANK": rank, "LOCAL_RANK": rank},
                )
                for rank in ("0", "1")
            ]
            for process in started:
                self.assertEqual(process.wait(120), 0, process.stderr.read())
                process.stderr.close()
            subprocess.run(
                [*base, "--steps", steps, "--out", forked, "--workers", "2"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        ours, theirs = torch.load(launched), torch.load(forked)
        self.assertEqual((ours["step"], ours["tokens"]), (4, theirs["tokens"]))
        for name, weight in theirs["drafters"]["eagle"]["weights"].items():
            self.assertLess(
                float((weight - ours["drafters"]["eagle"]["weights"][name]).abs().max()), 1e-5, name
            )


def end_instead_of_training(rank):
    """A worker of DeadWorkerTest: the first waits for one that has died."""
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


class DeadWorkerTest(unittest.TestCase):
    def test_run_ends_if_a_worker_is_killed(self):
        process = torch.multiprocessing.get_context("fork").Process(
            target=parallel.run, args=(end_instead_of_training, 3)
        )
        process.start()
        process.join(30)
        self.assertEqual(process.exitcode, 1)


def wait_for_ever(started, rank):
    """A worker of KilledProgramTest: reports that it runs, then waits as if for the others' gradients."""
    os.write(started, b"x")
    time.sleep(60)


class KilledProgramTest(unittest.TestCase):
    def test_workers_end_with_their_parent_process(self):
        for kill in (signal.SIGKILL, signal.SIGTERM):
            (ended, started) = os.pipe()  # reaches its end when all writing processes are gone
            process = torch.multiprocessing.get_context("fork").Process(
                target=parallel.run, args=(functools.partial(wait_for_ever, started), 3)
            )
            process.start()
            os.close(started)
            running = b""
            while len(running) < 3:
                told = os.read(ended, 3)
                self.assertTrue(told, "a worker exited by itself")
                running += told
            os.kill(process.pid, kill)
            self.assertTrue(select.select([ended], [], [], 30)[0], "a worker is still running")
            self.assertEqual(os.read(ended, 1), b"")
            os.close(ended)
            process.join(30)


class EnvironmentTest(unittest.TestCase):
    def test_limits_library_threads_only_with_several_workers(self):
        for line, alone in (
            ("--workers 2", False),
            ("--workers=2 --threads 1", False),
            ("--workers 1 --workers 3", False),
            ("--workers 1 --threads 2", True),
            ("--workers=1", True),
            ("--workers", True),
            ("--workers two", True),
            ("", True),
        ):
            arguments, started = line.split(), []
            with unittest.mock.patch.dict(os.environ, clear=True), unittest.mock.patch.object(
                sys, "argv", ["train.py", *arguments]
            ), unittest.mock.patch.object(os, "execv", lambda *command: started.append(command)):
                parallel.environment()
                self.assertEqual(
                    started, [(sys.executable, [sys.executable, "train.py", *arguments])]
                )
                self.assertEqual("OPENBLAS_NUM_THREADS" not in os.environ, alone, arguments)


if __name__ == "__main__":
    unittest.main()
