"""The networks of both sides: oomph's settings, and the sizes of PyTorch's equal networks."""

import re

SGD = ["optimizer.name=sgd", "optimizer.lr=0.01", "optimizer.momentum=0.9", "optimizer.weight_decay=1e-4"]
RUN = ["train.seed=0", "train.eval_every=never", "run.log_every=1", "run.save_every=never", "run.tensorboard=false"]


def images(size, classes):
    return ["data.source=synthetic", "data.kind=image", "data.channels=3", f"data.height={size}", f"data.width={size}",
            f"data.classes={classes}", "data.train_samples=1280"]


NETWORKS = {
    "resnet18": {
        "says": "ResNet-18, width 64, 32×32, batch 32",
        "batch": 32, "size": 32, "classes": 10, "evaluated": 640,
        "settings": ["model.name=resnet18", "model.stem=small", "model.width=64", *images(32, 10)],
    },
    "resnet50": {
        "says": "ResNet-50, 224×224, batch 8",
        "batch": 8, "size": 224, "classes": 1000, "evaluated": 80,
        "settings": ["model.name=resnet50", *images(224, 1000)],
    },
    "lstm": {
        "says": "LSTM, 128 → 256, 64 steps, batch 32",
        "batch": 32, "steps": 64, "features": 128, "hidden": 256, "classes": 10, "evaluated": 6400,
        "settings": ["model.name=lstm", "model.hidden=256", "model.layers=1", "data.source=synthetic",
                     "data.kind=sequence", "data.steps=64", "data.features=128", "data.classes=10",
                     "data.train_samples=1280"],
    },
    "lstm-lm": {
        "says": "LSTM language model, 256 units, 64 tokens of 64, batch 32",
        "batch": 32, "steps": 64, "hidden": 256, "classes": 64, "evaluated": 6400,
        "settings": ["model.name=lstm-lm", "model.hidden=256", "model.layers=1", "data.source=synthetic",
                     "data.kind=tokens", "data.steps=64", "data.vocabulary=64", "data.carry=false",
                     "data.train_samples=1280"],
    },
    "gpt": {
        "says": "GPT, 10 million parameters, 256 tokens of 65, batch 8",
        "batch": 8, "steps": 256, "hidden": 384, "layers": 6, "heads": 6, "classes": 65, "evaluated": 160,
        "settings": ["model.name=gpt", "model.preset=char", "data.source=synthetic", "data.kind=tokens",
                     "data.steps=256", "data.vocabulary=65", "data.carry=false", "data.train_samples=1280"],
    },
    "vit": {
        "says": "ViT-Tiny, 224×224, patches of 16×16, batch 8",
        "batch": 8, "size": 224, "classes": 1000, "evaluated": 160,
        "settings": ["model.name=vit", "model.preset=tiny", *images(224, 1000)],
    },
}


def sized(name, batch):
    """A network with another batch, where one is given."""
    network = NETWORKS[name]
    if batch is None:
        return network
    says = re.sub(r"batch \d+", f"batch {batch}", network["says"])
    return network | {"says": says, "batch": batch, "evaluated": max(network["evaluated"], 4 * batch)}
