use std::any::type_name;

use burn::module::Module;
use oomph_onnx::{Graph, Value};

use crate::{
    AnyTensor, ModelError, Named, Pass, Policy,
    parameters::{Map, Visit, Walk},
};

/// A consecutive part of a model: a Burn module whose forward takes one activation and gives one.
///
/// Stages are the units of recompute, of placement on devices and of reports.
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
    /// Runs the stage. It must not change its own state, so that running it twice gives the same result: statistics go
    /// through [`Pass::update`], and randomness comes from [`Pass::generator`].
    ///
    /// # Errors
    /// The stage cannot take the activation; see [`Pass::float`] and [`Pass::expect_shape`].
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError>;

    /// Parameters that other stages compute with too, by the name under which they [borrow](Pass::borrowed) them: the
    /// embedding that a language model's head is tied to. In checkpoints and reports they belong to the lender. Their
    /// gradient is the sum over all stages that use them.
    ///
    /// Only the last stage may borrow. A stage that is recomputed in backward cannot, since its graph is cut from the
    /// lender's parameters; the last stage is never recomputed.
    fn lends(&self) -> Named<AnyTensor> {
        Named::new()
    }

    /// The parameters of other stages that it computes with, by the names under which they [lend](Self::lends) them.
    fn borrows(&self) -> Vec<String> {
        Vec::new()
    }

    /// Adds the stage, in evaluation mode, to an ONNX graph: the operators that compute its output from `input`. The names of
    /// [parameters](Graph::parameter) are those of the module's fields. `None`, the default, where the stage cannot be
    /// exported.
    ///
    /// ```
    /// use burn::{module::Module, tensor::activation::relu};
    /// use oomph_model::{AnyTensor, ModelError, Pass, Stage, layers::Linear, onnx::{Graph, Value}};
    ///
    /// #[derive(Module, Debug)]
    /// struct Hidden {
    ///     linear: Linear,
    /// }
    ///
    /// impl Stage for Hidden {
    ///     fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
    ///         let x = pass.float::<2>(input)?;
    ///         Ok(relu(self.linear.forward(x, pass)?).into())
    ///     }
    ///
    ///     fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
    ///         let x = graph.scope("linear", |graph| self.linear.to_onnx(graph, &input));
    ///         Some(graph.node("Relu", &[&x], []))
    ///     }
    /// }
    /// ```
    fn to_onnx(&self, _graph: &mut Graph, _input: Value) -> Option<Value> {
        None
    }

    /// Whether the stage itself keeps less under a [`Policy`](crate::Policy) that asks for recompute, and so need not be
    /// recomputed as a whole: a recurrent layer recomputes in segments of time.
    fn recomputes_itself(&self, _policy: &Policy) -> bool {
        false
    }

    /// Whether the stage may [hand on](Pass::handover) more than an activation, and so stays in one graph with the next one.
    fn hands_on(&self, _policy: &Policy) -> bool {
        false
    }
}

/// A stage without its type, for the chain.
pub(crate) trait AnyStage: Send {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError>;
    fn lends(&self) -> Named<AnyTensor>;
    fn borrows(&self) -> Vec<String>;
    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value>;
    fn recomputes_itself(&self, policy: &Policy) -> bool;
    fn hands_on(&self, policy: &Policy) -> bool;
    /// `index` is the stage's index in the chain.
    fn visit(&self, index: usize, name: &str, visit: &mut Visit<'_>);
    fn map(&mut self, index: usize, name: &str, map: &mut Map<'_>);
    fn clone_stage(&self) -> Box<dyn AnyStage>;
    fn kind(&self) -> &'static str;

    /// The stage without adapters that computes the same; `None` if it has none.
    fn merged(&self) -> Option<Box<dyn AnyStage>> {
        None
    }
}

/// Holds the stage by value; empty only while [`AnyStage::map`] runs.
pub(crate) struct Slot<S>(pub(crate) Option<S>);

impl<S: Stage> Slot<S> {
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

    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
        self.stage().to_onnx(graph, input)
    }

    fn recomputes_itself(&self, policy: &Policy) -> bool {
        self.stage().recomputes_itself(policy)
    }

    fn hands_on(&self, policy: &Policy) -> bool {
        self.stage().hands_on(policy)
    }

    fn visit(&self, index: usize, name: &str, visit: &mut Visit<'_>) {
        self.stage().visit(&mut Walk::new(index, name, visit));
    }

    fn map(&mut self, index: usize, name: &str, map: &mut Map<'_>) {
        self.0 = self.0.take().map(|stage| stage.map(&mut Walk::new(index, name, map)));
    }

    fn clone_stage(&self) -> Box<dyn AnyStage> {
        Box::new(Self(Some(self.stage().clone())))
    }

    fn kind(&self) -> &'static str {
        let path = type_name::<S>();
        // A generic stage is called by its own name.
        let path = path.split('<').next().unwrap_or(path);
        path.rsplit("::").next().unwrap_or(path)
    }
}
