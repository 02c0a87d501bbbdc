use std::any::type_name;

use burn::module::Module;

use crate::{AnyTensor, ModelError, Named, ParameterInfo, Pass, Policy, parameters};

/// A consecutive part of a model: a Burn module whose forward takes one activation and gives one.
///
/// The unit of recomputation, of placement on devices and of reporting.
///
/// ```
/// use burn::{module::Module, nn::Linear, tensor::activation::relu};
/// use oomph_model::{AnyTensor, ModelError, Pass, Stage};
///
/// #[derive(Module, Debug)]
/// struct Hidden {
///     linear: Linear,
/// }
///
/// impl Stage for Hidden {
///     fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
///         let x = pass.float::<2>(input)?;
///         Ok(relu(self.linear.forward(x)).into())
///     }
/// }
/// ```
pub trait Stage: Module + 'static {
    /// Runs the stage. It must not change state of its own: statistics go through [`Pass::update`], randomness comes
    /// from [`Pass::generator`], so that running a stage twice gives the same result.
    ///
    /// # Errors
    /// Where the activation is not what the stage takes; see [`Pass::float`] and [`Pass::expect_shape`].
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError>;

    /// Parameters that other stages compute with too, by the name under which they [borrow](Pass::borrowed) them: the
    /// embedding that a language model's head is tied to. They are the lender's in checkpoints and reports, and get the
    /// gradients of all.
    ///
    /// A borrower must not be run again in backward with its graph cut from the lender's parameters, so only the last
    /// stage, which never is, may borrow.
    fn lends(&self) -> Named<AnyTensor> {
        Named::new()
    }

    /// What of other stages it computes with, by the names under which they [lend](Self::lends) it.
    fn borrows(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the stage itself keeps less under a [`Policy`](crate::Policy) that asks for recomputation, so that it
    /// need not be run again as a whole: a recurrent layer cuts time.
    fn recomputes_itself(&self, _policy: &Policy) -> bool {
        false
    }
}

/// A stage without its type: what a chain holds.
pub(crate) trait AnyStage: Send {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError>;
    fn lends(&self) -> Named<AnyTensor>;
    fn borrows(&self) -> Vec<String>;
    fn recomputes_itself(&self, policy: &Policy) -> bool;
    /// `at` is the stage's index in the chain and its name.
    fn visit(&self, at: (usize, &str), visit: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor));
    fn map(&mut self, at: (usize, &str), map: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor) -> AnyTensor);
    fn clone_stage(&self) -> Box<dyn AnyStage>;
    fn kind(&self) -> &'static str;
}

/// Holds the stage by value; empty only while [`AnyStage::map`] runs.
pub(crate) struct Slot<S>(Option<S>);

impl<S: Stage> Slot<S> {
    pub(crate) fn new(stage: S) -> Self {
        Self(Some(stage))
    }

    fn stage(&self) -> &S {
        // `map` puts the stage back before it returns, and nothing can look in between.
        self.0.as_ref().expect("the slot holds its stage")
    }
}

impl<S: Stage> AnyStage for Slot<S> {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        self.stage().forward(input, pass)
    }

    fn lends(&self) -> Named<AnyTensor> {
        self.stage().lends()
    }

    fn borrows(&self) -> Vec<String> {
        self.stage().borrows()
    }

    fn recomputes_itself(&self, policy: &Policy) -> bool {
        self.stage().recomputes_itself(policy)
    }

    fn visit(&self, at: (usize, &str), visit: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor)) {
        parameters::visit(self.stage(), at, visit);
    }

    fn map(&mut self, at: (usize, &str), map: &mut dyn FnMut(ParameterInfo<'_>, AnyTensor) -> AnyTensor) {
        self.0 = self.0.take().map(|stage| parameters::map(stage, at, map));
    }

    fn clone_stage(&self) -> Box<dyn AnyStage> {
        Box::new(Slot::new(self.stage().clone()))
    }

    fn kind(&self) -> &'static str {
        let path = type_name::<S>();
        path.rsplit("::").next().unwrap_or(path)
    }
}
