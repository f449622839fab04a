"""A target in a Hugging Face folder, for the tests."""

import json
import os
import tempfile
import unittest

import torch

from checkpoint import write_llama
from model import Llama, LlamaConfig


class FolderCase(unittest.TestCase):
    """Saves a small random target in a folder."""

    def setUp(self):
        torch.manual_seed(6)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "target")
        self.target = Llama(
            LlamaConfig(
                vocab_size=60,
                hidden_size=32,
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=8,
                intermediate_size=40,
                tie_word_embeddings=False,
            )
        ).eval()
        write_llama(self.folder, self.target)
        self.tokens = torch.randint(0, 60, (2, 11))

    def set_config(self, **values):
        path = os.path.join(self.folder, "config.json")
        with open(path, encoding="utf-8") as file:
            config = {**json.load(file), **values}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({key: value for key, value in config.items() if value is not None}, file)
