//! Measures and plans the memory of a training step.
