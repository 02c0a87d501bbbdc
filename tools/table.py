"""A measured table: printed row by row, and saved for the documents as docs/tables/NAME.json."""

import datetime
import json
import os
import pathlib

FOLDER = pathlib.Path(__file__).parents[1] / "docs/tables"


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    names = [line.split(": ")[1] for line in info.splitlines() if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {names[0] if names else 'an unknown processor'}" + ", AVX-512" * (" avx512f" in info)


def generation():
    """The widest instructions that multiply matrices: `amx`, `avx512`, `avx512-intel` or `avx2`. Intel's processors have AVX-512 with
    other rates than AMD's."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    if " amx_bf16" in info:
        return "amx"
    if " avx512f" not in info:
        return "avx2"
    return "avx512-intel" if "GenuineIntel" in info else "avx512"


class Table:
    """Titles that begin with `>` are of columns of numbers."""

    def __init__(self, command, *titles):
        self.command, self.rows, self.figures = command, [], {}
        self.columns = [{"title": title.lstrip(">"), "align": "right" if title.startswith(">") else "left"}
                        for title in titles]
        rules = ["---:" if column["align"] == "right" else "---" for column in self.columns]
        print(f"| {' | '.join(column['title'] for column in self.columns)} |\n|{'|'.join(rules)}|", flush=True)

    def add(self, *cells):
        self.rows.append([str(cell) for cell in cells])
        print(f"| {' | '.join(self.rows[-1])} |", flush=True)

    def save(self, name, more_machine=""):
        """`cargo xtask docs` shows it in the documents."""
        line = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        lines = lambda values: "[\n    " + ",\n    ".join(map(line, values)) + "\n  ]"
        FOLDER.mkdir(exist_ok=True)
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        (FOLDER / f"{name}.json").write_text(
            f'{{\n  "machine": {line(machine() + more_machine)},\n  "date": {line(today)},\n  "command": {line(self.command)},\n'
            f'  "columns": {lines(self.columns)},\n  "rows": {lines(self.rows)},\n  "figures": {line(self.figures)}\n}}\n')
