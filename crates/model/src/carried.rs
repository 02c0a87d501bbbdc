use std::ops::Range;

use burn::tensor::Device;
use oomph_kernels::AnyTensor;

use crate::parameters::Named;

/// The state that recurrent layers carry from one batch to the next: plain tensors `[B, …]` by layer.
///
/// Training over streams starts each batch from it, and does not go back into it: truncated backpropagation through time
/// (Williams & Peng 1990).
#[derive(Clone, Debug, Default)]
pub struct Carried(Named<AnyTensor>);

impl Carried {
    /// No state: every layer starts from zeros.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is no state.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// State by name, each `[B, …]`.
    pub fn tensors(&self) -> &Named<AnyTensor> {
        &self.0
    }

    /// The state of the samples in `rows`; empty if it has fewer samples.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        if self.0.values().any(|tensor| tensor.dims()[0] < rows.end) {
            return Self::default();
        }
        Self(self.0.iter().map(|(name, tensor)| (name.clone(), tensor.clone().rows(rows.clone()))).collect())
    }

    /// Concatenates the states of parts of a batch.
    #[must_use]
    pub fn joined(parts: Vec<Self>) -> Self {
        let mut joined: Named<Vec<AnyTensor>> = Named::new();
        for (name, tensor) in parts.into_iter().flat_map(|part| part.0) {
            joined.entry(name).or_default().push(tensor);
        }
        Self(joined.into_iter().map(|(name, parts)| (name, AnyTensor::joined(parts))).collect())
    }

    /// A copy on another device.
    #[must_use]
    pub fn moved(&self, device: &Device) -> Self {
        let moved = |(name, tensor): (&String, &AnyTensor)| (name.clone(), tensor.clone().moved(device));
        self.0.iter().map(moved).collect()
    }

    /// Adds the state of other layers.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn get(&self, name: &str) -> Option<AnyTensor> {
        self.0.get(name).cloned()
    }

    pub(crate) fn insert(&mut self, name: String, tensor: AnyTensor) {
        self.0.insert(name, tensor);
    }
}

impl FromIterator<(String, AnyTensor)> for Carried {
    fn from_iter<I: IntoIterator<Item = (String, AnyTensor)>>(tensors: I) -> Self {
        Self(tensors.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn the_rows_of_a_state_joined_are_the_state() {
        let tensor = AnyTensor::floats((0..6).map(|value| value as f32).collect(), &[3, 2], &Device::flex());
        let whole: Carried = [("lstm.cell".to_owned(), tensor)].into_iter().collect();
        let parts = vec![whole.rows(0..2), whole.rows(2..3)];
        assert_eq!(parts[1].tensors()["lstm.cell"].to_host().unwrap(), [4.0, 5.0]);
        assert!(whole.rows(2..4).is_empty(), "of samples that it does not have");
        let joined = Carried::joined(parts);
        assert_eq!(joined.tensors()["lstm.cell"].dims(), [3, 2]);
        assert_eq!(joined.tensors()["lstm.cell"].to_host().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(Carried::joined(Vec::new()).is_empty());
    }
}
