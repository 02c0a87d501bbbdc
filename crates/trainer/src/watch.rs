use oomph_memory::Category;
use oomph_model::{AnyTensor, Named, Stages};

/// Is told which tensors are what, at the moments of a step when that is certain. What plans and profiles listen with.
pub trait Watch {
    /// `tensor` holds `name` now.
    fn holds(&mut self, category: Category, name: &str, tensor: &AnyTensor);

    /// A stage of the current phase is over, or, where `stage` is empty, the phase itself.
    fn boundary(&mut self, _stage: &str) {}
}

/// Tells of every tensor of the model, which lies on one device.
pub(crate) fn parameters(watch: &mut dyn Watch, model: &Stages) {
    model.visit(&mut |info, tensor| watch.holds(Category::Parameters, info.name, &tensor));
}

/// Tells of every gradient.
pub(crate) fn gradients(watch: &mut dyn Watch, gradients: &Named<AnyTensor>) {
    for (name, gradient) in gradients {
        watch.holds(Category::Gradients, name, gradient);
    }
}
