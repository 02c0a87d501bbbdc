#!/usr/bin/env python3
"""Opens an MLflow file store in MLflow's own UI, in headless Chromium: its list of runs, and each run. Takes half a minute.

    PYTHON tools/mlflow_ui_check.py [--screenshots FOLDER] STORE

PYTHON has `pip install mlflow==3.17.2`; `mlflow-skinny` has no UI. Uses the browser of browser_check.py, and a port of this machine
alone. Exits with 1 where the UI does not show a run with its name, last metrics, parameters, curves and config.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from browser_check import Browser, Failure, check, free_port

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"

SECONDS_TO_START = 120
SECONDS_TO_SHOW = 120
# At least as many charts fit the window.
CURVES_IN_VIEW = 2


class Server:
    """`mlflow server` on a free port. It starts processes of its own, which end with it."""

    def __init__(self, store):
        port = free_port()
        self.root = f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile("w+")
        words = ["server", "--backend-store-uri", store.as_uri(), "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        self.process = subprocess.Popen([sys.executable, "-m", "mlflow", *words], cwd=store.parent, stdout=self.log,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def wait(self):
        last = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < last and self.process.poll() is None:
            try:
                return urllib.request.urlopen(f"{self.root}/health", timeout=5).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        self.log.seek(0)
        raise Failure(f"mlflow server does not start: {self.log.read()[-2000:]}")

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def wait_for(look, otherwise):
    """What `look()` gives once it is true; a failure with the sentence of `otherwise()` where it does not become so."""
    last = time.monotonic() + SECONDS_TO_SHOW
    while not (found := look()):
        check(time.monotonic() < last, otherwise())
        time.sleep(0.2)
    return found


def shows(browser, url, words):
    """Opens the address, and waits until the page has all of the words."""
    browser.call("POST", f"{browser.session}/url", {"url": "about:blank"})
    browser.call("POST", f"{browser.session}/url", {"url": url})

    def text():
        return browser.run("return document.body.innerText")

    wait_for(lambda: all(word in text() for word in words),
             lambda: f"{url} does not show {[word for word in words if word not in text()]}: {text()[:2000]}")


def number(value):
    """A value as the UI writes it."""
    return str(int(value)) if value == int(value) else repr(value)


def check_run(browser, shoot, root, run):
    page = f"{root}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
    words = [run.info.run_name, f"Metrics ({len(run.data.metrics)})", f"Parameters ({len(run.data.params)})", "Finished"]
    shows(browser, page, words)
    shoot("run")
    shown = browser.run("return document.body.innerText")
    missing = [key for key in run.data.metrics if key not in shown]
    check(not missing, f"{page} lacks the metrics {missing}")
    loss = number(run.data.metrics["loss/train"])
    check(loss in shown, f"{page} lacks the last loss, {loss}")
    # A chart says below its curve whose it is, before it draws the curve.
    shows(browser, f"{page}/model-metrics", [f"{run.info.run_name} (loss/train)", f"{run.info.run_name} (accuracy/eval)"])

    def drawn():
        return browser.run("return document.querySelectorAll('.js-plotly-plot .scatterlayer .trace').length")

    curves = wait_for(lambda: (count := drawn()) >= CURVES_IN_VIEW and count,
                      lambda: f"{page}/model-metrics draws {drawn()} curves")
    shoot("curves")
    shows(browser, f"{page}/artifacts", ["config.toml"])
    return curves


def check_store(browser, shoot, server, store):
    import mlflow

    client = mlflow.MlflowClient(store.as_uri())
    count = 0
    for experiment in client.search_experiments():
        runs = client.search_runs([experiment.experiment_id])
        if not runs:
            continue
        names = [run.info.run_name for run in runs]
        heading = f"{len(runs)} matching run{'s' * (len(runs) != 1)}"
        shows(browser, f"{server.root}/#/experiments/{experiment.experiment_id}/runs", [experiment.name, *names, heading])
        shoot(f"{experiment.name}-runs")
        for run in runs:
            curves = check_run(browser, shoot, server.root, run)
            print(f"{experiment.name}, {run.info.run_name}: {len(run.data.metrics)} metrics, {curves} curves in view")
            count += 1
    check(count, "the store has no runs")


def main():
    parser = argparse.ArgumentParser(description="Opens an MLflow file store in MLflow's own UI.")
    parser.add_argument("store", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path, help="a folder for pictures of the pages")
    arguments = parser.parse_args()

    def shoot(name):
        if arguments.screenshots:
            arguments.screenshots.mkdir(parents=True, exist_ok=True)
            browser.screenshot(arguments.screenshots / f"{name}.png")

    store = arguments.store.resolve()
    server, browser = Server(store), None
    try:
        browser = Browser(1400, 1000)
        server.wait()
        check_store(browser, shoot, server, store)
    except Failure as failure:
        sys.exit(f"error: {failure}")
    finally:
        if browser:
            browser.close()
        server.close()


if __name__ == "__main__":
    main()
