use oomph_core::Phase;

use super::{speeds::Speeds, work::Work};
use crate::{Noted, Recording, recording::first_output};

/// The work of each step and evaluation batch of a recording.
#[derive(Clone, Debug, Default)]
pub struct RecordedSteps {
    steps: Vec<(String, StepWork)>,
}

/// The work of a step, in the order of its operations. `None` stands for a view.
#[derive(Clone, Debug, Default)]
pub struct StepWork {
    /// The work of each recorded micro-batch: its forward and backward.
    micro_batches: Vec<Vec<Option<Work>>>,
    /// The rest: clipping and the optimizer.
    rest: Vec<Option<Work>>,
    /// Whether the last micro-batch went backward.
    is_backward: bool,
}

impl RecordedSteps {
    /// Divides the operations of a recording up to its end.
    pub fn of(recording: &Recording) -> Self {
        let mut recorded = Self::default();
        let mut notes = recording.notes.iter().peekable();
        let mut phase = Phase::Idle;
        for operation in &recording.operations {
            let first = first_output(operation);
            let mut is_marker = false;
            while let Some(note) = notes.next_if(|note| first.is_some_and(|first| note.at <= first)) {
                // No step runs the operation that marks a moment.
                is_marker = first == Some(note.at);
                match &note.what {
                    Noted::Step(name) => recorded.steps.push((name.clone(), StepWork::default())),
                    Noted::Point(point) => phase = point.phase(),
                    Noted::End => return recorded,
                    Noted::Held { .. } | Noted::Offloaded { .. } | Noted::Kept { .. } => {}
                }
            }
            if let Some((_, step)) = recorded.steps.last_mut().filter(|_| !is_marker) {
                step.add(Work::of(operation), phase);
            }
        }
        recorded
    }

    /// The first step of this name.
    pub fn step(&self, name: &str) -> Option<&StepWork> {
        self.steps.iter().find(|(of, _)| of == name).map(|(_, step)| step)
    }
}

impl StepWork {
    /// Adds an operation of a phase. The upload of a batch after a backward begins a micro-batch.
    fn add(&mut self, work: Option<Work>, phase: Phase) {
        match phase {
            Phase::Data | Phase::Forward | Phase::Backward | Phase::Eval => {
                if self.micro_batches.is_empty() || phase == Phase::Data && self.is_backward {
                    self.micro_batches.push(Vec::new());
                }
                self.is_backward = phase == Phase::Backward || self.is_backward && phase != Phase::Data;
                if let Some(last) = self.micro_batches.last_mut() {
                    last.push(work);
                }
            }
            Phase::Idle | Phase::Init | Phase::Step | Phase::Checkpoint => self.rest.push(work),
        }
    }

    /// The seconds of the step with `count` micro-batches in all. Those that were not recorded are like the second.
    pub fn seconds(&self, speeds: &Speeds, count: usize) -> f64 {
        let sum = |list: &[Option<Work>]| list.iter().map(|work| speeds.seconds(work.as_ref())).sum::<f64>();
        let recorded: Vec<f64> = self.micro_batches.iter().map(|list| sum(list)).collect();
        let repeated = recorded.get(1).or(recorded.first()).copied().unwrap_or_default();
        let others = count.saturating_sub(recorded.len()) as f64 * repeated;
        recorded.iter().sum::<f64>() + others + sum(&self.rest)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use burn_backend::{DType, Shape};
    use burn_ir::{BinaryOpIr, NumericOperationIr, OperationIr, TensorId, TensorIr};
    use oomph_core::{ExecutionPoint, phase, watch_points};

    use super::*;
    use crate::{
        Note,
        time::{Measured, Sample},
    };

    fn add(id: u64) -> OperationIr {
        let tensor = |id| TensorIr::uninit(TensorId::new(id), Shape::new([1024]), DType::F32);
        let op = BinaryOpIr { lhs: tensor(1), rhs: tensor(2), out: tensor(id) };
        OperationIr::NumericFloat(DType::F32, NumericOperationIr::Add(op))
    }

    fn point(of: Phase) -> ExecutionPoint {
        let seen: Rc<RefCell<Vec<ExecutionPoint>>> = Rc::default();
        let watcher = seen.clone();
        watch_points(move |point| watcher.borrow_mut().push(point), || drop(phase(of)));
        seen.take()[0]
    }

    /// A step of two micro-batches: a forward and a backward operation in the first; an upload and one more in the second; two of the
    /// optimizer. Operations 10, 20 … mark moments.
    fn recording() -> Recording {
        let notes = [
            (10, Noted::Step("step 3".into())),
            (11, Noted::Point(point(Phase::Data))),
            (20, Noted::Point(point(Phase::Forward))),
            (30, Noted::Point(point(Phase::Backward))),
            (40, Noted::Point(point(Phase::Data))),
            (50, Noted::Point(point(Phase::Forward))),
            (60, Noted::Point(point(Phase::Backward))),
            (70, Noted::Point(point(Phase::Step))),
            (80, Noted::End),
        ];
        let operations = [5, 10, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 62, 70, 71, 72, 80, 81];
        Recording {
            operations: operations.map(add).to_vec(),
            notes: notes.map(|(at, what)| Note { at, what }).to_vec(),
            ..Recording::default()
        }
    }

    #[test]
    fn micro_batches_that_were_not_recorded_take_as_long_as_the_second() {
        let recorded = RecordedSteps::of(&recording());
        assert!(recorded.step("step 1").is_none());
        let step = recorded.step("step 3").unwrap();
        let samples = [Sample { work: Work::of(&add(3)).unwrap(), seconds: 1.0 }];
        let speeds = Speeds::Measured(Measured::new(&samples, 1e-9));
        let seconds = |count| step.seconds(&speeds, count).round();
        // 2 and 4 operations, and 2 of the optimizer.
        assert_eq!([2, 4].map(seconds), [8.0, 16.0]);
    }
}
