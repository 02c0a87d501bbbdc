use burn::tensor::Device;
use oomph_model::AnyTensor;

/// What stands for a tensor of a model during an operation on many tensors, so that the operation alone holds the tensor's
/// memory: one number in host memory.
pub fn placeholder(rank: usize) -> AnyTensor {
    AnyTensor::zeros(&vec![1; rank], &Device::flex())
}
