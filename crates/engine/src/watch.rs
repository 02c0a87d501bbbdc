//! Listeners that learn the category of each tensor.

use oomph_model::{AnyTensor, Named, Stages};
use oomph_timeline::Category;

/// Receives the category and name of tensors at the moments of a step when both are certain. Plans and profiles
/// implement it.
pub trait Watch: Send {
    /// `tensor` now holds the parameter, gradient or state `name`.
    fn holds(&mut self, category: Category, name: &str, tensor: &AnyTensor);

    /// So many bytes of a category are in host memory now, by `memory.offload`.
    fn offloaded(&mut self, _category: Category, _bytes: u64) {}

    /// The stage `stage` of the current phase ended. An empty `stage` means that the phase ended.
    fn boundary(&mut self, _stage: &str) {}
}

/// Reports every parameter of a model on one device.
pub fn parameters(watch: &mut dyn Watch, model: &Stages) {
    model.visit(&mut |info, tensor| watch.holds(Category::Parameters, info.name, &tensor));
}

/// Reports every gradient.
pub fn gradients(watch: &mut dyn Watch, gradients: &Named<AnyTensor>) {
    for (name, gradient) in gradients {
        watch.holds(Category::Gradients, name, gradient);
    }
}
