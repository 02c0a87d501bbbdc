use std::{fmt, ops::Range};

use burn::tensor::{
    Device, Float, GradientCheckpointingStrategy, Int, Tensor, TensorData, kind::BridgeTensor,
};

use burn_backend::{AutodiffBackend, BackendTypes, DType, tensor::FloatTensor};

use crate::{Policy, autodiff, backends::Plain};

/// A tensor whose rank and kind (float or integer) are known at run time.
///
/// What flows between stages, and how parameters, gradients and statistics are handled without their rank in a
/// type. Cloning shares the storage.
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

/// Runs `$body` with the tensor as a float `Tensor<D>` of its own rank.
macro_rules! with_rank {
    ($any:expr, $tensor:ident => $body:expr) => {{
        let any: AnyTensor = $any;
        match any.rank {
            1 => with_rank!(@ any, 1, $tensor => $body),
            2 => with_rank!(@ any, 2, $tensor => $body),
            3 => with_rank!(@ any, 3, $tensor => $body),
            4 => with_rank!(@ any, 4, $tensor => $body),
            5 => with_rank!(@ any, 5, $tensor => $body),
            6 => with_rank!(@ any, 6, $tensor => $body),
            // Burn's own optimizers stop at rank 8; nothing in this project makes a tensor above 5.
            rank => panic!("a tensor of rank {rank} is not supported; expected 1 to 6"),
        }
    }};
    (@ $any:ident, $rank:literal, $tensor:ident => $body:expr) => {{
        let $tensor = Tensor::<$rank>::from_bridge($any.bridge);
        $body
    }};
}

impl AnyTensor {
    /// A float tensor of `values` in row-major order.
    ///
    /// # Panics
    /// Panics if the number of values is not the product of `shape`, or its rank is not 1 to 6.
    pub fn floats(values: Vec<f32>, shape: &[usize], device: &Device) -> Self {
        let data = TensorData::new(values, shape.to_vec());
        match shape.len() {
            1 => Tensor::<1>::from_data(data, device).into(),
            2 => Tensor::<2>::from_data(data, device).into(),
            3 => Tensor::<3>::from_data(data, device).into(),
            4 => Tensor::<4>::from_data(data, device).into(),
            5 => Tensor::<5>::from_data(data, device).into(),
            6 => Tensor::<6>::from_data(data, device).into(),
            // Stated above: shapes come from sources and parameters, which have rank 1 to 6.
            rank => panic!("a tensor of rank {rank} is not supported; expected 1 to 6"),
        }
    }

    /// A float tensor of zeros.
    ///
    /// # Panics
    /// Panics if the rank of `shape` is not 1 to 6.
    pub fn zeros(shape: &[usize], device: &Device) -> Self {
        match *shape {
            [a] => Tensor::<1>::zeros([a], device).into(),
            [a, b] => Tensor::<2>::zeros([a, b], device).into(),
            [a, b, c] => Tensor::<3>::zeros([a, b, c], device).into(),
            [a, b, c, d] => Tensor::<4>::zeros([a, b, c, d], device).into(),
            [a, b, c, d, e] => Tensor::<5>::zeros([a, b, c, d, e], device).into(),
            [a, b, c, d, e, f] => Tensor::<6>::zeros([a, b, c, d, e, f], device).into(),
            // Stated above, as for `floats`.
            _ => panic!("a tensor of rank {} is not supported; expected 1 to 6", shape.len()),
        }
    }

    /// Zeros in another format than 32 bits.
    ///
    /// # Panics
    /// As those of [`zeros`](Self::zeros).
    pub fn zeros_as(shape: &[usize], dtype: DType, device: &Device) -> Self {
        let options = (device, dtype);
        match *shape {
            [a] => Tensor::<1>::zeros([a], options).into(),
            [a, b] => Tensor::<2>::zeros([a, b], options).into(),
            [a, b, c] => Tensor::<3>::zeros([a, b, c], options).into(),
            [a, b, c, d] => Tensor::<4>::zeros([a, b, c, d], options).into(),
            [a, b, c, d, e] => Tensor::<5>::zeros([a, b, c, d, e], options).into(),
            [a, b, c, d, e, f] => Tensor::<6>::zeros([a, b, c, d, e, f], options).into(),
            // Stated above, as for `floats`.
            _ => panic!("a tensor of rank {} is not supported; expected 1 to 6", shape.len()),
        }
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

    /// Takes the tensor off the autodiff graph, onto the plain device. A plain one is returned as it is, and so are
    /// integers, which are in no graph.
    #[must_use]
    pub fn inner(self) -> Self {
        if !self.is_float() {
            return self;
        }
        with_rank!(self, tensor => autodiff::inner(tensor).into())
    }

    /// Puts a plain float tensor onto the autodiff device as a leaf; `trainable` asks for its gradient. Integers are
    /// returned as they are.
    #[must_use]
    pub fn tracked(self, trainable: bool) -> Self {
        self.tracked_as(trainable, GradientCheckpointingStrategy::Disabled)
    }

    /// As [`tracked`](Self::tracked), to take the place of `other` among tensors of the same device: where that is plain,
    /// so is this.
    #[must_use]
    pub fn tracked_like(self, other: &Self, trainable: bool) -> Self {
        if !other.device().is_autodiff() {
            return self.inner();
        }
        self.tracked_as(trainable, other.device().gradient_checkpointing_strategy())
    }

    /// As [`tracked`](Self::tracked), among tensors of that strategy.
    #[must_use]
    pub fn tracked_as(self, trainable: bool, strategy: GradientCheckpointingStrategy) -> Self {
        if !self.is_float() {
            return self;
        }
        with_rank!(self, tensor => autodiff::outer_as(tensor, strategy).set_require_grad(trainable).into())
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

    /// The part `rows` of the first dimension.
    ///
    /// # Panics
    /// Panics if there are fewer rows.
    #[must_use]
    pub fn rows(self, rows: Range<usize>) -> Self {
        with_rank!(self, tensor => tensor.narrow(0, rows.start, rows.len()).into())
    }

    /// Float tensors side by side along the first dimension; a single one as it is.
    ///
    /// # Panics
    /// Panics if there is none, or ranks or other dimensions differ.
    #[must_use]
    pub fn joined(parts: Vec<Self>) -> Self {
        let mut rest = parts.into_iter();
        // Stated above: a state is joined of the parts that there are.
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
        match *shape {
            [_] => flat.into(),
            [a, b] => flat.reshape([a, b]).into(),
            [a, b, c] => flat.reshape([a, b, c]).into(),
            [a, b, c, d] => flat.reshape([a, b, c, d]).into(),
            [a, b, c, d, e] => flat.reshape([a, b, c, d, e]).into(),
            [a, b, c, d, e, f] => flat.reshape([a, b, c, d, e, f]).into(),
            // Stated above, as for `floats`.
            _ => panic!("a tensor of rank {} is not supported; expected 1 to 6", shape.len()),
        }
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

    /// Each element moved into [−`bound`, `bound`].
    #[must_use]
    pub fn clamp(self, bound: f32) -> Self {
        with_rank!(self, tensor => tensor.clamp(-bound, bound).into())
    }

    /// The sum of the squares of all elements, as one element on the device.
    ///
    /// Summed row by row and then over rows, so that the order of summation is fixed: Flex's full reduction is
    /// split over threads from 4,194,304 elements on and does not repeat to the bit.
    pub fn sum_of_squares(self) -> Tensor<1> {
        let elements = self.elements();
        with_rank!(self, tensor => fixed_order_sum(tensor.square().reshape([elements])))
    }

    /// One element on the device: 0 where all elements are finite, else not a number.
    ///
    /// Each element is multiplied by 0 first: ∞ · 0 is not a number, and whatever is finite comes to 0. A sum of the
    /// elements themselves, or of their squares, may overflow though all are finite.
    #[must_use]
    pub fn zero_if_finite(self) -> Tensor<1> {
        // By a scalar, which is an argument of a GPU's kernel: cubecl takes x − x, and x · 0 with a constant, for 0
        // (`dialect/math.rs` of cubecl-ir).
        with_rank!(self, tensor => tensor.mul_scalar(0.0).sum())
    }

    /// Its elements in host memory, as they are: what [`from_data`](Self::from_data) makes it of again.
    ///
    /// # Errors
    /// The device's own error, such as one left by an earlier kernel.
    pub fn into_data(self) -> Result<TensorData, crate::ModelError> {
        with_rank!(self, tensor => autodiff::inner(tensor).try_into_data())
            .map_err(|error| crate::ModelError::Device { reason: format!("{error:?}") })
    }

    /// A float tensor of the elements and in the format of `data`.
    ///
    /// # Panics
    /// Panics if its rank is not 1 to 6.
    pub fn from_data(data: TensorData, device: &Device) -> Self {
        let options = (device, data.dtype);
        match data.shape.len() {
            1 => Tensor::<1>::from_data(data, options).into(),
            2 => Tensor::<2>::from_data(data, options).into(),
            3 => Tensor::<3>::from_data(data, options).into(),
            4 => Tensor::<4>::from_data(data, options).into(),
            5 => Tensor::<5>::from_data(data, options).into(),
            6 => Tensor::<6>::from_data(data, options).into(),
            // Stated above: what is taken off a device had such a rank.
            rank => panic!("a tensor of rank {rank} is not supported; expected 1 to 6"),
        }
    }

    /// The same on another device, or once more on its own, in memory that is charged to the calling thread. A tensor of a
    /// device that records stays as it is.
    #[must_use]
    pub fn moved(self, device: &Device) -> Self {
        if !self.is_float() {
            return self;
        }
        match self.clone().into_data() {
            Ok(data) => Self::from_data(data.clone(), device),
            Err(_) => self,
        }
    }

    /// All float elements on the host, in row-major order.
    ///
    /// # Errors
    /// The device's own error, such as one left by an earlier kernel.
    pub fn to_host(&self) -> Result<Vec<f32>, crate::ModelError> {
        let data = with_rank!(self.clone(), tensor => autodiff::inner(tensor).try_into_data())
            .map_err(|error| crate::ModelError::Device { reason: format!("{error:?}") })?;
        data.convert::<f32>()
            .try_to_vec()
            .map_err(|error| crate::ModelError::Device { reason: format!("{error:?}") })
    }

    pub(crate) fn storage(&self) -> crate::Storage {
        match self.is_float() {
            true => with_rank!(self.clone(), tensor => crate::storage::of_floats(&tensor)),
            // Integers are inputs and targets, which a timeline knows by the phase they are born in.
            false => crate::Storage::Unknown,
        }
    }

    pub(crate) fn is_part(&self) -> bool {
        with_rank!(self.clone(), tensor => crate::storage::is_part(&tensor))
    }

    /// Kind and rank in words, for error messages.
    pub(crate) fn describe(&self) -> String {
        format!("{} of rank {}", if self.is_float() { "floats" } else { "integers" }, self.rank)
    }

    pub(crate) fn remove_gradient(self, gradients: &mut burn::tensor::Gradients) -> Option<Self> {
        with_rank!(self, tensor => tensor.grad_remove(gradients).map(Self::from))
    }

    pub(crate) fn remove_recorded_gradient(
        self,
        gradients: &mut <autodiff::Recorded as AutodiffBackend>::Gradients,
    ) -> Option<Self> {
        with_rank!(self, tensor => autodiff::remove_recorded(tensor, gradients).map(Self::from))
    }

    /// A model's output in 32 bits, in which losses are computed, whatever format it has.
    #[must_use]
    pub fn widened(self, policy: Policy) -> Self {
        if !self.is_float() {
            return self;
        }
        with_rank!(self, tensor => policy.widen(tensor).into())
    }

    /// The format of its elements.
    pub fn dtype(&self) -> DType {
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

    /// The float tensor under a rank that need not be its own; `None` for integers. Burn's primitives know no rank but
    /// that of their shape.
    pub(crate) fn erased(&self) -> Option<Tensor<1>> {
        self.is_float().then(|| Tensor::from_bridge(self.bridge.clone()))
    }

    /// The primitive of a plain tensor, of floats or integers, where it is of that backend.
    pub(crate) fn on<B>(&self) -> Option<FloatTensor<B>>
    where
        B: Plain + BackendTypes<IntTensorPrimitive = FloatTensor<B>>,
    {
        if self.is_float() {
            return B::primitive(self);
        }
        B::integers(&Tensor::<1, Int>::from_bridge(self.bridge.clone()))
    }

    /// The inverse of [`erased`](Self::erased).
    pub(crate) fn from_erased(tensor: Tensor<1>) -> Self {
        let bridge = tensor.into_bridge();
        let rank = bridge.shape().num_dims();
        Self { bridge, rank }
    }

    pub(crate) fn into_bridge(self) -> BridgeTensor {
        self.bridge
    }

    /// The parts that Burn's type-erased optimizers take: rank and tensor.
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
        // The last reader consumes it: a plan takes what an optimizer's rule still holds to go with the rule.
        _ if whole == elements => in_chunks(flat),
        _ => in_chunks(flat.clone().slice(0..whole)) + flat.slice(whole..elements).sum_dim(0),
    }
}

impl fmt::Display for AnyTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}
