"""Types what a newcomer types in the first week, good commands and bad ones, and checks how oomph answers.

    python3 tools/week_one.py target/release/oomph

It runs the commands in an empty folder with small data of its own, and writes a transcript with command, exit code, seconds and
output to target/week-one.txt. It fails where

- oomph panics, or calls an error internal;
- a good command does not end with 0, or prints an error;
- a bad command ends with 0, or its message does not start with `error:`, or is empty behind that;
- a line of `--help`, or of the tables of `plan` and `runs`, is longer than 80 columns.

Read the transcript line by line after a change of messages: no check sees whether a hint helps. `--only WORD` runs the commands
that contain the word, and those before it that it may need.
"""

import argparse
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 80
MOST_SECONDS = 300

# Each line is a command. `!` marks a bad one. `|80` behind a command means that its output is no wider than 80 columns.
COMMANDS = """
# Looking around
--version
--help |80
help
help train |80
train --help |80
evaluate --help |80
predict --help |80
plan --help |80
find-batch --help |80
find-lr --help |80
profile --help |80
compare --help |80
tune --help |80
runs --help |80
export --help |80
monitor --help |80
doctor --help |80
verify-gpu --help |80
summary --help |80
config --help |80
devices --help |80
completions --help |80
! trian
! train --hlep
!
devices
devices --json
doctor
doctor --json
monitor --once
completions bash
! completions tcsh
config
config resnet --json
config lstm
! config nowhere
summary resnet
summary resnet --batch 8 --json
summary lstm-lm
! summary resnet --batch 0
# A first training
train resnet --steps 4
train --config resnet --steps 4 --quiet
train resnet --steps 4 --json
train resnet --steps 4 --quiet --json
train lstm --steps 4 --batch 8 --lr 0.01 --seed 3
train lstm --epochs 1 --set train.batch=512
train tiny.toml
train tiny --set train.steps=3 --set run.directory=out
train synthetic-resnet50 --steps 1 --batch 2 --set data.height=32 --set data.width=32 --set data.train_samples=4 --set data.test_samples=2
! train tiny.toml --set run.directory=out
! train nothing.toml
! train broken.toml
! train typo.toml
! train resnet --set train.bacth=3
! train resnet --set train.batch
! train resnet --set batch=3
! train resnet --set train.batch=many
! train resnet --set train.batch=-1
! train resnet --batch 0
! train resnet --batch 5000000000
! train resnet --epochs 0
! train resnet --lr 0
! train resnet --lr nan
! train resnet --lr fast
! train resnet --set optimizer.name=adma
! train resnet --set model.name=resnet20
! train resnet --set train.max_epochs=3
! train resnet --set trainer.max_epochs=3
! train resnet --set memory.precision=fp8
! train resnet --set memory.limit=8
! train resnet --memory-limit 8
! train resnet --memory-limit lots
! train resnet --gpu 0
! train resnet --devices cuda:0
! train resnet --devices gpu
! train resnet --devices cpu,cpu --strategy fsdp
! train resnet --strategy pipeline
! train resnet --set train.patience=0
! train lstm --lr 3e38 --steps 40 --quiet
! train resnet tiny.toml
! train resnet --resume nowhere
! train --onnx
# Memory
plan resnet |80
plan resnet --batch 8,32 |80
plan resnet --batch 8 --json
plan resnet --gpu 8GiB |80
plan resnet --gpu 24G --batch 64 |80
plan resnet50-imagenet --gpu "RTX 4090" --batch 64 |80
plan synthetic-resnet50 --gpu 8GB --batch 128
plan resnet --html plan.html --svg plan.svg
! plan resnet --html plan.html
plan resnet --html plan.html --force
plan pipeline |80
plan ddp |80
plan resnet --set memory.recompute=auto --memory-limit 12MiB
! plan resnet --gpu 24
! plan resnet --gpu "RTX 9999"
! plan resnet --batch 0
! plan resnet --batch eight
train resnet --steps 2 --memory-limit 1GiB
! train resnet --steps 2 --memory-limit 4MiB
! train resnet --steps 2 --memory-limit 8MiB
train resnet --steps 2 --batch 64 --memory-limit 12MiB --set memory.on_oom=adapt
train lstm --steps 2 --set memory.micro_batch=4
train lstm --steps 2 --set memory.precision=bf16
train resnet --steps 2 --set memory.recompute=stages
! train resnet --set memory.micro_batch=7 --batch 4
find-batch resnet --max 64
find-batch resnet --memory-limit 20MiB --json
! find-batch resnet --min 9 --max 3
! find-batch resnet --memory-limit 1MiB
find-lr lstm --steps 20
! find-lr lstm --from 1 --to 0.1
profile lstm --steps 1
profile lstm --steps 1 --html page.html
! profile lstm --steps 0
compare lstm --optimizers sgd,adamw --steps 3
compare resnet --batches 8,16 --plan-only
compare lstm --recompute none,stages --steps 3
! compare lstm
! compare lstm --optimizers adamm
# Several devices
train resnet --steps 2 --devices cpu,cpu
train ddp --steps 2
train pipeline --steps 2
train model --steps 2
train dp --steps 1 --set data.source=synthetic --set data.kind=tokens
! train resnet --devices cpu,cpu --batch 1
# Models that were trained
runs |80
runs --json
runs --sort accuracy |80
runs runs/resnet runs/resnet-2 |80
! runs nowhere
! runs --sort beauty
evaluate runs/resnet
evaluate runs/resnet/best --json
evaluate runs/resnet/4 --confusion matrix.svg
evaluate --config resnet
evaluate resnet
! evaluate lstm-lm
! evaluate missing.toml
! evaluate runs/resnet/400
! evaluate nowhere
! evaluate runs/resnet --weights missing.safetensors
train --resume runs/resnet --steps 6
train resnet --resume --steps 6 --set run.directory=runs/resnet
! train lstm --resume runs/resnet
export runs/resnet --to weights.safetensors
! export runs/resnet --to weights.safetensors
export runs/resnet --to weights.safetensors --force
export runs/resnet --to weights.onnx
export resnet -o again.safetensors
! export runs/resnet --to weights.pt
! export runs/resnet
evaluate --weights weights.safetensors --config resnet
evaluate --weights weights.safetensors resnet
! evaluate --weights weights.safetensors runs/resnet
train resnet --steps 1 --set model.weights=weights.safetensors
! train lstm --steps 1 --set model.weights=weights.safetensors
! train resnet --set model.weights=notes.txt
! train resnet --set model.freeze=layer9
! train resnet --set 'model.freeze=["layer9"]'
predict runs/resnet grey.png
predict runs/resnet grey.png --top 2 --json
predict resnet grey.png
! predict grey.png resnet
! predict runs/nowhere grey.png
! predict runs/resnet
! predict runs/resnet missing.png
! predict runs/resnet notes.txt
! predict runs/resnet --prompt hello
# Own data
train resnet-folder --set data.path=photos --steps 2 --batch 4
! train resnet-folder
! train resnet-folder --set data.path=nowhere
! train resnet-folder --set data.path=empty
! train resnet-folder --set data.path=notes.txt
predict runs/resnet-folder photos/red
evaluate resnet-folder
train lstm-lm --set data.path=notes.txt --set data.steps=8 --set data.held_out=0.2 --steps 2 --batch 2
predict runs/lstm-lm --prompt the --length 5 --seed 1
! predict runs/lstm-lm
! train lstm-lm --set data.path=korean.txt --steps 2
! train mnist
! train resnet18-cifar10 --steps 1
train series.toml --steps 3
! train series.toml --set data.columns=nothing
! train series.toml --set data.horizon=1000
# From a folder to a config
init --help |80
data --help |80
init photos --to mine.toml
! init photos --to mine.toml
init photos --to mine.toml --force
init photos --to big.toml --gpu "RTX 3060 12GB" --json
! init photos --to other.toml --gpu "RTX 3060"
! init nowhere
! init empty
! init notes.md
data mine.toml
data mine.toml --preview sheet.png
! data photos
! train photos
train mine.toml --epochs 2 --batch 4
train mine.toml --epochs 2 --batch 4 --set train.swa=0.4 --set run.directory=swa
! train mine.toml --set train.swa=75
! train mine.toml --set train.swa=0.5 --set train.ema=0.9
init tags.csv --to tags.toml
data tags.toml
train tags.toml --epochs 2 --batch 4
evaluate runs/tags
predict runs/tags photos/red/0.png
export runs/tags --to tags.onnx
! train tags.toml --set train.task=classification
! train tags.toml --set data.sampling=balanced
# Searching
tune tune-digits --plan 4
tune small-search.toml
tune small-search.toml --status
tune small-search.toml --best best.toml
train best.toml --steps 2
! tune resnet
! tune small-search.toml --replay --name nobody
"""

TINY = """
[model]
name = "resnet18"
stem = "small"
width = 4

[data]
source = "digits"

[train]
steps = 6
batch = 16
"""

SERIES = """
[model]
name = "lstm"
hidden = 8

[data]
source = "csv"
path = "series.csv"
columns = ["value"]
targets = ["value"]
steps = 8
horizon = 1

[train]
batch = 4
"""

SEARCH = """
extends = "lstm"

[train]
epochs = 1
batch = 256

[tune]
trials = 2

[tune.space]
"optimizer.lr" = { low = 1e-4, high = 1e-2, log = true }
"""


def png(path, width, height, colour):
    """Writes a picture of one colour: one number is grey, three are red, green and blue."""
    kind = 0 if len(colour) == 1 else 2
    rows = (b"\0" + bytes(colour) * width) * height

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def prepare(folder):
    """The files of a newcomer, right and wrong."""
    png(folder / "grey.png", 8, 8, (90,))
    for name, colour in {"red": (220, 20, 20), "green": (20, 220, 20)}.items():
        for number in range(8):
            png(folder / "photos" / name / f"{number}.png", 20, 16, colour)
    (folder / "empty").mkdir()
    (folder / "notes.txt").write_text("the cat sat on the mat and the dog ate the rat\n" * 20)
    (folder / "korean.txt").write_bytes("안녕하세요 세계\n".encode("cp949") * 50)
    (folder / "series.csv").write_text("time,value\n" + "".join(f"{i},{i % 7}\n" for i in range(60)))
    tagged = [("red", "warm"), ("green", "cold")]
    rows = [f"photos/{name}/{number}.png,{name}{'|' + tag if number % 2 else ''}" for name, tag in tagged for number in range(8)]
    (folder / "tags.csv").write_text("file,tags\n" + "\n".join(rows) + "\n")
    (folder / "tiny.toml").write_text(TINY)
    (folder / "series.toml").write_text(SERIES)
    (folder / "small-search.toml").write_text(SEARCH)
    (folder / "broken.toml").write_text("[train\nbatch = 3\n")
    (folder / "typo.toml").write_text("[train]\nbatchsize = 3\n")


def commands():
    """Each command as (words, whether it is bad, whether its width is checked); headings as text."""
    for line in COMMANDS.strip().splitlines():
        if line.startswith("#"):
            yield line
            continue
        is_bad = line.startswith("!")
        text, _, width = line.lstrip("! ").partition("|")
        yield shlex.split(text), is_bad, width.strip() == str(COLUMNS)


def run(program, words, folder):
    """Exit code, output, errors and seconds of a command."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("OOMPH_")}
    settings |= {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "XDG_CACHE_HOME": str(folder / ".cache")}
    start = time.monotonic()
    try:
        done = subprocess.run(
            [program, *words], cwd=folder, env=settings, stdin=subprocess.DEVNULL, capture_output=True, timeout=MOST_SECONDS
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        code, out, err = None, late.stdout or b"", late.stderr or b""
    return code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), time.monotonic() - start


def faults(code, out, err, is_bad, is_narrow):
    """What is wrong with an answer."""
    both = out + err
    if code is None:
        yield f"it takes longer than {MOST_SECONDS} seconds"
    for word in ["panicked", "RUST_BACKTRACE", "stack backtrace", "internal error"]:
        if word in both:
            yield f"the output has `{word}`"
    errors = [line for line in err.splitlines() if line.startswith("error:")]
    if is_bad:
        if code == 0:
            yield "exit code 0 for a bad command"
        if code != 0 and not any(line.removeprefix("error:").strip() for line in errors) and "Usage:" not in err:
            yield "no `error:` with a text"
    else:
        if code != 0:
            yield f"exit code {code} for a good command"
        if errors:
            yield "an error for a good command"
    if is_narrow:
        wide = [line for line in out.splitlines() if len(line) > COLUMNS]
        if wide:
            yield f"{len(wide)} lines wider than {COLUMNS} columns, such as `{wide[0]}`"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="the oomph program")
    parser.add_argument("--only", metavar="WORD", help="print the answers to commands with this word")
    parser.add_argument("--keep", action="store_true", help="keep the folder, and print its path")
    arguments = parser.parse_args()
    program = str(arguments.program.resolve(strict=True))
    folder = Path(tempfile.mkdtemp(prefix="oomph-week-one-"))
    prepare(folder)
    transcript, wrong, count = [], [], 0
    for entry in commands():
        if isinstance(entry, str):
            transcript.append(f"\n{entry}\n")
            continue
        words, is_bad, is_narrow = entry
        command = shlex.join(["oomph", *words])
        code, out, err, seconds = run(program, words, folder)
        count += 1
        found = list(faults(code, out, err, is_bad, is_narrow))
        wrong += [f"{command}: {fault}" for fault in found]
        marks = "".join(f"!! {fault}\n" for fault in found)
        answer = f"$ {command}\n-> {code}, {seconds:.1f} s{', bad on purpose' if is_bad else ''}\n{marks}{out}{err}\n"
        transcript.append(answer)
        if arguments.only and arguments.only in command:
            print(answer)
    path = ROOT / "target" / "week-one.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(transcript))
    if arguments.keep:
        print(f"the folder is {folder}")
    else:
        shutil.rmtree(folder)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    print(f"{count} commands, {len(wrong)} faults; transcript in {path}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
