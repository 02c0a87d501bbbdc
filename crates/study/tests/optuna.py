"""What the tests of studies ask Optuna. Each command prints one line of JSON.

    optuna.py show JOURNAL...          the first study of each journal as Optuna sees it
    optuna.py work JOURNAL TRIALS      runs trials in the study `digits`
    optuna.py enqueue JOURNAL          enqueues a trial
    optuna.py copy JOURNAL DATABASE    copies the study to SQLite, and prints it from there
    optuna.py dashboard JOURNAL        serves the dashboard, prints its port, and ends with standard input
"""

import json
import sys
import threading
import warnings

# The folder of this file comes first among the modules; its name is that of the package.
sys.path.pop(0)

import optuna  # noqa: E402
from optuna.storages import JournalStorage  # noqa: E402
from optuna.storages.journal import JournalFileBackend  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.simplefilter("ignore")


def storage(path):
    return JournalStorage(JournalFileBackend(path))


def load(path):
    return optuna.load_study(study_name="digits", storage=storage(path))


def shown(study):
    trials = [
        {
            "number": trial.number,
            "state": trial.state.name.lower(),
            "values": trial.values,
            "params": trial.params,
            "steps": {str(step): value for step, value in sorted(trial.intermediate_values.items())},
            "user": trial.user_attrs,
            "system": trial.system_attrs,
            "started": trial.datetime_start is not None,
            "ended": trial.datetime_complete is not None,
        }
        for trial in study.get_trials()
    ]
    complete = [trial for trial in trials if trial["state"] == "complete"]
    return {
        "version": optuna.__version__,
        "name": study.study_name,
        "metric": study.metric_names,
        "best": study.best_value if complete and len(study.directions) == 1 else None,
        "user": study.user_attrs,
        "trials": trials,
    }


def objective(trial):
    lr = trial.suggest_float("optimizer.lr", 1e-4, 0.1, log=True)
    width = trial.suggest_int("model.width", 8, 64, step=8)
    name = trial.suggest_categorical("optimizer.name", ["sgd", "adamw"])
    trial.report(lr, 1)
    return lr * width + (name == "sgd")


def show(paths):
    return [shown(optuna.load_study(study_name="digits", storage=storage(path))) for path in paths]


def dashboard(path):
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    from optuna_dashboard import wsgi

    class Silent(WSGIRequestHandler):
        def log_message(self, *args):
            pass

    server = make_server("127.0.0.1", 0, wsgi(storage(path)), handler_class=Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


def main(command, path, *rest):
    if command == "show":
        return show([path, *rest])
    if command == "work":
        load(path).optimize(objective, n_trials=int(rest[0]))
        return None
    if command == "enqueue":
        load(path).enqueue_trial({"optimizer.lr": 0.05, "optimizer.name": "sgd"}, user_attrs={"from": "optuna"})
        return None
    if command == "copy":
        url = "sqlite:///" + rest[0]
        optuna.copy_study(from_study_name="digits", from_storage=storage(path), to_storage=url)
        return shown(optuna.load_study(study_name="digits", storage=url))
    if command == "dashboard":
        return dashboard(path)
    sys.exit(__doc__)


if __name__ == "__main__":
    answer = main(*sys.argv[1:])
    if sys.argv[1] != "dashboard":
        print(json.dumps(answer))
