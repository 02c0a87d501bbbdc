#!/usr/bin/env python3
"""Writes the golden scores of `crates/scores/tests/golden`: metrics by scikit-learn for fixed outputs.

    python3 -m venv /tmp/sklearn
    /tmp/sklearn/bin/pip install scikit-learn==1.9.1
    /tmp/sklearn/bin/python tools/golden/scores.py

Two runs write the same bytes.
"""

import json
import math
import pathlib
import random

from sklearn import metrics

OUT = pathlib.Path(__file__).resolve().parents[2] / "crates/scores/tests/golden/scores.json"


def rounded(number):
    """A number that 32 bits hold exactly, so that Rust and Python compare the same outputs."""
    return round(number * 64) / 64


def classes(name, generator, count, samples, weights):
    """Outputs of a classifier that is right about half of the time; some classes may be absent."""
    truth = generator.choices(range(count), weights, k=samples)
    outputs = []
    for label in truth:
        # No two are equal: libraries order equal ones differently.
        logits = [rounded(generator.gauss(0, 1)) + index / 1024 for index in range(count)]
        if generator.random() < 0.5:
            logits[label] += 2
        outputs.append(logits)
    predicted = [max(range(count), key=lambda index: (row[index], -index)) for row in outputs]
    labels = list(range(count))
    present = sorted(set(truth) | set(predicted))
    each = metrics.precision_recall_fscore_support(truth, predicted, labels=labels, zero_division=0)
    macro = metrics.precision_recall_fscore_support(
        truth, predicted, labels=present, average="macro", zero_division=0
    )
    micro = metrics.precision_recall_fscore_support(truth, predicted, average="micro", zero_division=0)
    return {
        "name": name,
        "classes": count,
        "outputs": outputs,
        "truth": truth,
        "accuracy": metrics.accuracy_score(truth, predicted),
        "top_5": metrics.top_k_accuracy_score(truth, outputs, k=5, labels=labels) if count > 5 else None,
        "micro": micro[0],
        "macro": [float(value) for value in macro[:3]],
        "each": [[float(each[kind][label]) for kind in range(3)] + [int(each[3][label])] for label in labels],
        "confusion": metrics.confusion_matrix(truth, predicted, labels=labels).tolist(),
    }


def values(name, generator, features, samples):
    """Outputs of a regression with an error of a third of the spread."""
    targets = [[rounded(generator.gauss(index, 1 + index)) for index in range(features)] for _ in range(samples)]
    outputs = [[rounded(value + generator.gauss(0, 0.4)) for value in row] for row in targets]
    return {
        "name": name,
        "features": features,
        "targets": targets,
        "outputs": outputs,
        "mae": metrics.mean_absolute_error(targets, outputs),
        "rmse": math.sqrt(metrics.mean_squared_error(targets, outputs)),
        "r2": metrics.r2_score(targets, outputs),
    }


def labels(name, generator, shares, samples):
    """Outputs for labels that samples have with these shares; some labels may be absent, or never predicted."""
    truth = [[int(generator.random() < share) for share in shares] for _ in range(samples)]
    outputs = [[rounded(generator.gauss(1.5 * value - 0.75, 1)) for value in row] for row in truth]
    if len(shares) > 3:
        outputs = [[min(row[0], -1.0)] + row[1:] for row in outputs]
    predicted = [[int(value >= 0) for value in row] for row in outputs]
    count = range(len(shares))
    column = lambda rows, label: [row[label] for row in rows]
    sampled = [label for label in count if any(column(truth, label))]
    present = [label for label in count if any(column(truth, label)) or any(column(predicted, label))]
    average = lambda kind, chosen: metrics.precision_recall_fscore_support(
        truth, predicted, labels=chosen, average=kind, zero_division=0
    )
    each = metrics.precision_recall_fscore_support(truth, predicted, average=None, zero_division=0)
    precision = lambda label: float(metrics.average_precision_score(column(truth, label), column(outputs, label)))
    confusion = metrics.multilabel_confusion_matrix(truth, predicted).tolist()
    only = lambda rows: [[row[label] for label in sampled] for row in rows]
    return {
        "name": name,
        "labels": len(shares),
        "outputs": outputs,
        "truth": truth,
        "exact": metrics.accuracy_score(truth, predicted),
        "label_accuracy": 1 - metrics.hamming_loss(truth, predicted),
        "micro": [float(value) for value in average("micro", None)[:3]],
        "macro": [float(value) for value in average("macro", present)[:3]],
        "map": float(metrics.average_precision_score(only(truth), only(outputs), average="macro")),
        "each": [[float(each[kind][label]) for kind in range(3)] for label in count],
        "average_precision": [precision(label) if label in sampled else None for label in count],
        # tp, fp, fn
        "counts": [[confusion[label][1][1], confusion[label][0][1], confusion[label][1][0]] for label in count],
    }


def main():
    generator = random.Random(7)
    golden = {
        "classes": [
            classes("two classes", generator, 2, 60, [3, 1]),
            classes("ten classes", generator, 10, 400, [1] * 10),
            classes("absent classes", generator, 8, 40, [5, 0, 3, 1, 0, 0, 2, 0]),
        ],
        "values": [values("one value", generator, 1, 50), values("three values", generator, 3, 80)],
        "labels": [
            labels("two labels", generator, [0.4, 0.7], 50),
            labels("three labels", generator, [0.5, 0.2, 0.8], 120),
            labels("rare and absent labels", generator, [0.3, 0.02, 0.0, 0.5, 0.05], 90),
        ],
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
