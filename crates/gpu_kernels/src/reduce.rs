//! Reductions over the threads of a cube, in a fixed order.

use cubecl::prelude::*;

/// The most planes of a cube.
const PLANES: usize = 32;

/// The sum over all threads of the cube, in each of them. All threads call it, and the cube has whole planes.
#[cube]
pub(crate) fn cube_sum(value: f32) -> f32 {
    let mut of_planes = Shared::<[f32]>::new_slice(PLANES);
    let of_plane = plane_sum(value);
    // An earlier reduction may have the same memory.
    sync_cube();
    if UNIT_POS_PLANE == 0 {
        of_planes[(UNIT_POS / PLANE_DIM) as usize] = of_plane;
    }
    sync_cube();
    let mut total = 0.0f32;
    for plane in 0..CUBE_DIM / PLANE_DIM {
        total += of_planes[plane as usize];
    }
    total
}

/// The greatest value over all threads of the cube, as [`cube_sum`].
#[cube]
pub(crate) fn cube_max(value: f32) -> f32 {
    let mut of_planes = Shared::<[f32]>::new_slice(PLANES);
    let of_plane = plane_max(value);
    sync_cube();
    if UNIT_POS_PLANE == 0 {
        of_planes[(UNIT_POS / PLANE_DIM) as usize] = of_plane;
    }
    sync_cube();
    let mut greatest = of_planes[0];
    for plane in 1..CUBE_DIM / PLANE_DIM {
        greatest = max(greatest, of_planes[plane as usize]);
    }
    greatest
}
