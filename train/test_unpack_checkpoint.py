"""Published drafters with pickled weights, and models published together with their heads.

The folders are generated here, with the published names and shapes.
"""

import collections
import contextlib
import io
import json
import os
import pickle
import sys
import tempfile
import unittest
import unittest.mock

import torch
from torch import nn

import unpack_checkpoint
from checkpoint import load_target, read_safetensors, write_llama, write_safetensors
from model import Llama, LlamaConfig

WIDTH, VOCABULARY, HEADS = 32, 60, 3


def eagle():
    layer = {
        "self_attn.q_proj": (WIDTH, WIDTH),
        "self_attn.k_proj": (16, WIDTH),
        "self_attn.v_proj": (16, WIDTH),
        "self_attn.o_proj": (WIDTH, WIDTH),
        "mlp.gate_proj": (40, WIDTH),
        "mlp.up_proj": (40, WIDTH),
        "mlp.down_proj": (WIDTH, 40),
        "post_attention_layernorm": (WIDTH,),
    }
    shapes = {
        "embed_tokens.weight": (VOCABULARY, WIDTH),
        "fc.weight": (WIDTH, 2 * WIDTH),
        "fc.bias": (WIDTH,),
        **{f"layers.0.{name}.weight": shape for name, shape in layer.items()},
    }
    return collections.OrderedDict(
        (name, torch.randn(shape).half()) for name, shape in shapes.items()
    )


def heads():
    """Heads as their authors build them; state_dict() returns more than tensors."""

    def block():
        module = nn.Module()
        module.linear = nn.Linear(WIDTH, WIDTH)
        return module

    return (
        nn.ModuleList(
            nn.Sequential(block(), nn.Linear(WIDTH, VOCABULARY, bias=False)) for _ in range(HEADS)
        )
        .bfloat16()
        .state_dict()
    )


class Running:
    """Its pickle runs a program when loaded."""

    def __init__(self, made):
        self.made = made

    def __reduce__(self):
        return os.mkdir, (self.made,)


class UnpackCheckpointTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.out = folder.name, os.path.join(folder.name, "out")
        self.published = self.path("published")
        os.mkdir(self.published)
        self.text(
            "config.json",
            json.dumps({"hidden_size": WIDTH, "vocab_size": VOCABULARY, "medusa_num_heads": HEADS}),
        )

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def text(self, name, content):
        with open(os.path.join(self.published, name), "w", encoding="utf-8") as file:
            file.write(content)

    def save(self, name, content):
        torch.save(content, os.path.join(self.published, name))

    def run_program(self, *more):
        with unittest.mock.patch.object(
            sys, "argv", ["program", "--checkpoint", self.published, "--out", self.out, *more]
        ), contextlib.redirect_stdout(io.StringIO()):
            unpack_checkpoint.main()

    def refused(self, *more):
        """Returns the error message; nothing may be written."""
        before, said = sorted(os.listdir(self.folder)), io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as caught:
            self.run_program(*more)
        self.assertNotEqual(caught.exception.code, 0)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        return f"{said.getvalue()}{caught.exception.code}"

    def assert_tensors(self, folder, wanted):
        found = read_safetensors(os.path.join(folder, "model.safetensors"))
        self.assertEqual(sorted(found), sorted(wanted))
        for name, tensor in wanted.items():
            self.assertEqual(
                (found[name].dtype, found[name].shape), (tensor.dtype, tensor.shape), name
            )
            self.assertTrue(torch.equal(found[name], tensor), name)

    def model_with_heads(self, own_class="LlamaForCausalLM"):
        """(target, its tensors and the heads' as in one file); the published folder has its config.json."""
        target = Llama(
            LlamaConfig(
                vocab_size=VOCABULARY,
                hidden_size=WIDTH,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=8,
                intermediate_size=40,
                tie_word_embeddings=False,
            )
        ).eval()
        write_llama(self.published, target)
        os.remove(os.path.join(self.published, "model.safetensors"))
        with open(os.path.join(self.published, "config.json"), encoding="utf-8") as file:
            self.text(
                "config.json",
                json.dumps(
                    {**json.load(file), "architectures": [own_class], "medusa_num_heads": HEADS}
                ),
            )
        return target, {
            **target.state_dict(),
            **{f"medusa_head.{name}": tensor for name, tensor in heads().items()},
        }

    def test_unpacks_eagle(self):
        wanted = eagle()
        self.save("pytorch_model.bin", wanted)
        self.save("training_args.bin", Running(self.path("made")))  # must not be read
        self.text("README.md", "licence")
        self.run_program()
        self.assert_tensors(self.out, wanted)
        self.assertEqual(
            sorted(os.listdir(self.out)), ["README.md", "config.json", "model.safetensors"]
        )
        with open(os.path.join(self.out, "config.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["hidden_size"], WIDTH)

    def test_reads_sharded_weights(self):
        wanted, table = eagle(), {}
        for part in range(2):
            name = f"pytorch_model-0000{part + 1}-of-00002.bin"
            self.save(name, dict(list(wanted.items())[part::2]))
            table.update({tensor: name for tensor in list(wanted)[part::2]})
        self.text("pytorch_model.bin.index.json", json.dumps({"weight_map": table}))
        self.run_program()
        self.assert_tensors(self.out, wanted)
        self.assertEqual(sorted(os.listdir(self.out)), ["config.json", "model.safetensors"])

    def test_reads_views_of_one_storage(self):
        whole = torch.arange(12.0).view(3, 4)
        self.save(
            "pytorch_model.bin",
            {
                "whole": whole,
                "columns": whole[:, 1:3],
                "turned": whole.t(),
                "learned": nn.Parameter(whole[1]),
            },
        )
        self.run_program()
        self.assert_tensors(
            self.out,
            {"whole": whole, "columns": whole[:, 1:3], "turned": whole.t(), "learned": whole[1]},
        )

    def test_unpacks_separate_heads(self):
        wanted = heads()
        self.save("medusa_lm_head.pt", wanted)
        self.run_program()
        self.assert_tensors(self.out, wanted)

    def test_splits_model_and_heads(self):
        """Pickled or not, in one file or two, or with the heads in their own file."""
        target, tensors = self.model_with_heads("MedusaLlamaForCausalLM")
        model = {
            name: tensor for name, tensor in tensors.items() if not name.startswith("medusa_head.")
        }
        drafter = {
            name[len("medusa_head.") :]: tensor
            for name, tensor in tensors.items()
            if name not in model
        }
        self.text("tokenizer.json", "{}")
        parts = {
            name: f"model-0000{i % 2 + 1}-of-00002.safetensors" for i, name in enumerate(tensors)
        }

        def in_parts(folder):
            for file in set(parts.values()):
                write_safetensors(
                    os.path.join(folder, file),
                    {name: tensors[name] for name in parts if parts[name] == file},
                )
            self.text("model.safetensors.index.json", json.dumps({"weight_map": parts}))

        def beside_each_other(folder):
            torch.save(model, os.path.join(folder, "pytorch_model.bin"))
            torch.save(drafter, os.path.join(folder, "medusa_lm_head.pt"))

        def in_one_file(folder):
            torch.save(tensors, os.path.join(folder, "pytorch_model.bin"))

        kept, tokens = os.listdir(self.published), torch.randint(0, VOCABULARY, (2, 9))
        for number, publish in enumerate((in_one_file, in_parts, beside_each_other)):
            publish(self.published)
            self.assertIn("--target", self.refused())
            self.out, tuned = self.path(f"heads-{number}"), self.path(f"tuned-{number}")
            self.run_program("--target", tuned)
            self.assert_tensors(self.out, drafter)
            self.assert_tensors(tuned, model)
            self.assertTrue(torch.equal(load_target(tuned)(tokens).logits, target(tokens).logits))
            self.assertEqual(
                sorted(os.listdir(tuned)), ["config.json", "model.safetensors", "tokenizer.json"]
            )
            with open(os.path.join(tuned, "config.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["architectures"], ["LlamaForCausalLM"])
            for name in set(os.listdir(self.published)) - set(kept):
                os.remove(os.path.join(self.published, name))

    def test_runs_no_code_of_a_pickle(self):
        made = self.path("made")
        with open(os.path.join(self.published, "pytorch_model.bin"), "wb") as file:
            pickle.dump(
                {"fc.weight": Running(made)}, file
            )  # the format before PyTorch 1.6, without an archive
        self.assertIn("pytorch_model.bin is not a file of PyTorch 1.6", self.refused())
        self.save("pytorch_model.bin", {"fc.weight": torch.ones(2), "more": Running(made)})
        self.assertIn("contains posix.mkdir", self.refused())
        self.assertFalse(os.path.exists(made))
        torch.jit.script(nn.Linear(2, 2)).save(os.path.join(self.published, "pytorch_model.bin"))
        self.assertIn("which is not part of a tensor", self.refused())

    def test_names_unreadable_parts(self):
        self.assertIn(
            "found none of model.safetensors, pytorch_model.bin, medusa_lm_head", self.refused()
        )
        self.text("pytorch_model.bin", "version https://git-lfs.github.com/spec/v1")
        self.assertIn(
            "pytorch_model.bin is not a file of PyTorch 1.6 or newer, or is damaged", self.refused()
        )
        for content, told in (
            ({"state_dict": eagle()}, "contains 'state_dict', which is not a tensor"),
            ({"step": 3}, "contains 'step', which is not a tensor"),
            ([torch.ones(2)], "is not a table of named tensors"),
            ({"fc.weight": torch.ones(2).double()}, "has a torch.DoubleStorage"),
        ):
            self.save("pytorch_model.bin", content)
            self.assertIn(f"pytorch_model.bin {told}", self.refused())
        self.save("pytorch_model.bin", eagle())
        self.assertIn("remove --target", self.refused("--target", self.path("tuned")))
        self.assertIn("--out and --target are the same folder", self.refused("--target", self.out))
        with open(os.path.join(self.published, "pytorch_model.bin"), "r+b") as file:
            file.truncate(5000)
        self.assertIn("damaged: download it again", self.refused())
        self.text(
            "pytorch_model.bin.index.json",
            json.dumps({"weight_map": {"fc.weight": "pytorch_model-00001-of-00002.bin"}}),
        )
        self.assertIn("pytorch_model-00001-of-00002.bin", self.refused())
        os.remove(os.path.join(self.published, "config.json"))
        self.assertIn("config.json is missing", self.refused())

    def test_overwrites_nothing(self):
        self.save("pytorch_model.bin", eagle())
        self.out = self.published
        self.assertIn(f"--out {self.published} is not empty", self.refused())
        self.out = self.path("out")
        self.assertIn(
            f"--target {self.published} is not empty", self.refused("--target", self.published)
        )

    def test_rejects_folders_that_need_no_unpacking(self):
        write_safetensors(os.path.join(self.published, "model.safetensors"), eagle())
        self.assertIn("edgedraft convert reads it unchanged", self.refused())

    def test_rejects_unsupported_models(self):
        _, tensors = self.model_with_heads()
        self.save("pytorch_model.bin", tensors)
        self.text("config.json", json.dumps({"model_type": "mistral"}))
        self.assertIn("model_type is 'mistral'", self.refused("--target", self.path("tuned")))


if __name__ == "__main__":
    unittest.main()
