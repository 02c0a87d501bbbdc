#!/usr/bin/env python3
"""Checks ONNX models with `onnx.checker`, and computes them with ONNX Runtime.

    tools/onnx_check.py FOLDER

Needs `pip install onnx onnxruntime`. A case of FOLDER is `<name>.onnx` and `<name>.json`, a list of runs with `shape` and `input`,
and the `output` that oomph computes. Prints the greatest difference of each case, relative to the greatest output or 1, and
the notes of the model as JSON. Exits with 1 where a model is invalid or a difference exceeds 1e-4.
"""

import json
import pathlib
import sys

import numpy
import onnx
import onnxruntime

TOLERANCE = 1e-4


def difference(session, run):
    """Of the runtime's output from oomph's."""
    [port] = session.get_inputs()
    kind = numpy.int64 if "int64" in port.type else numpy.float32
    given = numpy.array(run["input"], kind).reshape(run["shape"])
    [output] = session.run(None, {port.name: given})
    expected = numpy.array(run["output"], numpy.float32)
    if output.size != expected.size:
        sys.exit(f"error: the output has the shape {output.shape}, expected {expected.size} values")
    scale = max(1.0, float(numpy.abs(expected).max()))
    return float(numpy.abs(output.ravel() - expected).max()) / scale


def main():
    results = {}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        worst = max(difference(session, run) for run in json.loads(path.with_suffix(".json").read_text()))
        ports = [(port.name, port.shape) for port in [*session.get_inputs(), *session.get_outputs()]]
        notes = {note.key: note.value for note in model.metadata_props}
        opset = model.opset_import[0].version
        results[path.stem] = {"difference": worst, "ports": ports, "notes": notes, "opset": opset}
        print(f"{path.stem}: {worst:.1e}", file=sys.stderr)
        if not worst <= TOLERANCE:
            sys.exit(f"error: {path.stem} differs by {worst:.1e}, more than {TOLERANCE:.0e}")
    if not results:
        sys.exit("error: there is no model")
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
