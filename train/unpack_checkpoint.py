#!/usr/bin/env python3
"""Writes a published drafter, whose weights PyTorch saved as a pickle, as a folder that edgedraft convert reads.

Reads pytorch_model.bin (EAGLE, HASS), also in parts with pytorch_model.bin.index.json, and medusa_lm_head.pt or
.safetensors (MEDUSA-1).  A model published together with its heads (MEDUSA-2), pickled or not, is split: the heads go
to --out and the model to --target.  The folders have model.safetensors, with unchanged values, and the other files of
the published folder.

A pickle can call any function.  None is called: a pickle that holds more than tensors is refused.  All tensors are in
memory at once.

Examples:
    python3 unpack_checkpoint.py --checkpoint EAGLE-llama2-chat-7B --out eagle
    python3 unpack_checkpoint.py --checkpoint medusa-vicuna-7b-v1.3 --out medusa
    python3 unpack_checkpoint.py --checkpoint medusa-1.0-vicuna-7b-v1.5 --out medusa-2 --target tuned
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import os
import pickle
import shutil
import sys
import zipfile
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from arguments import out_folder
from checkpoint import hf_config, read_safetensors, weight_files, write_folder
from drafters import KINDS

WHOLE = (
    "model.safetensors",
    "pytorch_model.bin",
)  # a model's weights, as transformers names them; the first that exists is read
PREFIXES = tuple(kind.published_prefix for kind in KINDS if kind.published_prefix)
WEIGHTS = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".index.json",
    ".msgpack",
    ".h5",
    ".onnx",
)  # suffixes of files that are not copied
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}

STORAGES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
}


class Stored(NamedTuple):
    """A tensor as described by a pickle."""

    storage: Tuple[str, torch.dtype, str, str, int]
    offset: int
    shape: Tuple[int, ...]
    stride: Tuple[int, ...]


# Stand-ins for the functions in a pickle of tensors
KNOWN = {
    "collections.OrderedDict": collections.OrderedDict,
    "torch._utils._rebuild_tensor_v2": lambda storage, offset, shape, stride, *_: Stored(
        storage, offset, shape, stride
    ),
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
}


class TensorUnpickler(pickle.Unpickler):
    """Reads a dictionary of tensors as Stored."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name.endswith("Storage"):
            if name not in STORAGES:
                raise ValueError(f"has a torch.{name}; expected one of {', '.join(STORAGES)}")
            return STORAGES[name]
        if f"{module}.{name}" not in KNOWN:
            raise ValueError(
                f"contains {module}.{name}, which is not part of a tensor and could run code: not read"
            )
        return KNOWN[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> Any:
        return pid


def read_pickled(path: str) -> Dict[str, Tensor]:
    """The tensors of a file of torch.save.  Raises ValueError for any other content.

    torch.load is not used: before version 2.6 it passes TorchScript archives to a loader that runs them, even with
    weights_only.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            root = next(name for name in archive.namelist() if name.endswith("/data.pkl"))[
                : -len("data.pkl")
            ]
            saved = TensorUnpickler(io.BytesIO(archive.read(root + "data.pkl"))).load()
            if not isinstance(saved, dict):
                raise ValueError("is not a table of named tensors")
            storages: Dict[tuple, Tensor] = {}
            tensors = {}
            for name, stored in saved.items():
                if not isinstance(name, str) or not isinstance(stored, Stored):
                    raise ValueError(
                        f"contains {name!r}, which is not a tensor: save only the weights, as in model.state_dict()"
                    )
                _, dtype, key, _, _ = stored.storage
                if (key, dtype) not in storages:
                    storages[key, dtype] = torch.frombuffer(
                        bytearray(archive.read(f"{root}data/{key}")), dtype=dtype
                    )
                tensors[name] = storages[key, dtype].as_strided(
                    stored.shape, stored.stride, stored.offset
                )
    except OSError:
        raise
    except ValueError as error:
        raise ValueError(f"{os.path.basename(path)} {error}") from None
    except Exception as error:  # unpickling an untrusted file can raise anything
        raise ValueError(
            f"{os.path.basename(path)} is not a file of PyTorch 1.6 or newer, or is damaged: download it again ({error!r})"
        ) from None
    return tensors


def published_files(folder: str) -> Tuple[List[str], List[str]]:
    """(files of a model or drafter by their usual names, file of a drafter by its kind's name)"""

    def there(name: str) -> bool:
        return os.path.exists(os.path.join(folder, name))

    whole = next(
        (
            weight_files(folder, name)
            for name in WHOLE
            if there(name) or there(name + ".index.json")
        ),
        [],
    )
    names = [
        kind.published_file + ending
        for kind in KINDS
        if kind.published_file
        for ending in (".safetensors", ".pt")
    ]
    own = [os.path.join(folder, name) for name in names if there(name)][:1]
    if not whole and not own:
        raise ValueError(f"found none of {', '.join([*WHOLE, *names])}")
    return whole, own


def read_files(files: List[str]) -> Dict[str, Tensor]:
    tensors = {}
    for file in files:
        tensors.update(
            read_safetensors(file) if file.endswith(".safetensors") else read_pickled(file)
        )
    return tensors


def own_name(name: str) -> str:
    """A drafter's tensor name without the prefix that separates it from the model's."""
    return next((name[len(prefix) :] for prefix in PREFIXES if name.startswith(prefix)), name)


def copy_others(source: str, folder: str) -> None:
    """Copies all files except weights, which may be pickles, and config.json, which exists."""
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if (
            os.path.isfile(path)
            and name != "config.json"
            and not name.startswith(".")
            and not name.endswith(WEIGHTS)
        ):
            shutil.copyfile(path, os.path.join(folder, name))


def unpack(checkpoint: str, out: str, target: Optional[str]) -> Dict[str, Dict[str, Tensor]]:
    """Writes the folders and returns their tensors.  Raises ValueError if a checkpoint cannot be read."""
    config_path = os.path.join(checkpoint, "config.json")
    if not os.path.exists(config_path):
        raise ValueError("config.json is missing: download that of the published folder as well")
    with open(config_path, encoding="utf-8") as file:
        config = json.load(file)
    whole, own = published_files(checkpoint)
    model, drafter = {}, {}
    for name, tensor in read_files(whole).items():
        (drafter if name.startswith(PREFIXES) else model)[own_name(name)] = tensor
    drafter.update({own_name(name): tensor for name, tensor in read_files(own).items()})
    if not (model and drafter):
        if target:
            raise ValueError("there is no drafter next to the tensors of a model: remove --target")
        if not own and whole[0].endswith(".safetensors"):
            raise ValueError(
                "nothing to unpack (no pickle, no drafter next to a model): edgedraft convert reads it unchanged"
            )
        write_folder(out, config, model or drafter)
        copy_others(checkpoint, out)
        return {out: model or drafter}
    if not target:
        raise ValueError(
            "it has a drafter next to the tensors of a model: give a folder for the model with --target"
        )
    hf_config(config)
    # Models published with heads declare their authors' own class.
    write_folder(target, {**config, "architectures": [ARCHITECTURES[config["model_type"]]]}, model)
    copy_others(checkpoint, target)
    write_folder(out, config, drafter)
    return {target: model, out: drafter}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", metavar="FOLDER", required=True, help="folder as published")
    parser.add_argument(
        "--out", type=out_folder, metavar="FOLDER", required=True, help="new folder for the drafter"
    )
    parser.add_argument(
        "--target",
        type=out_folder,
        metavar="FOLDER",
        help="new folder for the model next to the drafter",
    )
    options = parser.parse_args()
    for option, folder in (("--out", options.out), ("--target", options.target)):
        if folder and os.path.isdir(folder) and os.listdir(folder):
            parser.error(f"{option} {folder} is not empty; give a new folder")
    if options.target and os.path.abspath(options.target) == os.path.abspath(options.out):
        parser.error("--out and --target are the same folder")
    try:
        written = unpack(options.checkpoint, options.out, options.target)
    except KeyError as error:
        sys.exit(
            f"error: {options.checkpoint}: config.json or an index lacks {error}, or a tensor has the unsupported type {error}"
        )
    except (OSError, ValueError) as error:
        sys.exit(f"error: {options.checkpoint}: {error}")
    for folder, tensors in written.items():
        print(
            f"{folder}: {len(tensors)} tensors, {sum(tensor.numel() for tensor in tensors.values())} parameters"
        )


if __name__ == "__main__":
    main()
