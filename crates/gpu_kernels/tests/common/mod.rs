//! What the tests of kernels have in common: tensors on the GPU, values for them, and errors.

// Each test uses some of it.
#![allow(dead_code)]

use burn_backend::{DType, TensorData};
use burn_cubecl::{ops::into_data_sync, tensor::CubeTensor};
use cubecl::{Runtime, zspace::metadata::Metadata};
use oomph_gpu_kernels::{GpuRuntime, GpuTensor};
use oomph_test_support::{Missing, skip};

/// The float formats that kernels of this build compute with. WGSL has no BF16.
#[cfg(feature = "cuda")]
pub(crate) const FORMATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
/// The float formats that kernels of this build compute with. WGSL has no BF16.
#[cfg(not(feature = "cuda"))]
pub(crate) const FORMATS: [DType; 2] = [DType::F32, DType::F16];

/// The library by which this build reaches GPUs.
const DRIVER: &str = if cfg!(feature = "cuda") { "libcuda.so.1" } else { "libvulkan.so.1" };

/// Whether a driver can be loaded: NVIDIA's, the simulated one, or Vulkan's loader.
pub(crate) fn has_driver() -> bool {
    // SAFETY: the driver has no initialisers that depend on anything of this process.
    let is_there = unsafe { libloading::Library::new(DRIVER) }.is_ok();
    if !is_there {
        skip(Missing::Gpu);
    }
    is_there
}

/// A contiguous tensor of the values, rounded to `dtype`.
pub(crate) fn to_gpu(values: &[f64], shape: &[usize], dtype: DType) -> GpuTensor {
    let device = <GpuRuntime as Runtime>::Device::default();
    let client = GpuRuntime::client(&device);
    let values = values.iter().map(|value| *value as f32).collect();
    let data = TensorData::new::<f32, _>(values, shape.to_vec()).convert_dtype(dtype);
    let handle = client.create_from_slice(&data.bytes);
    CubeTensor::new_contiguous(client, device, shape.to_vec().into(), handle, dtype)
}

/// A tensor of words.
pub(crate) fn to_gpu_words(words: &[u32]) -> GpuTensor {
    let device = <GpuRuntime as Runtime>::Device::default();
    let client = GpuRuntime::client(&device);
    let handle = client.create_from_slice(&TensorData::new::<u32, _>(words.to_vec(), [words.len()]).bytes);
    CubeTensor::new_contiguous(client, device, vec![words.len()].into(), handle, DType::U32)
}

pub(crate) fn to_host_words(tensor: GpuTensor) -> Vec<u32> {
    into_data_sync(tensor).iter::<u32>().collect()
}

/// How an image of a test lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// `[B, C, H, W]`.
    ChannelsFirst,
    /// `[B, H, W, C]`.
    ChannelsLast,
    /// `[B, H, W, C]` with gaps between the pixels.
    PaddedPixels,
}

/// An image of the values, which are `[B, C, H, W]`, rounded to `dtype`.
pub(crate) fn image(values: &[f64], shape: [usize; 4], dtype: DType, memory: Memory) -> GpuTensor {
    let gap = match memory {
        Memory::ChannelsFirst => return to_gpu(values, &shape, dtype),
        Memory::ChannelsLast => 0,
        Memory::PaddedPixels => 3,
    };
    let [batch, channels, height, width] = shape;
    let pixel = channels + gap;
    let mut moved = vec![f64::from(f32::MAX); batch * height * width * pixel];
    for (at, value) in values.iter().enumerate() {
        let (row, place) = (at / (height * width), at % (height * width));
        moved[(row / channels * height * width + place) * pixel + row % channels] = *value;
    }
    let mut tensor = to_gpu(&moved, &[moved.len()], dtype);
    let strides = [height * width * pixel, 1, width * pixel, pixel];
    *tensor.meta = Metadata::new(shape.to_vec(), strides.to_vec());
    tensor
}

/// Whether the channels of a pixel lie together.
pub(crate) fn is_channels_last(image: &GpuTensor) -> bool {
    image.meta.strides()[1] == 1
}

pub(crate) fn vector(values: &[f64]) -> GpuTensor {
    to_gpu(values, &[values.len()], DType::F32)
}

pub(crate) fn to_host(tensor: GpuTensor) -> Vec<f64> {
    into_data_sync(tensor).iter::<f64>().collect()
}

/// The values in the format `dtype`.
pub(crate) fn rounded(values: &[f64], dtype: DType) -> Vec<f64> {
    let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    let shape = [values.len()];
    TensorData::new::<f32, _>(values, shape).convert_dtype(dtype).iter::<f64>().collect()
}

/// Values in [−1, 1), of which some are 0. The same seed gives the same values.
pub(crate) fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let value = (state >> 40) as f64 / f64::from(1u32 << 23) - 1.0;
        if state >> 60 == 3 { 0.0 } else { f64::from(value as f32) }
    };
    (0..count).map(|_| next()).collect()
}

/// The largest error by norm of values that were stored in `dtype`.
pub(crate) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-5,
        DType::F16 => 5e-4,
        _ => 4e-3,
    }
}

/// |found − expected| / |expected|.
pub(crate) fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "numbers of values");
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let difference = norm(&mut found.iter().zip(expected).map(|(found, expected)| found - expected));
    difference / norm(&mut expected.iter().copied()).max(1e-30)
}

/// Fails unless the values are `expected` within the rounding of `dtype`.
#[track_caller]
pub(crate) fn assert_close(found: GpuTensor, expected: &[f64], dtype: DType, what: &str) {
    let found = to_host(found);
    let error = error(&found, expected);
    // A NaN fails too.
    assert!(error <= tolerance(dtype), "{what}: error {error:e} by norm; {:?}", &found[..found.len().min(4)]);
}
