#!/usr/bin/env python3
"""Writes the golden networks of Hugging Face, with `transformers` on the CPU:

    python tools/golden/hugging_face.py --out tests/golden/hugging_face

The environment is that of `generate.py`, with `pip install transformers==5.24.0`. Each folder has the `config.json` and the
`model.safetensors` that `save_pretrained` writes. `expected.safetensors` has an input and the logits of each network.
`tests/golden/README.md` describes them. The networks are small, and no setting has the same value as its default.
"""

import argparse
from pathlib import Path

import torch
from generate import values
from safetensors.torch import save_file
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    ViTConfig,
    ViTForImageClassification,
)

B, T, TOKENS = 2, 7, 11
GPT2 = dict(vocab_size=TOKENS, n_positions=9, n_embd=8, n_layer=2, n_head=2, layer_norm_epsilon=1e-3)
LLAMA = dict(
    vocab_size=TOKENS,
    hidden_size=8,
    intermediate_size=12,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=9,
    rms_norm_eps=1e-3,
    rope_theta=500.0,
)
VIT = dict(
    hidden_size=8,
    intermediate_size=12,
    num_hidden_layers=2,
    num_attention_heads=2,
    image_size=8,
    patch_size=4,
    num_channels=2,
    num_labels=3,
    layer_norm_eps=1e-3,
)

NETWORKS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**GPT2)),
    "gpt2_untied": lambda: GPT2LMHeadModel(
        GPT2Config(**GPT2, n_inner=12, activation_function="gelu", tie_word_embeddings=False)
    ),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA)),
    "llama_tied": lambda: LlamaForCausalLM(
        LlamaConfig(**LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)
    ),
    "vit": lambda: ViTForImageClassification(ViTConfig(**VIT)),
    "vit_tanh": lambda: ViTForImageClassification(ViTConfig(**VIT, hidden_act="gelu_pytorch_tanh")),
}


def filled(name):
    net = NETWORKS[name]().eval()
    with torch.no_grad():
        for key, tensor in net.named_parameters():
            is_scale = ("norm" in key or ".ln_" in key) and key.endswith("weight")
            tensor.copy_(values(f"hugging_face/{name}/{key}", tensor.shape, 0.5, 1.0 if is_scale else 0.0))
    return net


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write, tests/golden/hugging_face")
    folder = parser.parse_args().out
    torch.set_num_threads(1)
    tokens = (values("hugging_face/tokens", (B, T), 0.5, 0.5) * TOKENS).long()
    images = values("hugging_face/images", (B, 2, 8, 8))
    expected = {"tokens": tokens, "images": images}
    for name in NETWORKS:
        net = filled(name)
        net.save_pretrained(folder / name)
        (folder / name / "generation_config.json").unlink(missing_ok=True)
        is_vision = name.startswith("vit")
        with torch.no_grad():
            logits = net.double()(images.double() if is_vision else tokens).logits
        expected[f"{name}.logits"] = logits.float()
    save_file(expected, folder / "expected.safetensors")


if __name__ == "__main__":
    main()
