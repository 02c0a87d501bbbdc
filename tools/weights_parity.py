#!/usr/bin/env python3
"""Compares weights that oomph reads and writes with networks of torchvision and of `transformers`. Takes one to two minutes.

For ResNet-18, -50 and -101 with random weights and running statistics: saves the
state dict as safetensors and as `.pth` (today's archive, the format before 1.6, and
fp16 within a training's checkpoint of a parallel module), lets oomph compute the
logits, and compares them with torchvision's in eval mode. Then trains a few steps
with oomph, exports, loads that into torchvision with `strict=True`, and compares
again. An LSTM, a GRU, a GPT-2 of `transformers` and a vision transformer of torchvision go the same way, without training.

Networks of `transformers` go both ways: oomph takes settings and weights from the folder that `save_pretrained` writes, trains
a few steps, and exports a folder that `from_pretrained` loads. `--save` writes docs/tables/hugging-face.json.

    cargo build --release -p oomph -p oomph-tools --bins
    /tmp/torchvenv/bin/python tools/weights_parity.py    # --target DIR for another target/

The environment is that of `tools/golden/generate.py`, with `pip install transformers==5.24.0`. Exit code 1 where something
differs by more than 1e-4.
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

TOLERANCE = 1e-4
SIZE, BATCH, CLASSES = 96, 3, 1000
worst = 0.0


def network(arch, seed):
    """Random weights of usual magnitude, with running statistics unlike those of a new network."""
    torch.manual_seed(seed)
    net = getattr(torchvision.models, arch)(num_classes=CLASSES)
    with torch.no_grad():
        for name, module in net.named_modules():
            if isinstance(module, nn.BatchNorm2d):
                last = name.endswith("bn3") or (arch == "resnet18" and name.endswith("bn2"))
                module.weight.uniform_(0.1, 0.3) if last else module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.2)
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.5, 2.0)
                module.num_batches_tracked.fill_(7)
    return net.eval()


def logits_of(net, inputs):
    with torch.no_grad():
        return net(inputs)


def compare(what, found, expected, tolerance=TOLERANCE):
    global worst
    difference = (found - expected).abs().max().item()
    print(f"{what}: max difference {difference:.1e} of logits up to {expected.abs().max():.2f}")
    if not difference <= tolerance:
        print(f"  above {tolerance:.0e}")
        worst = max(worst, difference)
    return difference


class Tools:
    def __init__(self, target, folder):
        self.target, self.folder = target, folder

    def oomph(self, *arguments):
        command = [self.target / "oomph", *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}:\n{done.stderr}")
        return done.stdout

    def logits(self, arch, weights, inputs, *more):
        save_file({"input": inputs}, self.folder / "input.safetensors")
        command = [self.target / "xtask", "weights-logits", arch, weights, "input.safetensors"]
        subprocess.run([*command, "output.safetensors", *more], cwd=self.folder, check=True)
        return load_file(self.folder / "output.safetensors")["logits"]


def reading(tools, arch):
    net = network(arch, seed=len(arch))
    inputs = torch.randn(BATCH, 3, SIZE, SIZE)
    expected = logits_of(net, inputs)
    state = net.state_dict()
    files = {
        "weights.safetensors": lambda path: save_file(state, path),
        "weights.pth": lambda path: torch.save(state, path),
        "legacy.pth": lambda path: torch.save(state, path, _use_new_zipfile_serialization=False),
    }
    for name, save in files.items():
        save(tools.folder / name)
        compare(f"{arch} {name}", tools.logits(arch, name, inputs), expected)
    plain = tools.logits(arch, "weights.pth", inputs, "--lean", "false")
    compare(f"{arch} weights.pth by Burn's layers", plain, expected)
    half = {f"module.{k}": v.half() if v.is_floating_point() else v for k, v in state.items()}
    torch.save({"epoch": 1, "state_dict": half}, tools.folder / "half.pth")
    net.load_state_dict({k: v.float() for k, v in ((k[7:], v) for k, v in half.items())})
    compare(f"{arch} fp16 within a checkpoint", tools.logits(arch, "half.pth", inputs), logits_of(net, inputs))


SYNTHETIC = """
model = { name = "ARCH" }
data = { source = "synthetic", kind = "image", height = 64, width = 64, classes = 1000,
         train_samples = 16, test_samples = 4 }
train = { steps = 2, batch = 4, eval_every = "never" }
optimizer = { lr = 1e-3 }
"""


def writing(tools, arch):
    """Weights through an oomph training and back: `strict=True` accepts exactly all keys."""
    (tools.folder / "x.toml").write_text(SYNTHETIC.replace("ARCH", arch))
    run = tools.folder / f"run-{arch}"
    sets = ["--set", f"run.directory={run}", "--set", "model.weights=weights.pth"]
    tools.oomph("train", "--config", "x.toml", "--quiet", *sets, "--set", "model.freeze=['stem']")
    exported = json.loads(tools.oomph("export", run, "--to", f"{arch}.safetensors", "--json"))
    net = getattr(torchvision.models, arch)(num_classes=CLASSES)
    state = load_file(tools.folder / f"{arch}.safetensors")
    net.load_state_dict(state, strict=True)
    before = torch.load(tools.folder / "weights.pth")
    assert exported["tensors"] == len(before), exported
    assert torch.equal(state["conv1.weight"], before["conv1.weight"]), "frozen"
    assert torch.equal(state["bn1.running_mean"], before["bn1.running_mean"]), "frozen"
    assert not torch.equal(state["layer1.0.bn1.running_mean"], before["layer1.0.bn1.running_mean"])
    assert not torch.equal(state["fc.weight"], before["fc.weight"])
    assert state["bn1.num_batches_tracked"] == 2 and state["bn1.num_batches_tracked"].dtype == torch.int64
    inputs = torch.randn(BATCH, 3, SIZE, SIZE)
    found = tools.logits(arch, f"{arch}.safetensors", inputs)
    compare(f"{arch} exported, strict", found, logits_of(net.eval(), inputs))


class Classifier(nn.Module):
    def __init__(self, kind):
        super().__init__()
        layers = {"lstm": nn.LSTM, "gru": nn.GRU}[kind]
        setattr(self, kind, layers(8, 12, num_layers=2, batch_first=True))
        self.fc = nn.Linear(12, 10)


RECURRENT = """
model = { name = "KIND", hidden = 12, layers = 2, weights = "KIND.pth" }
data = { source = "digits", layout = "rows" }
train = { steps = 2 }
"""


def recurrent(tools, kind):
    torch.manual_seed(1)
    net = Classifier(kind)
    torch.save(net.state_dict(), tools.folder / f"{kind}.pth")
    (tools.folder / f"{kind}.toml").write_text(RECURRENT.replace("KIND", kind))
    tools.oomph("export", "--config", f"{kind}.toml", "--weights", f"{kind}.pth", "--to", f"{kind}-same.safetensors")
    same = load_file(tools.folder / f"{kind}-same.safetensors")
    assert all(torch.equal(same[k], v) for k, v in net.state_dict().items())
    tools.oomph("train", "--config", f"{kind}.toml", "--quiet", "--set", f"run.directory={kind}-run")
    tools.oomph("export", f"{kind}-run", "--to", f"{kind}-trained.safetensors")
    net.load_state_dict(load_file(tools.folder / f"{kind}-trained.safetensors"), strict=True)
    print(f"{kind}: exported, strict")


def scattered(net, seed):
    """Random weights that are large enough for every part to matter."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.add_(torch.randn_like(tensor) * (0.1 if tensor.dim() > 1 else 0.3))
    return net.eval()


GPT = """
model = { name = "gpt", layers = 3, hidden = 48, heads = 4, context = 32, weights = "gpt2/model.safetensors" }
data = { source = "synthetic", kind = "tokens", vocabulary = 101, steps = 20, carry = false }
"""


def gpt2(tools):
    config = transformers.GPT2Config(vocab_size=101, n_positions=32, n_embd=48, n_layer=3, n_head=4)
    net = scattered(transformers.GPT2LMHeadModel(config), 2)
    net.save_pretrained(tools.folder / "gpt2")
    tokens = torch.randint(0, 101, (BATCH, 20))
    settings = "\n".join(["name = 'gpt'", "layers = 3", "hidden = 48", "heads = 4", "context = 32"])
    for lean in ["true", "false"]:
        found = tools.logits(settings, "gpt2/model.safetensors", tokens, *(["--lean", lean] if lean == "false" else []))
        compare(f"gpt2 of transformers, lean = {lean}", found, logits_of(net, tokens).logits)
    (tools.folder / "gpt.toml").write_text(GPT)
    tools.oomph("export", "--config", "gpt.toml", "--weights", "gpt2/model.safetensors", "--to", "gpt.safetensors")
    written = load_file(tools.folder / "gpt.safetensors")
    net.load_state_dict({**written, "lm_head.weight": written["transformer.wte.weight"]}, strict=True)
    compare("gpt2 exported, strict", tools.logits(settings, "gpt.safetensors", tokens), logits_of(net, tokens).logits)


VIT = """
model = { name = "vit", layers = 2, hidden = 24, heads = 4, patch = 8, feed_forward = 40, weights = "vit.pth" }
data = { source = "synthetic", kind = "image", height = 32, width = 32, classes = 7 }
"""


def vit(tools):
    network = torchvision.models.VisionTransformer(32, 8, 2, 4, 24, 40, num_classes=7)
    net = scattered(network, 3)
    torch.save(net.state_dict(), tools.folder / "vit.pth")
    images = torch.randn(BATCH, 3, 32, 32)
    settings = "\n".join(["name = 'vit'", "layers = 2", "hidden = 24", "heads = 4", "patch = 8", "feed_forward = 40"])
    compare("vit of torchvision", tools.logits(settings, "vit.pth", images), logits_of(net, images))
    (tools.folder / "vit.toml").write_text(VIT)
    tools.oomph("export", "--config", "vit.toml", "--weights", "vit.pth", "--to", "vit.safetensors")
    net.load_state_dict(load_file(tools.folder / "vit.safetensors"), strict=True)
    compare("vit exported, strict", tools.logits(settings, "vit.safetensors", images), logits_of(net, images))


LLAMA_SIZES = dict(
    vocab_size=101, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
    max_position_embeddings=64, rms_norm_eps=1e-5,
)
GPT2_SIZES = dict(vocab_size=101, n_positions=32, n_embd=48, n_layer=3, n_head=4)
VIT_SIZES = dict(
    hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4, image_size=32, patch_size=8,
    num_labels=7,
)
TEXT = 'data = { source = "synthetic", kind = "tokens", vocabulary = 101, steps = 20, carry = false, train_samples = 16, test_samples = 4 }'
IMAGES = (
    'data = { source = "synthetic", kind = "image", height = 32, width = 32, classes = 7, train_samples = 16, test_samples = 4 }'
)


def of_hugging_face():
    """The title, the network, and oomph's name of each model."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, ViTConfig, ViTForImageClassification

    gpt2 = lambda **more: GPT2LMHeadModel(GPT2Config(**GPT2_SIZES, **more))
    llama = lambda **more: LlamaForCausalLM(LlamaConfig(**LLAMA_SIZES, **more))
    vit = lambda **more: ViTForImageClassification(ViTConfig(**VIT_SIZES, **more))
    return [
        ("GPT-2", gpt2(), "gpt"),
        ("GPT-2, GELU, a head of its own", gpt2(activation_function="gelu", n_inner=100, tie_word_embeddings=False), "gpt"),
        ("Llama", llama(num_key_value_heads=6), "gpt"),
        ("Llama, grouped queries, rotary base 500,000", llama(num_key_value_heads=2, rope_theta=500000.0), "gpt"),
        ("Llama, biases, a tied head", llama(num_key_value_heads=3, attention_bias=True, mlp_bias=True, tie_word_embeddings=True), "gpt"),
        ("ViT", vit(), "vit"),
        ("ViT, approximate GELU, epsilon 1e-3", vit(hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-3), "vit"),
    ]


def hugging_face(tools, number, title, net, model):
    """A row of the table: differences as read, as written after a training, and as read again."""
    folder, out, run = f"hf-{number}", f"hf-{number}-out", f"hf-{number}-run"
    scattered(net, number).save_pretrained(tools.folder / folder)
    inputs = torch.randn(BATCH, 3, 32, 32) if model == "vit" else torch.randint(0, 101, (BATCH, 20))
    settings = lambda folder: f"name = '{model}'\nconfig = '{folder}'"
    read = compare(f"{title}, read", tools.logits(settings(folder), folder, inputs), logits_of(net, inputs).logits)
    config = f'model = {{ name = "{model}", config = "{folder}", weights = "{folder}" }}\n'
    config += (IMAGES if model == "vit" else TEXT) + "\ntrain = { steps = 3, batch = 4 }\n"
    (tools.folder / "hf.toml").write_text(config)
    tools.oomph("train", "--config", "hf.toml", "--quiet", "--set", f"run.directory={run}")
    tools.oomph("export", run, "--to", f"{out}/")
    again, loading = type(net).from_pretrained(tools.folder / out, output_loading_info=True)
    assert not any(loading.values()), loading
    assert any((a != b).any() for a, b in zip(net.parameters(), again.parameters())), "trained"
    expected = logits_of(again.eval(), inputs).logits
    written = compare(f"{title}, written", tools.logits(settings(out), out, inputs), expected)
    return [title, *(f"{difference:.1e}".replace("e-0", "e-") for difference in (read, written))]


def save(root, rows):
    titles = ["network", "read: `save_pretrained` → oomph", "trained and written: oomph → `from_pretrained`"]
    table = {
        "machine": f"transformers {transformers.__version__} and PyTorch {torch.__version__.split('+')[0]} on the CPU",
        "date": datetime.date.today().isoformat(),
        "command": "python3 tools/weights_parity.py --save",
        "columns": [{"title": title, "align": "right" if index else "left"} for index, title in enumerate(titles)],
        "rows": rows,
        "figures": {},
    }
    path = root / "docs/tables/hugging-face.json"
    path.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--target", type=Path, default=root / "target/release")
    parser.add_argument("--save", action="store_true", help="writes docs/tables/hugging-face.json")
    parser.add_argument("--only-hugging-face", action="store_true", help="leaves out all other networks")
    parser.add_argument("archs", nargs="*", default=["resnet18", "resnet50", "resnet101"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(arguments.target.resolve(), Path(folder))
        if not arguments.only_hugging_face:
            for arch in arguments.archs:
                reading(tools, arch)
                writing(tools, arch)
            recurrent(tools, "lstm")
            recurrent(tools, "gru")
            gpt2(tools)
            vit(tools)
        rows = [hugging_face(tools, number, *row) for number, row in enumerate(of_hugging_face())]
    if arguments.save and not worst:
        save(root, rows)
    sys.exit(1 if worst else 0)


if __name__ == "__main__":
    main()
