"""Writes crates/search/tests/golden/tpe.json: what Optuna 5.0.0's TPESampler gives to candidates, for histories of all kinds.

    python3 -m venv target/venv && target/venv/bin/pip install optuna==5.0.0 scipy==1.17.1
    target/venv/bin/python tools/golden/tpe.py

Each history is a study with Optuna's defaults, or with `group=True` where parameters depend on others. The candidates are 24 that
Optuna draws from its density of good trials, and 24 random points. Their scores come from Optuna's own functions. One thing is
replaced: `np.argsort` within `parzen_estimator.py` sorts stably. Optuna's order of trials with equal numbers is otherwise that of
numpy's sorting network for the processor at hand. `--check` prints how far the scores are from those of the original.
"""

import argparse
import json
import math
import pathlib
import random
import types
import warnings

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers._tpe import _truncnorm, parzen_estimator, sampler as tpe
from optuna.trial import TrialState, create_trial

OUT = pathlib.Path(__file__).parents[2] / "crates/search/tests/golden/tpe.json"
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "paused": TrialState.PRUNED,
          "running": TrialState.RUNNING, "infeasible": TrialState.COMPLETE, "failed": TrialState.FAIL,
          "waiting": TrialState.WAITING}

F = lambda low, high, **more: {"kind": "float", "low": low, "high": high, "step": None, "log": False} | more
I = lambda low, high, **more: {"kind": "integer", "low": low, "high": high, "step": 1, "log": False} | more
C = lambda count: {"kind": "choice", "count": count}
when = lambda domain, on, *choices: domain | {"when": [on, list(choices)]}

SPACES = {
    "floats": {"a": F(-5.0, 10.0), "b": F(0.0, 1.0)},
    "logs": {"lr": F(1e-5, 1e-1, log=True), "decay": F(1e-6, 1.0, log=True), "a": F(0.0, 1.0)},
    "steps": {"a": F(0.0, 1.0, step=0.05), "b": F(-1.5, 1.5, step=0.5)},
    "integers": {"a": I(1, 7), "b": I(-100, 1000), "c": I(8, 64, step=8)},
    "log integers": {"a": I(1, 512, log=True), "b": I(16, 1024, log=True)},
    "choices": {"a": C(2), "b": C(5), "c": C(3)},
    "mixed": {"lr": F(1e-4, 1e-1, log=True), "momentum": F(0.0, 0.99), "width": I(8, 64, step=8), "depth": I(1, 6),
              "units": I(4, 256, log=True), "kind": C(4), "drop": F(0.0, 0.9, step=0.1), "nesterov": C(2)},
    "single": {"a": F(0.0, 1.0), "b": F(2.0, 2.0), "c": C(1), "d": I(3, 3)},
    "conditions": {"kind": C(3), "lr": F(1e-4, 1e-1, log=True), "momentum": when(F(0.0, 0.99), "kind", 0),
                   "nesterov": when(C(2), "kind", 0), "beta": when(F(0.8, 0.999), "kind", 1, 2),
                   "damping": when(I(1, 9), "nesterov", 1)},
}


def distribution(domain):
    match domain["kind"]:
        case "float":
            return FloatDistribution(domain["low"], domain["high"], log=domain["log"], step=domain["step"])
        case "integer":
            return IntDistribution(domain["low"], domain["high"], log=domain["log"], step=domain["step"])
        case _:
            return CategoricalDistribution(list(range(domain["count"])))


def draw(domain, rng):
    match domain["kind"]:
        case "float" if domain["step"]:
            return min(domain["low"] + rng.randint(0, round((domain["high"] - domain["low"]) / domain["step"])) * domain["step"],
                       domain["high"])
        case "float" if domain["log"]:
            return min(max(math.exp(rng.uniform(math.log(domain["low"]), math.log(domain["high"]))), domain["low"]), domain["high"])
        case "float":
            return rng.uniform(domain["low"], domain["high"])
        case "integer" if domain["log"]:
            return round(math.exp(rng.uniform(math.log(domain["low"]), math.log(domain["high"]))))
        case "integer":
            return rng.randrange(domain["low"], domain["high"] + 1, domain["step"])
        case _:
            return rng.randrange(domain["count"])


def draw_point(space, rng):
    point = {}
    left = dict(space)
    while left:
        for name, domain in list(left.items()):
            on, choices = domain.get("when", [None, None])
            if on in left:
                continue
            del left[name]
            if on is None or point.get(on) in choices:
                point[name] = draw(domain, rng)
    return point


def history(space, count, states, seed, ties=False):
    """Trials with random points; `states` has a weight for each state."""
    rng = random.Random(seed)
    trials = []
    for number in range(count):
        point = draw_point(space, rng)
        state = rng.choices(list(states), list(states.values()))[0]
        value = rng.gauss(0, 1) + sum(float(it) for it in point.values()) * 1e-3
        value = float(round(value)) if ties else value
        trial = {"number": number, "state": state, "point": point, "value": None, "steps": [], "violation": 0.0}
        if state == "complete":
            trial["value"] = value
        if state in ("pruned", "paused", "running"):
            trial["steps"] = [[3**k, value + k * 0.1] for k in range(rng.randrange(0, 4))]
        if state == "infeasible":
            trial["violation"] = float(rng.randrange(1, 5)) if ties else rng.uniform(0.01, 3)
        trials.append(trial)
    return trials


def frozen(trial, space):
    infeasible = trial["state"] == "infeasible"
    return create_trial(
        state=STATES[trial["state"]],
        # The value of an infeasible trial does not count.
        value=trial["value"] if not infeasible else 0.0,
        params=trial["point"],
        distributions={name: distribution(space[name]) for name in trial["point"]},
        intermediate_values=dict(trial["steps"]),
        constraints={"memory": trial["violation"]} if infeasible else {},
    )


def scores(space, trials, direction, points=None, rng=None):
    """The candidates that Optuna draws, without `points`, and the sum of their groups' scores."""
    grouped = any("when" in domain for domain in space.values())
    study = optuna.create_study(direction=direction)
    for trial in trials:
        study.add_trial(frozen(trial, space))
    sampler = optuna.samplers.TPESampler(group=grouped, seed=0)
    sampler._gamma = tpe.default_gamma
    new = study.ask({})._cached_frozen_trial
    whole = sampler.infer_relative_search_space(study, new)
    groups = [whole]
    if grouped:
        searched = [{name: it for name, it in group.items() if not it.single()} for group in sampler._search_space_group.search_spaces]
        groups = [dict(sorted(group.items())) for group in searched if group]
    states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
    seen = [trial for trial in study.get_trials(deepcopy=False, states=states) if trial.number != new.number]
    count = sum(trial.state != TrialState.RUNNING for trial in seen)
    good, others = tpe._split_trials(study, seen, tpe.default_gamma(count))
    estimators = []
    for group in groups:
        estimators.append((group, *(sampler._build_parzen_estimator(study, group, part, handle_below=below)
                                    for part, below in ((good, True), (others, False)))))
    if points is None:
        points = [{} for _ in range(24)]
        for group, below, _ in estimators:
            for name, values in below.sample(np.random.RandomState(7), 24).items():
                for point, value in zip(points, values):
                    point[name] = float(value)
        for domain in space.items():
            for point in points:
                point.setdefault(domain[0], domain[1].get("low", 0))
        points = [prune(space, point) for point in points]
        points += [draw_point(space, rng) for _ in range(24)]
    sums = []
    for point in points:
        total = 0.0
        for group, below, above in estimators:
            if all(name in point for name in group):
                sample = {name: np.array([float(point[name])]) for name in group}
                total += float(sampler._compute_acquisition_func(sample, below, above)[0])
        sums.append(total)
    return points, sums


def prune(space, point):
    """Without the parameters that take no part."""
    kept = {}
    while True:
        for name, domain in space.items():
            on, choices = domain.get("when", [None, None])
            if name not in kept and (on is None or kept.get(on) in choices):
                kept[name] = point[name]
                break
        else:
            return kept


ALL = {"complete": 10, "pruned": 5, "paused": 4, "running": 3, "infeasible": 3, "failed": 2, "waiting": 1}
CASES = [
    # name, space, trials, states, direction, ties
    *[(f"{space}, {count} complete", space, count, {"complete": 1}, direction, False)
      for count, direction in ((12, "minimize"), (60, "maximize")) for space in SPACES],
    *[(f"{space}, {count} of all states", space, count, ALL, direction, ties)
      for count, direction, ties in ((30, "maximize", False), (120, "minimize", True)) for space in SPACES],
    ("mixed, pruned alone", "mixed", 40, {"pruned": 1}, "minimize", False),
    ("mixed, infeasible and few complete", "mixed", 40, {"infeasible": 9, "complete": 1}, "minimize", False),
    ("mixed, one complete among running", "mixed", 12, {"complete": 1, "running": 3}, "minimize", False),
    ("mixed, 400 of all states", "mixed", 400, ALL, "minimize", False),
]


def masses():
    """Intervals with the logarithm of their mass under a normal density."""
    ends = [(-0.5, 0.5), (-1e-3, 1e-3), (-3.0, -2.0), (2.0, 3.0), (-12.0, -11.0), (9.0, 40.0), (-35.0, -34.5), (34.0, 36.0),
            (-1.0, 8.0), (-50.0, -40.0), (-100.0, 100.0), (0.0, 1.0), (-1.0, 0.0)]
    return [[a, b, float(_truncnorm._log_gauss_mass(np.array([a]), np.array([b]))[0])] for a, b in ends]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare with the original sort")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore")
    # Everything of numpy, and a stable `argsort`.
    stable = types.SimpleNamespace(**{name: getattr(np, name) for name in dir(np) if not name.startswith("__")})
    stable.argsort = lambda values: np.argsort(values, kind="stable")
    cases = []
    for seed, (name, space, count, states, direction, ties) in enumerate(CASES):
        domains = SPACES[space]
        trials = history(domains, count, states, seed, ties)
        parzen_estimator.np = stable
        points, values = scores(domains, trials, direction, rng=random.Random(-seed))
        if arguments.check:
            parzen_estimator.np = np
            _, originals = scores(domains, trials, direction, points)
            print(f"{name}: {max(abs(a - b) for a, b in zip(values, originals)):.1e}")
        cases.append({"name": name, "direction": direction, "space": domains, "trials": trials, "candidates": points,
                      "scores": values})
    if not arguments.check:
        OUT.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        OUT.write_text(f'{{"masses":{json.dumps(masses())},\n"cases":[\n{lines}\n]}}\n')
        print(f"wrote {OUT}: {len(cases)} histories")


if __name__ == "__main__":
    main()
