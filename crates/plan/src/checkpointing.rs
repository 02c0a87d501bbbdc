//! The tensors that Burn's gradient checkpointing holds (`memory.recompute = "ops"`; burn-autodiff 0.22.0-pre.3
//! `checkpoint/`).
//!
//! Backward recomputes cheap operations whose results it needs. For that, the graph holds the operands of every cheap
//! operation from forward on, unless they are results of cheap operations themselves. When backward begins, before its
//! first operation, the graph drops the operands that backward will not need (`CheckpointerBuilder::build`). An operation
//! with an operand without gradient does not count as cheap (`BalancedCheckpointing::checkpoint_parents`).
//!
//! A recording does not contain the graph. Everything computed from parameters is assumed to be in it. A read that
//! consumes its operand shows that the graph holds no reference.

use std::collections::HashSet;

use burn_ir::{
    ActivationOperationIr as Activation, BaseOperationIr as Base, FloatOperationIr as Float,
    NumericOperationIr as Numeric, OperationIr, TensorIr, TensorStatus,
};

use crate::layout::is_view;

/// The tensors referenced by the graph of a forward.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    parameters: HashSet<u64>,
    /// Tensors computed from parameters.
    tracked: HashSet<u64>,
    /// Results of cheap operations, which backward recomputes.
    light: HashSet<u64>,
    /// Operands held for recomputation.
    referred: HashSet<u64>,
}

impl Graph {
    /// Declares a tensor a parameter.
    pub(crate) fn parameter(&mut self, tensor: u64) {
        self.parameters.insert(tensor);
    }

    /// Adds an operation of forward.
    pub(crate) fn run(&mut self, operation: &OperationIr) {
        let operands = || operation.inputs().filter(|operand| operand.dtype.is_float());
        let is_tracked = |operand: &TensorIr| {
            let id = operand.id.value();
            self.tracked.contains(&id) || self.parameters.contains(&id)
        };
        let [some, all] = [operands().any(is_tracked), operands().all(is_tracked)];
        if !some {
            return;
        }
        let results = || operation.outputs().filter(|result| result.dtype.is_float());
        self.tracked.extend(results().map(id));
        if all && is_light(operation) {
            self.light.extend(results().map(id));
            let is_held = |operand: &&TensorIr| {
                operand.status == TensorStatus::ReadOnly && !self.light.contains(&id(operand))
            };
            self.referred.extend(operands().filter(is_held).map(id));
        }
    }

    pub(crate) fn refers_to(&self, tensor: u64) -> bool {
        self.referred.contains(&tensor)
    }

    /// Backward begins: the graph drops the held operands.
    pub(crate) fn end_forward(&mut self) {
        *self = Self { parameters: std::mem::take(&mut self.parameters), ..Self::default() };
    }
}

fn id(tensor: &TensorIr) -> u64 {
    tensor.id.value()
}

/// Whether burn-autodiff calls the operation `memory_bound` (`ops/tensor.rs`, `ops/activation.rs`).
fn is_light(operation: &OperationIr) -> bool {
    match operation {
        OperationIr::BaseFloat(base) => is_light_base(base),
        OperationIr::NumericFloat(_, numeric) => is_light_numeric(numeric),
        OperationIr::Float(_, float) => is_light_float(float),
        OperationIr::Activation(activation) => matches!(
            activation,
            Activation::Relu(_) | Activation::Gelu(_) | Activation::Sigmoid(_) | Activation::LogSigmoid(_)
        ),
        _ => false,
    }
}

fn is_light_base(base: &Base) -> bool {
    is_view(base)
        || matches!(base, Base::RepeatDim(_) | Base::SliceAssign(_) | Base::Select(_) | Base::SelectAssign(_))
}

fn is_light_numeric(numeric: &Numeric) -> bool {
    matches!(
        numeric,
        Numeric::Add(_)
            | Numeric::AddScalar(_)
            | Numeric::Sub(_)
            | Numeric::SubScalar(_)
            | Numeric::Mul(_)
            | Numeric::MulScalar(_)
            | Numeric::Div(_)
            | Numeric::DivScalar(_)
            | Numeric::Rem(_)
            | Numeric::RemScalar(_)
            | Numeric::PowiScalar(_)
            | Numeric::Abs(_)
            | Numeric::Neg(_)
            | Numeric::Sign(_)
    )
}

/// All except products, random numbers and operations without gradient.
fn is_light_float(float: &Float) -> bool {
    matches!(
        float,
        Float::Exp(_)
            | Float::Log(_)
            | Float::Log1p(_)
            | Float::Erf(_)
            | Float::PowfScalar(_)
            | Float::Powf(_)
            | Float::Sqrt(_)
            | Float::Recip(_)
            | Float::Cos(_)
            | Float::Cosh(_)
            | Float::Sin(_)
            | Float::Sinh(_)
            | Float::Tan(_)
            | Float::Tanh(_)
            | Float::ArcCos(_)
            | Float::ArcCosh(_)
            | Float::ArcSin(_)
            | Float::ArcSinh(_)
            | Float::ArcTan(_)
            | Float::ArcTanh(_)
            | Float::ArcTan2(_)
            | Float::Round(_)
            | Float::Floor(_)
            | Float::Ceil(_)
            | Float::Trunc(_)
    )
}

#[cfg(test)]
mod tests {
    use TensorStatus::{NotInit, ReadOnly, ReadWrite};
    use burn_backend::{DType, Shape};
    use burn_ir::{BinaryOpIr, CreationOpIr, MatmulOpIr, TensorId, UnaryOpIr};
    use oomph_core::{ExecutionPoint, Phase, current_point, phase, scope};
    use oomph_timeline::Category;

    use super::*;
    use crate::{Backend, Head, Note, Noted, Recording, replay};

    const PARAMETER: u64 = 2;

    fn tensor(id: u64, elements: usize, status: TensorStatus) -> TensorIr {
        TensorIr { status, ..TensorIr::uninit(TensorId::new(id), Shape::new([1, elements]), DType::F32) }
    }

    fn ones(id: u64, elements: usize) -> OperationIr {
        OperationIr::BaseFloat(Base::Ones(CreationOpIr { out: tensor(id, elements, NotInit) }))
    }

    /// Light, of 100 elements.
    fn logarithm(input: u64, status: TensorStatus, out: u64) -> OperationIr {
        let (input, out) = (tensor(input, 100, status), tensor(out, 100, NotInit));
        OperationIr::Float(DType::F32, Float::Log(UnaryOpIr { input, out }))
    }

    /// Light, of 100 elements.
    fn sum(lhs: u64, rhs: u64, out: u64) -> OperationIr {
        let [lhs, rhs] = [lhs, rhs].map(|id| tensor(id, 100, ReadOnly));
        let out = tensor(out, 100, NotInit);
        OperationIr::NumericFloat(DType::F32, Numeric::Add(BinaryOpIr { lhs, rhs, out }))
    }

    /// Heavy, by the parameter.
    fn product(rhs: u64, out: u64) -> OperationIr {
        let [lhs, rhs] = [tensor(PARAMETER, 1, ReadOnly), tensor(rhs, 100, ReadOnly)];
        let out = tensor(out, 100, NotInit);
        OperationIr::Float(DType::F32, Float::Matmul(MatmulOpIr { lhs, rhs, out }))
    }

    /// The tensors among 10 to 15 that the graph holds after operations on data 1 and a parameter.
    fn referred(operations: &[OperationIr]) -> Vec<u64> {
        let mut graph = Graph::default();
        graph.parameter(PARAMETER);
        for operation in operations {
            graph.run(operation);
        }
        let referred = (10..16).filter(|id| graph.refers_to(*id)).collect();
        graph.end_forward();
        assert!((0..100).all(|id| !graph.refers_to(id)), "forward is over");
        referred
    }

    #[test]
    fn results_of_heavy_operations_are_held_for_light_ones() {
        assert_eq!(referred(&[product(1, 10), logarithm(10, ReadOnly, 11)]), [10]);
        // 11 would be recomputed.
        assert_eq!(referred(&[product(1, 10), logarithm(10, ReadOnly, 11), sum(11, 10, 12)]), [10]);
        assert_eq!(referred(&[product(1, 10), product(10, 11)]), [0; 0]);
        // A read that consumes its operand leaves no reference.
        assert_eq!(referred(&[product(1, 10), logarithm(10, ReadWrite, 11)]), [0; 0]);
    }

    #[test]
    fn an_operation_with_an_operand_off_the_graph_is_heavy() {
        let with_data = [product(1, 10), sum(10, 1, 11)];
        assert_eq!(referred(&with_data), [0; 0]);
        assert_eq!(referred(&[&with_data[..], &[logarithm(11, ReadOnly, 12)]].concat()), [11]);
        assert_eq!(referred(&[ones(10, 100), logarithm(10, ReadOnly, 11)]), [0; 0]);
    }

    /// Execution points in two forward stages and in a backward.
    fn points() -> [ExecutionPoint; 3] {
        let forward = phase(Phase::Forward);
        let [first, second] = ["first", "second"].map(|stage| {
            let _stage = scope(stage);
            current_point()
        });
        drop(forward);
        let _backward = phase(Phase::Backward);
        [first, second, current_point()]
    }

    #[test]
    fn held_operands_are_dropped_when_backward_begins() {
        let held = Noted::Held { tensor: PARAMETER, category: Category::Parameters, name: "weight".into() };
        let mut notes = vec![Note { at: 3, what: held }];
        let points = [4, 30, 50].into_iter().zip(points());
        notes.extend(points.map(|(at, point)| Note { at, what: Noted::Point(point) }));
        for is_checkpointed in [true, false] {
            let recording = Recording {
                operations: vec![
                    ones(1, 100),
                    ones(PARAMETER, 1),
                    product(1, 10),
                    logarithm(10, ReadOnly, 20),
                    // The second stage has other sizes.
                    ones(40, 200),
                    // In backward.
                    ones(60, 300),
                ],
                notes: notes.clone(),
                is_checkpointed,
                ..Recording::default()
            };
            let head = Head { title: String::new(), device: "cpu".into(), limit_bytes: None };
            let timeline = replay(&recording, Backend::Cpu { threads: 1 }, head);
            let born = |elements: u64| {
                timeline
                    .blocks
                    .iter()
                    .find(|block| block.bytes == elements * 4)
                    .map(|block| block.born)
                    .unwrap()
            };
            // A product's output exists twice for a moment.
            let products =
                timeline.blocks.iter().filter(|block| timeline.names.text(block.operation) == "matmul");
            let died = products.filter_map(|block| block.died).max().unwrap();
            assert_eq!(died > born(200), is_checkpointed, "in the second stage");
            assert!(died < born(300), "in backward");
        }
    }
}
