//! The golden values of `tests/golden`, read into memory.

use std::{collections::BTreeMap, fs, path::PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

/// All tensors of one golden file.
pub(crate) struct Golden {
    file: String,
    tensors: BTreeMap<String, GoldenTensor>,
}

/// One tensor. Its numbers are held as f64, which all kinds that the files have (f32, f64, small integers) fit into.
pub(crate) struct GoldenTensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

/// Where the golden file of that name is.
pub(crate) fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

impl Golden {
    /// Reads `tests/golden/<name>.safetensors`.
    pub(crate) fn open(name: &str) -> Self {
        let file = format!("{name}.safetensors");
        let bytes = fs::read(path(&file)).expect("the golden file is part of the repository");
        let parsed = SafeTensors::deserialize(&bytes).expect("the golden file is in the safetensors format");
        let tensors = parsed.iter().map(|(key, view)| (key.to_owned(), GoldenTensor::read(&view))).collect();
        Self { file, tensors }
    }

    pub(crate) fn get(&self, key: &str) -> &GoldenTensor {
        self.tensors.get(key).unwrap_or_else(|| panic!("{} has no `{key}`", self.file))
    }

    /// What follows `prefix` in the keys that begin with it.
    pub(crate) fn names_below(&self, prefix: &str) -> Vec<&str> {
        self.tensors.keys().filter_map(|key| key.strip_prefix(prefix)).collect()
    }
}

impl GoldenTensor {
    fn read(view: &TensorView<'_>) -> Self {
        let data = view.data();
        let values = match view.dtype() {
            Dtype::F32 => chunks(data).map(|bytes| f64::from(f32::from_le_bytes(bytes))).collect(),
            Dtype::F64 => chunks(data).map(f64::from_le_bytes).collect(),
            Dtype::I64 => chunks(data).map(|bytes| i64::from_le_bytes(bytes) as f64).collect(),
            other => panic!("golden values are f32, f64 or i64, not {other:?}"),
        };
        Self { shape: view.shape().to_vec(), values }
    }

    /// The numbers as they were stored, for a tensor of f32.
    pub(crate) fn floats(&self) -> Vec<f32> {
        self.values.iter().map(|value| *value as f32).collect()
    }

    /// A tensor of the stored shape.
    pub(crate) fn tensor<const D: usize>(&self, device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(self.floats(), self.shape.clone()), device)
    }

    /// Part `index` along the first dimension: a step of a trail, a layer of a state.
    pub(crate) fn part(&self, index: usize) -> Self {
        let shape = self.shape[1..].to_vec();
        let length: usize = shape.iter().product();
        Self { shape, values: self.values[index * length..(index + 1) * length].to_vec() }
    }
}

fn chunks<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> {
    data.as_chunks().0.iter().copied()
}
