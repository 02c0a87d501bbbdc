#!/bin/bash
# Four workers of one study, on the GPUs that Slurm gives them. They share the folder in which this is submitted:
#
#     sbatch examples/tune-slurm.sh configs/tune-photos.toml
#
# A worker that Slurm ends pauses its trials; the others, or the same job submitted again, continue them.
#SBATCH --job-name=oomph-tune
#SBATCH --array=0-3
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
#SBATCH --time=08:00:00
#SBATCH --signal=TERM@60
set -euo pipefail

exec srun oomph tune --config "$1" --devices "${OOMPH_DEVICES:-cuda:0}"
