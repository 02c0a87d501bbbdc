#!/usr/bin/env python3
"""Runs the tests of studies beside three versions of Optuna and its dashboard. Takes about 5 minutes.

    tools/study_check.py [VERSION...]

Makes a Python environment for each version in `target/optuna`, and runs `cargo test -p oomph-study` with each. A journal of
ours is opened by `load_study` and by the dashboard, and copied to SQLite. An Optuna worker runs in the same study. Enqueued
trials run in both directions. Random journals mean the same to Optuna. Exits with 1 where a test fails or was skipped.
"""

import os
import pathlib
import subprocess
import sys
import venv

VERSIONS = ["4.0.0", "4.9.0", "5.0.0"]
DASHBOARD = "optuna-dashboard==0.21.0"
ROOT = pathlib.Path(__file__).resolve().parent.parent


def environment(version):
    """The Python of an environment with this version of Optuna."""
    folder = ROOT / "target" / "optuna" / version
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"optuna=={version}", DASHBOARD], check=True)
        done.touch()
    return python


def main(versions):
    failed = []
    for version in versions or VERSIONS:
        print(f"Optuna {version}", flush=True)
        skips = ROOT / "target" / "optuna" / "skips"
        skips.unlink(missing_ok=True)
        python = environment(version)
        env = dict(os.environ, OOMPH_OPTUNA_PYTHON=str(python), OOMPH_SKIPS=str(skips))
        tests = ["cargo", "test", "--release", "-p", "oomph-study", "--test", "optuna", "--test", "processes"]
        ended = subprocess.run(tests, cwd=ROOT, env=env)
        if ended.returncode != 0 or skips.exists():
            failed.append(version)
    if failed:
        sys.exit(f"error: tests failed or were skipped with Optuna {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
