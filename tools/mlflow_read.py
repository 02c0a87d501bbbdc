#!/usr/bin/env python3
"""Prints the runs of an MLflow file store as JSON, as `mlflow.search_runs` and `MlflowClient` see them.

    tools/mlflow_read.py STORE

Needs `pip install mlflow-skinny`. Recent versions of MLflow, such as 3.17.2, open file stores only with
`MLFLOW_ALLOW_FILE_STORE=true`, which this script sets.
"""

import json
import os
import pathlib
import sys
import warnings

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
warnings.simplefilter("ignore")

import mlflow  # noqa: E402


def run_of(client, run):
    """Everything that a client says of a run."""
    info = client.get_run(run.info.run_id).info
    history = {
        key: [[point.step, point.value, point.timestamp] for point in client.get_metric_history(info.run_id, key)]
        for key in run.data.metrics
    }
    return {
        "id": info.run_id,
        "name": info.run_name,
        "status": info.status,
        "start_time": info.start_time,
        "end_time": info.end_time,
        "artifacts": [item.path for item in client.list_artifacts(info.run_id)],
        "params": run.data.params,
        "tags": run.data.tags,
        "metrics": history,
    }


def main():
    uri = pathlib.Path(sys.argv[1]).resolve().as_uri()
    mlflow.set_tracking_uri(uri)
    client = mlflow.MlflowClient(uri)
    experiments = {}
    for experiment in client.search_experiments():
        found = mlflow.search_runs([experiment.experiment_id], output_format="list")
        experiments[experiment.name] = [run_of(client, run) for run in found]
    json.dump(experiments, sys.stdout)


if __name__ == "__main__":
    main()
