use std::{fmt, ops::Range};

use burn::tensor::{Device, Float, Int, Shape, Tensor, TensorData, kind::BridgeTensor};
use burn_backend::DType;

/// A tensor whose rank and kind (float or integer) are known at run time.
///
/// Activations between stages, parameters, gradients and statistics are of this type, where code cannot name their
/// rank. Cloning shares the storage.
#[derive(Clone, Debug)]
pub struct AnyTensor {
    bridge: BridgeTensor,
    rank: usize,
}

impl<const D: usize> From<Tensor<D>> for AnyTensor {
    fn from(tensor: Tensor<D>) -> Self {
        Self { bridge: tensor.into_bridge(), rank: D }
    }
}

impl<const D: usize> From<Tensor<D, Int>> for AnyTensor {
    fn from(tensor: Tensor<D, Int>) -> Self {
        Self { bridge: tensor.into_bridge(), rank: D }
    }
}

/// Evaluates `$body` with the constant `$D` of the value `$rank`.
macro_rules! by_rank {
    ($rank:expr, $D:ident => $body:expr) => {
        match $rank {
            1 => $crate::any_tensor::by_rank!(@ 1, $D => $body),
            2 => $crate::any_tensor::by_rank!(@ 2, $D => $body),
            3 => $crate::any_tensor::by_rank!(@ 3, $D => $body),
            4 => $crate::any_tensor::by_rank!(@ 4, $D => $body),
            5 => $crate::any_tensor::by_rank!(@ 5, $D => $body),
            6 => $crate::any_tensor::by_rank!(@ 6, $D => $body),
            // Burn's own optimizers stop at rank 8; nothing in this project makes a tensor above 5.
            rank => panic!("a tensor of rank {rank} is not supported; expected 1 to 6"),
        }
    };
    (@ $rank:literal, $D:ident => $body:expr) => {{
        const $D: usize = $rank;
        $body
    }};
}
pub(crate) use by_rank;

/// Runs `$body` with the tensor as a float `Tensor<D>` of its own rank.
macro_rules! with_rank {
    ($any:expr, $tensor:ident => $body:expr) => {{
        let (rank, bridge) = AnyTensor::into_parts($any);
        $crate::any_tensor::by_rank!(rank, D => {
            let $tensor = burn::tensor::Tensor::<D>::from_bridge(bridge);
            $body
        })
    }};
}
pub(crate) use with_rank;

impl AnyTensor {
    /// A float tensor of `values` in row-major order.
    ///
    /// # Panics
    /// Panics if the number of values is not the product of `shape`, or its rank is not 1 to 6.
    pub fn floats(values: Vec<f32>, shape: &[usize], device: &Device) -> Self {
        Self::from_data(TensorData::new(values, shape.to_vec()), device)
    }

    /// A float tensor of zeros, of 32 bits.
    ///
    /// # Panics
    /// Panics if the rank of `shape` is not 1 to 6.
    pub fn zeros(shape: &[usize], device: &Device) -> Self {
        let options = (device, DType::F32);
        by_rank!(shape.len(), D => Tensor::<D>::zeros(Shape::from(shape), options).into())
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The size of each dimension.
    pub fn dims(&self) -> Vec<usize> {
        self.bridge.shape().to_vec()
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.bridge.shape().num_elements()
    }

    /// Whether it holds floats (else integers).
    pub fn is_float(&self) -> bool {
        self.bridge.is_float()
    }

    /// The typed float tensor, or `None` where rank or kind differ.
    pub fn float<const D: usize>(self) -> Option<Tensor<D, Float>> {
        (self.rank == D && self.is_float()).then(|| Tensor::from_bridge(self.bridge))
    }

    /// The typed integer tensor, or `None` where rank or kind differ.
    pub fn int<const D: usize>(self) -> Option<Tensor<D, Int>> {
        (self.rank == D && self.bridge.is_int()).then(|| Tensor::from_bridge(self.bridge))
    }

    /// The sum of two float tensors of the same shape.
    ///
    /// # Panics
    /// Panics if ranks or shapes differ.
    #[must_use]
    #[allow(clippy::should_implement_trait)] // An operator would hide that shapes must be equal.
    pub fn add(self, other: Self) -> Self {
        assert_eq!(self.dims(), other.dims(), "tensors to add have different shapes");
        with_rank!(self, tensor => tensor.add(Tensor::from_bridge(other.bridge)).into())
    }

    /// The given `rows` of the first dimension.
    ///
    /// # Panics
    /// Panics if the tensor has fewer rows.
    #[must_use]
    pub fn rows(self, rows: Range<usize>) -> Self {
        with_rank!(self, tensor => tensor.narrow(0, rows.start, rows.len()).into())
    }

    /// Concatenates float tensors along the first dimension; a single one is returned as it is.
    ///
    /// # Panics
    /// Panics if `parts` is empty, or ranks or other dimensions differ.
    #[must_use]
    pub fn joined(parts: Vec<Self>) -> Self {
        let mut rest = parts.into_iter();
        // Stated above: a state is joined from at least one part.
        let first = rest.next().expect("there is a tensor to join");
        if rest.len() == 0 {
            return first;
        }
        with_rank!(first, tensor => {
            let parts = std::iter::once(tensor).chain(rest.map(|part| Tensor::from_bridge(part.bridge)));
            Tensor::cat(parts.collect(), 0).into()
        })
    }

    /// All elements of a float tensor in row-major order.
    pub fn flattened(self) -> Tensor<1> {
        let elements = self.elements();
        with_rank!(self, tensor => tensor.reshape([elements]))
    }

    /// The elements of a float tensor in another shape.
    ///
    /// # Panics
    /// Panics if the number of elements is not the product of `shape`, or its rank is not 1 to 6.
    #[must_use]
    pub fn shaped(self, shape: &[usize]) -> Self {
        let flat = self.flattened();
        if shape.len() == 1 {
            return flat.into();
        }
        by_rank!(shape.len(), D => flat.reshape::<D, _>(Shape::from(shape)).into())
    }

    /// Each element times `factor`.
    #[must_use]
    pub fn scale(self, factor: f32) -> Self {
        with_rank!(self, tensor => tensor.mul_scalar(factor).into())
    }

    /// Each element times the one element of `factor`, which stays on the device.
    #[must_use]
    pub fn scale_by(self, factor: Tensor<1>) -> Self {
        with_rank!(self, tensor => tensor.mul(factor.unsqueeze()).into())
    }

    /// Each element clamped to [−`bound`, `bound`].
    #[must_use]
    pub fn clamp(self, bound: f32) -> Self {
        with_rank!(self, tensor => tensor.clamp(-bound, bound).into())
    }

    /// The sum of the squares of all elements, as one element on the device.
    ///
    /// The order of summation is fixed: row by row, then over rows. Flex's full reduction is split over threads from
    /// 4,194,304 elements on and does not repeat to the bit.
    pub fn sum_of_squares(self) -> Tensor<1> {
        let elements = self.elements();
        with_rank!(self, tensor => fixed_order_sum(tensor.square().reshape([elements])))
    }

    /// One element on the device: 0 if all elements are finite, else NaN.
    ///
    /// Each element is multiplied by 0 before the sum: ∞ · 0 is NaN, and a finite element becomes 0. A sum of the elements
    /// themselves, or of their squares, may overflow though all are finite.
    #[must_use]
    pub fn zero_if_finite(self) -> Tensor<1> {
        // The 0 is a scalar argument of the GPU's kernel. cubecl folds x − x, and x · 0 with a constant, to 0
        // (`dialect/math.rs` of cubecl-ir).
        with_rank!(self, tensor => tensor.mul_scalar(0.0).sum())
    }

    /// A float tensor of the elements and the format of `data`.
    ///
    /// # Panics
    /// Panics if its rank is not 1 to 6.
    pub fn from_data(data: TensorData, device: &Device) -> Self {
        let options = (device, data.dtype);
        by_rank!(data.shape.len(), D => Tensor::<D>::from_data(data, options).into())
    }

    /// Kind and rank in words, for error messages.
    pub fn describe(&self) -> String {
        format!("{} of rank {}", if self.is_float() { "floats" } else { "integers" }, self.rank)
    }

    /// The format of its elements.
    pub fn dtype(&self) -> DType {
        if !self.is_float() {
            return Tensor::<1, Int>::from_bridge(self.bridge.clone()).dtype();
        }
        with_rank!(self.clone(), tensor => tensor.dtype())
    }

    /// The device it is on.
    pub fn device(&self) -> Device {
        if !self.is_float() {
            // Burn's primitives know no rank but that of their shape.
            return Tensor::<1, Int>::from_bridge(self.bridge.clone()).device();
        }
        with_rank!(self.clone(), tensor => tensor.device())
    }

    /// Rank and tensor, as Burn's type-erased optimizers take them.
    pub fn into_parts(self) -> (usize, BridgeTensor) {
        (self.rank, self.bridge)
    }

    /// The inverse of [`into_parts`](Self::into_parts).
    pub fn from_parts(rank: usize, bridge: BridgeTensor) -> Self {
        Self { bridge, rank }
    }
}

/// Sums a flat tensor in chunks of a fixed length, then the chunk sums.
fn fixed_order_sum(flat: Tensor<1>) -> Tensor<1> {
    const CHUNK: usize = 4096;
    let [elements] = flat.dims();
    let whole = elements / CHUNK * CHUNK;
    let in_chunks = |flat: Tensor<1>| -> Tensor<1> {
        flat.reshape::<2, _>([whole / CHUNK, CHUNK]).sum_dim(1).sum_dim(0).reshape([1])
    };
    match whole {
        0 => flat.sum_dim(0),
        // The last reader consumes it: the planner frees a tensor that an optimizer's rule still holds with the rule.
        _ if whole == elements => in_chunks(flat),
        _ => in_chunks(flat.clone().slice(0..whole)) + flat.slice(whole..elements).sum_dim(0),
    }
}

/// The tensor of rank `D` that an operation of ours has just made.
///
/// # Panics
/// Panics if the tensor has another rank, or is of integers.
pub fn ranked<const D: usize>(tensor: AnyTensor) -> Tensor<D> {
    // An operation's formula fixes the rank of its result.
    tensor.float().expect("an operation gives the rank that its formula has")
}

impl fmt::Display for AnyTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}
