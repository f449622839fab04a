"""Hugging Face model folders: config.json, model.safetensors, and the safetensors format.

safetensors: 8 bytes little-endian length of a JSON header, the header with dtype, shape and byte range of
every tensor, then the raw little-endian data.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import shutil
import struct
import sys
import types
from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from model import Llama, LlamaConfig, config_from_dict
from optim import is_residual_output

_NAMES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}


def write_safetensors(path: str, tensors: Dict[str, Tensor]) -> None:
    header, offset = {}, 0
    for name, tensor in sorted(tensors.items()):
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data starts at a multiple of 8
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in header:
            tensor = tensors[name].detach().cpu().contiguous()
            file.write(
                (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor)
                .numpy()
                .tobytes()
            )  # NumPy has no bfloat16


def read_safetensors(path: str) -> Dict[str, Tensor]:
    """Raises ValueError for a truncated file or another format, for instance a git-lfs pointer."""
    size = os.path.getsize(path)
    result = {}
    with open(path, "rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        if start > size:
            raise ValueError(
                f"{os.path.basename(path)} is not a safetensors file, or is truncated: download it again"
            )
        for name, entry in json.loads(file.read(start - 8)).items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            if start + end > size:
                raise ValueError(
                    f"{os.path.basename(path)} is truncated within its tensors: download it again"
                )
            file.seek(start + begin)
            blob = torch.frombuffer(bytearray(file.read(end - begin)), dtype=_TYPES[entry["dtype"]])
            result[name] = blob.reshape(entry["shape"])
    return result


def llama_config_json(config: LlamaConfig, tokenizer=None) -> dict:
    qwen = config.attention_bias
    values = {
        "architectures": ["Qwen2ForCausalLM" if qwen else "LlamaForCausalLM"],
        "model_type": "qwen2" if qwen else "llama",
        "hidden_act": "silu",
        "torch_dtype": "float32",
        **dataclasses.asdict(config),
    }
    values.update(
        {"bos_token_id": tokenizer.bos, "eos_token_id": tokenizer.end}
        if tokenizer
        else {"bos_token_id": 1, "eos_token_id": 2}
    )
    return values


def write_folder(
    folder: str,
    config: dict,
    tensors: Dict[str, Tensor],
    tokenizer=None,
    dtype: Optional[torch.dtype] = None,
) -> None:
    """Writes one model folder; ``tokenizer`` (tokenizer.Tokenizer) adds its files, ``dtype`` converts the weights."""
    os.makedirs(folder, exist_ok=True)
    if dtype is not None:
        tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
        config = {**config, "torch_dtype": str(dtype).replace("torch.", "")}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    if tokenizer is not None:
        from tokenizer import CHAT_TEMPLATE

        shutil.copyfile(tokenizer.path, os.path.join(folder, "tokenizer.model"))
        values = {
            "tokenizer_class": "LlamaTokenizer",
            "add_bos_token": True,
            "add_eos_token": False,
            "legacy": False,
            "bos_token": "<s>",
            "eos_token": "<|end|>",
            "unk_token": "<unk>",
            "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "add_prefix_space": False,
        }
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump(values, file, indent=2)
            file.write("\n")


def amend_config(folder: str, **values) -> None:
    """Sets keys in the config.json of a folder."""
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**config, **values}, file, indent=2)
        file.write("\n")


def write_llama(
    folder: str, model: Llama, tokenizer=None, dtype: Optional[torch.dtype] = None
) -> None:
    write_folder(
        folder, llama_config_json(model.config, tokenizer), model.state_dict(), tokenizer, dtype
    )


@torch.no_grad()
def balance(model: Llama) -> None:
    """Scales the residual stream of a model with a tied head so that its final norm's weights are about 1.

    The logits stay almost the same: rms_norm_eps is not scaled and so weighs slightly more or less (a KL of 1e-7 in the
    shipped target).  Training starts with a large embedding and a small final norm. A drafter without a norm of its
    own would have to undo the large embedding before the head.
    """
    scale = float(model.model.norm.weight.abs().mean())
    model.model.norm.weight /= scale
    model.model.embed_tokens.weight *= scale
    for name, parameter in model.named_parameters():
        if is_residual_output(name):
            parameter *= scale


def hf_config(values: dict) -> LlamaConfig:
    """Sizes in the config.json of a Llama or Qwen2.  Raises ValueError for options that this decoder does not
    implement."""
    if values.get("model_type") not in ("llama", "qwen2"):
        raise ValueError(f"model_type is '{values.get('model_type')}'; expected 'llama' or 'qwen2'")
    if values.get("hidden_act", "silu") != "silu":
        raise ValueError(f"hidden_act is '{values['hidden_act']}'; expected 'silu'")
    qwen = values["model_type"] == "qwen2"
    for name in ("attention_bias", "mlp_bias", "use_sliding_window"):
        if values.get(name) and not (qwen and name == "attention_bias"):
            raise ValueError(f"{name} is set, which is not supported")
    given = {key: value for key, value in values.items() if value is not None}
    given["attention_bias"] = qwen  # on q, k and v, implied by the type
    given.setdefault("num_key_value_heads", given["num_attention_heads"])
    given.setdefault("head_dim", given["hidden_size"] // given["num_attention_heads"])
    given.setdefault("tie_word_embeddings", False)
    given.setdefault("rms_norm_eps", 1e-6)  # Hugging Face's defaults that differ from LlamaConfig's
    # transformers 5 moved rope_theta and the scaling into rope_parameters; some files have parts of both.
    rope = given.get("rope_parameters", {})
    if rope.get("rope_theta") is not None:
        given["rope_theta"] = rope["rope_theta"]
    given.setdefault("rope_theta", 10000.0)
    if rope.get("rope_type", rope.get("type", "default")) != "default" and not given.get(
        "rope_scaling"
    ):
        given["rope_scaling"] = rope
    if any(
        part.get("partial_rotary_factor") not in (None, 1)
        for part in (given, rope, given.get("rope_scaling", {}))
    ):
        raise ValueError("partial_rotary_factor is set, which is not supported")
    return config_from_dict(given)


def weight_files(folder: str, whole: str = "model.safetensors") -> List[str]:
    """The file of that name, or the files that its index lists."""
    names = [whole]
    index = os.path.join(folder, whole + ".index.json")
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
    return [os.path.join(folder, name) for name in names]


def load_hf_target(folder: str) -> Llama:
    """The model of a Hugging Face folder of a Llama or Qwen2, in 32 bits.

    A stored head takes precedence over tie_word_embeddings: some files keep one although config.json declares it tied.
    """
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = hf_config(json.load(file))
        tensors = {
            name: tensor.float()
            for file in weight_files(folder)
            for name, tensor in read_safetensors(file).items()
            if not name.endswith("rotary_emb.inv_freq")
        }
        config.tie_word_embeddings = "lm_head.weight" not in tensors
        model = Llama(config)
        model.load_state_dict(tensors)  # its error lists missing and unexpected tensors
    except FileNotFoundError as error:
        sys.exit(f"error: {folder}: {error}")
    except KeyError as error:
        sys.exit(
            f"error: {folder}: config.json lacks {error}, or a tensor has the unsupported type {error}"
        )
    except (ValueError, RuntimeError) as error:
        sys.exit(f"error: {folder}: {error}")
    return model.eval()


class _DataUnpickler(pickle.Unpickler):
    """Reads tensors and plain values; refuses any other class or function, which could run code."""

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("torch._utils", "_rebuild_tensor_v2"),
            ("torch._utils", "_rebuild_parameter"),
            ("collections", "OrderedDict"),
        }
        if (module, name) not in known and not (
            module == "torch" and name in ("Size", "device") or name in map(str, _NAMES)
        ):
            raise pickle.UnpicklingError(f"it contains {module}.{name}, which could run code")
        return super().find_class(module, name)


def read_pickle(path: str, device: str = "cpu") -> Any:
    """Loads a file of torch.save without running its code.

    torch.load is not used: version 1.13 ignores its pickle_module, reads no floats with weights_only, and passes
    TorchScript archives to a loader that runs them.
    Errors: OSError; any other exception if the file is older than PyTorch 1.6, is damaged, or holds more than data.
    """
    with open(path, "rb") as file, torch.serialization._open_zipfile_reader(file) as archive:
        return torch.serialization._load(
            archive, device, types.SimpleNamespace(Unpickler=_DataUnpickler)
        )


# Keys that identify a program's checkpoints, and that program.
_WRITERS = {
    "model": "train_target.py or train_open_target.py",
    "drafters": "distill.py or distill_answers.py",
    "adapters": "tune_*.py",
}


def load_checkpoint(path: str, wanted: str) -> dict:
    """A checkpoint with the key ``wanted``, one of _WRITERS. Otherwise ends the program with an error that names the
    file."""
    try:
        saved = read_pickle(path)
    except OSError as error:
        sys.exit(f"error: {path}: {error.strerror}")
    except Exception as error:  # unpickling an untrusted file can raise anything
        sys.exit(f"error: {path} is not a checkpoint, or is damaged: {error!r}")
    if not isinstance(saved, dict) or wanted not in saved:
        found = [
            program for key, program in _WRITERS.items() if isinstance(saved, dict) and key in saved
        ]
        sys.exit(
            f"error: {path} is {f'a checkpoint of {found[0]}' if found else 'another file'}; expected one of {_WRITERS[wanted]}"
        )
    return saved


def load_target(path: str) -> Llama:
    """The model of a Hugging Face folder, or of a checkpoint that train_target.py wrote, balanced."""
    if os.path.isdir(path):
        return load_hf_target(path)
    saved = load_checkpoint(path, "model")
    model = Llama(config_from_dict(saved["config"]))
    model.load_state_dict(saved["model"])
    if model.config.tie_word_embeddings:
        balance(model)
    return model.eval()
