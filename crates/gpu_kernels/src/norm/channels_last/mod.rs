//! The kernels for images whose channels lie last in memory: `[B, H, W, C]`. Neighbouring threads have neighbouring channels,
//! and read whole lines of a GPU's cache.

mod apply;
mod backward;
mod moments;
mod tiles;

use crate::channel_sums::Work;

/// Writing images.
const WRITING: Work = Work { cubes: 2048, alone: 4 };

pub(super) use apply::normalise;
pub(super) use backward::{backward, input_gradient, sums};
pub(super) use moments::moments;
