//! The training loop of oomph: steps, optimizers, schedules, checkpoints.
