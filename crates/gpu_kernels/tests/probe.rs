#![cfg(feature = "cuda")]
#![allow(dead_code, unreachable_pub)]
mod common;
use burn_backend::{DType, cubecl::dtype_to_storage_type, TensorMetadata};
use burn_cubecl::{ops::permute, kernel::into_contiguous};
use common::*;
use cubek::{
    convolution::{AcceleratedTileKind, ConvAlgorithm, ConvolutionArgs, ConvolutionInputs, Strategy, launch_ref},
    matmul::definition::{MatmulElems, MatmulGlobalElems},
    std::InputBinding,
};

#[test]
fn probe() {
    if !has_driver() { return; }
    let dtype = if std::env::var("F32").is_ok() { DType::F32 } else { DType::F16 };
    for (batch, cin, cout, size, k) in [
        (2, 16, 16, 8, 3), (2, 16, 32, 8, 3), (2, 32, 16, 8, 3), (2, 32, 32, 8, 3), (2, 32, 64, 8, 3), (2, 64, 64, 4, 3),
        (2, 16, 32, 8, 1), (2, 32, 64, 4, 1), (2, 64, 256, 4, 1), (2, 3, 16, 8, 3), (2, 3, 64, 8, 3), (2, 48, 32, 5, 3), (2, 16, 24, 8, 3),
    ] {
        let p = k / 2;
        let x = rounded(&noise(batch * cin * size * size, 1), dtype);
        let g = rounded(&noise(batch * cout * size * size, 2), dtype);
        let mut right = vec![0.0; cout * k * k * cin];
        // NHWC
        for b in 0..batch { for y in 0..size { for z in 0..size { for o in 0..cout { let gv = g[((b * size + y) * size + z) * cout + o];
            for i in 0..k { for j in 0..k { let (yy, zz) = ((y + i) as isize - p as isize, (z + j) as isize - p as isize);
                if yy < 0 || zz < 0 || yy >= size as isize || zz >= size as isize { continue; }
                for c in 0..cin { right[((o * k + i) * k + j) * cin + c] += gv * x[((b * size + yy as usize) * size + zz as usize) * cin + c]; } } } } } } }
        let mut line = format!("b{batch} {cin}->{cout} {size} k{k}:");
        for (algorithm, tile_kind) in [
            (ConvAlgorithm::SimpleSyncCyclic, AcceleratedTileKind::Cmma),
            (ConvAlgorithm::SimpleSyncStrided, AcceleratedTileKind::Cmma),
            (ConvAlgorithm::SimpleSyncTilewise, AcceleratedTileKind::Cmma),
            (ConvAlgorithm::SimpleSyncCyclic, AcceleratedTileKind::Mma),
            (ConvAlgorithm::SimpleSyncStrided, AcceleratedTileKind::Mma),
        ] {
            let x = to_gpu(&x, &[batch, size, size, cin], dtype);
            let g = to_gpu(&g, &[batch, size, size, cout], dtype);
            let w = to_gpu(&vec![0.0; right.len()], &[cout, k, k, cin], dtype);
            let client = x.client.clone();
            let e = dtype_to_storage_type(dtype);
            let dtypes = MatmulElems::from_globals(&MatmulGlobalElems { lhs: e, rhs: e, out: e });
            let answer = launch_ref::<_, 2>(
                &Strategy::Inferred { algorithm, tile_kind }, &client,
                ConvolutionInputs::BackwardWeight { input: InputBinding::new(x.binding(), e), out_grad: InputBinding::new(g.binding(), e), weight_grad: w.clone().binding() },
                ConvolutionArgs { stride: [1, 1], padding: [p, p], dilation: [1, 1] }, dtypes);
            match answer { Ok(()) => line += &format!(" {:.0e}", error(&to_host(w), &right)), Err(e) => { let t = format!("{e:?}"); line += &format!(" E({})", &t[..t.len().min(30)]); } }
        }
        println!("{line}");
    }
    let _ = (permute::<cubecl::cuda::CudaRuntime>, into_contiguous::<cubecl::cuda::CudaRuntime>, DType::F32.size());
}
