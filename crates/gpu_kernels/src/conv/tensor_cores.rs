//! Products of tiles in shared memory by tensor cores (WMMA): what the kernels of a convolution have in common.

use burn_backend::DType;
use cubecl::{
    ir::{ElemType, FloatKind},
    prelude::*,
};

use crate::{launch::element, tensor::GpuTensor};

/// Rows and columns of a product of one instruction.
pub(super) const FRAGMENT: usize = 16;

/// Elements behind each row of a tile, so that neighbouring rows do not start in the same bank of shared memory.
pub(super) const ROOM: usize = 8;

/// What tensor cores multiply for an image of this format.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    /// The format in memory, and that in shared memory: 32 bits become TF32 there.
    pub(super) formats: [ElemType; 2],
    /// Products that an instruction sums.
    pub(super) step: usize,
}

impl Factors {
    /// `None` where the card has no tensor cores for the image's format.
    pub(super) fn of(image: &GpuTensor) -> Option<Self> {
        let (factor, step) = match image.dtype {
            DType::F32 => (ElemType::Float(FloatKind::TF32), 8),
            _ => (element(image), 16),
        };
        let products = &image.client.properties().features.matmul.cmma;
        let size = FRAGMENT as u32;
        let is_there = products.iter().any(|product| {
            product.a_type == factor.into()
                && (product.m, product.n, product.k) == (size, size, step as u32)
                && product.cd_type == ElemType::Float(FloatKind::F32).into()
        });
        is_there.then_some(Self { formats: [element(image), factor], step })
    }
}

/// A sum of products, as an instruction keeps it, of zeros.
#[cube]
pub(super) fn no_products(#[comptime] step: usize) -> cmma::Matrix<f32> {
    cmma::Matrix::<f32>::from_value(
        cmma::MatrixIdent::Accumulator,
        FRAGMENT,
        FRAGMENT,
        step,
        cmma::MatrixLayout::Undefined,
        0.0f32,
    )
}
