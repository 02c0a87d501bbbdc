//! Optimizers that update many parameters at once, as a GPU does in few launches.

use burn_optim::{DynOptimizer, DynState};
use oomph_core::scope;
use oomph_model::{AnyTensor, Named, Stages, map_stages};

use crate::placeholder::placeholder;
use crate::walk::stages_of;

/// A rule that updates many parameters at once.
pub(crate) trait GroupRule: Send + Sync {
    /// The state of a parameter.
    type State;

    /// The state of a parameter before its first step.
    fn first_state(&self, gradient: &AnyTensor) -> Self::State;

    /// Takes the step for all parameters, with learning rate `lr`, and gives them in the same order.
    fn step_group(&self, lr: f64, parameters: Vec<Before<Self::State>>) -> Vec<After<Self::State>>;
}

/// A rule of Burn's kind that updates many parameters at once too.
pub(crate) trait GroupedOptimizer: DynOptimizer + GroupRule<State = DynState> {}

impl<R: DynOptimizer + GroupRule<State = DynState>> GroupedOptimizer for R {}

/// A parameter before the step, off the autodiff graph.
pub(crate) struct Before<S> {
    pub(crate) parameter: AnyTensor,
    pub(crate) gradient: AnyTensor,
    pub(crate) state: S,
}

/// A parameter after the step, off the autodiff graph.
pub(crate) struct After<S> {
    pub(crate) parameter: AnyTensor,
    pub(crate) state: S,
}

/// Updates every parameter that has a gradient, all by one call of `rule`. `states` are by parameter name.
///
/// The gradients are freed together at the end. So in the first step, new state is in memory beside all gradients, as old state is
/// at the start of every later step.
pub(crate) fn step_together<R: GroupRule + ?Sized>(
    rule: &R,
    states: &mut Named<R::State>,
    lr: f64,
    model: &mut Stages,
    mut gradients: Named<AnyTensor>,
) {
    let (mut names, mut devices, mut parameters) = (Vec::new(), Vec::new(), Vec::new());
    let stages = stages_of(&gradients, model);
    map_stages(model, |stage| stages[stage], &mut |info, parameter| {
        let Some(gradient) = gradients.remove(info.name) else { return parameter };
        let _scope = scope(info.name);
        let state = states.remove(info.name).unwrap_or_else(|| rule.first_state(&gradient));
        let placeholder = placeholder(parameter.rank());
        names.push(info.name.to_owned());
        devices.push(parameter.device());
        parameters.push(Before { parameter: parameter.inner(), gradient, state });
        placeholder
    });
    let stepped = rule.step_group(lr, parameters);
    let mut stepped = names.into_iter().zip(devices).zip(stepped).peekable();
    map_stages(model, |stage| stages[stage], &mut |info, parameter| {
        // The same walk: the parameters come in the same order.
        let Some(((name, device), after)) = stepped.next_if(|((name, _), _)| name == info.name) else {
            return parameter;
        };
        states.insert(name, after.state);
        after.parameter.tracked_as(true, device.gradient_checkpointing_strategy())
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use burn::tensor::{Device, kind::BridgeTensor};
    use burn_optim::{StateSink, StateSource};
    use oomph_config::{Config, Optimizer as OptimizerSettings};
    use oomph_model::Kernels;

    use super::*;
    use crate::{
        Optimizer,
        optimizer::{Rule, adam, sgd},
        record::{HostTensor, OptimizerRecord, model_record},
        tests::{device, model},
    };

    type Groups = Arc<Mutex<Vec<Vec<Vec<usize>>>>>;

    /// A rule that takes the steps of a group by those of a CPU. It keeps the shapes of each group.
    struct Grouped<R> {
        rule: R,
        groups: Groups,
    }

    impl<R: GroupedOptimizer> GroupRule for Grouped<R> {
        type State = DynState;

        fn first_state(&self, gradient: &AnyTensor) -> DynState {
            self.rule.first_state(gradient)
        }

        fn step_group(&self, lr: f64, parameters: Vec<Before<DynState>>) -> Vec<After<DynState>> {
            let shapes = parameters.iter().map(|one| one.parameter.dims()).collect();
            self.groups.lock().expect("no thread panics with it").push(shapes);
            let stepped = parameters.into_iter().map(|Before { parameter, gradient, state }| {
                let (rank, parameter) = parameter.into_parts();
                let (parameter, state) =
                    self.rule.step_dyn(rank, lr, parameter, gradient.into_parts().1, Some(state));
                let state = state.expect("the rule has state");
                After { parameter: AnyTensor::from_parts(rank, parameter), state }
            });
            stepped.collect()
        }
    }

    impl<R: GroupedOptimizer> DynOptimizer for Grouped<R> {
        fn step_dyn(
            &self,
            _: usize,
            _: f64,
            _: BridgeTensor,
            _: BridgeTensor,
            _: Option<DynState>,
        ) -> (BridgeTensor, Option<DynState>) {
            panic!("a grouped rule takes no step for one parameter")
        }

        fn to_device_dyn(&self, state: DynState, device: &Device) -> DynState {
            self.rule.to_device_dyn(state, device)
        }

        fn state_flatten(&self, prefix: &str, state: &DynState, out: &mut StateSink) {
            self.rule.state_flatten(prefix, state, out);
        }

        fn state_unflatten(
            &self,
            rank: usize,
            prefix: &str,
            src: &mut StateSource,
            device: &Device,
        ) -> Option<DynState> {
            self.rule.state_unflatten(rank, prefix, src, device)
        }
    }

    fn settings(text: &str) -> OptimizerSettings {
        let config = Config::from_toml("group", &format!("optimizer = {{ {text} }}"));
        config.expect("the settings are valid").optimizer
    }

    /// A gradient for each parameter, or for those of one stage only.
    fn gradients(model: &Stages, step: usize, only: Option<&str>) -> Named<AnyTensor> {
        let mut gradients = Named::new();
        model.visit(&mut |info, tensor| {
            if only.is_some_and(|stage| !info.name.starts_with(stage)) {
                return;
            }
            let values =
                (0..tensor.elements()).map(|at| ((at + 7 * step) as f32 + info.name.len() as f32).sin());
            let gradient = AnyTensor::floats(values.collect(), &tensor.dims(), &device().inner());
            gradients.insert(info.name.to_owned(), gradient);
        });
        gradients
    }

    fn grouped(settings: &OptimizerSettings) -> (Optimizer, Groups) {
        let groups = Groups::default();
        let of = || Arc::clone(&groups);
        let rule: Arc<dyn GroupedOptimizer> = match (sgd(settings), adam(settings, Kernels::Cpu)) {
            (Some(rule), _) => Arc::new(Grouped { rule, groups: of() }),
            (_, Some(rule)) => Arc::new(Grouped { rule, groups: of() }),
            _ => panic!("{settings:?} has no kernels"),
        };
        (Optimizer { rule: Rule::Together(rule), ..Optimizer::new(settings, Kernels::Cpu) }, groups)
    }

    /// Model and state after four steps. The first and the third step have the gradients of one stage only.
    fn trained(optimizer: &mut Optimizer) -> (Named<HostTensor>, OptimizerRecord) {
        let mut model = model();
        for step in 0..4 {
            let gradients = gradients(&model, step, (step % 2 == 0).then_some("middle"));
            optimizer.step(0.1, &mut model, gradients);
        }
        model.visit(&mut |info, _| assert!(info.trainable, "`{}` stays trainable", info.name));
        let record = optimizer.record().expect("the CPU does not fail");
        (model_record(&model).expect("the CPU does not fail"), record)
    }

    #[test]
    fn a_group_ends_as_its_parameters_do_one_by_one() {
        for text in [
            "name = 'sgd'",
            "name = 'sgd', momentum = 0.9, nesterov = true",
            "name = 'adamw', weight_decay = 0.1",
        ] {
            let settings = settings(text);
            let (mut together, groups) = grouped(&settings);
            let mut each = Optimizer::new(&settings, Kernels::Cpu);
            let (found, expected) = (trained(&mut together), trained(&mut each));
            assert_eq!(found, expected, "{text}");
            assert_eq!(together.state_bytes(|_| true), each.state_bytes(|_| true));
            let sizes: Vec<usize> =
                groups.lock().expect("no thread panics with it").iter().map(Vec::len).collect();
            // A weight and a bias of each stage with gradients.
            assert_eq!(sizes, [2, 6, 2, 6], "{text}");
        }
    }

    #[test]
    fn a_recorded_state_continues_in_a_group() {
        let settings = settings("name = 'adam'");
        let (mut optimizer, _) = grouped(&settings);
        let (_, record) = trained(&mut optimizer);
        let (mut restored, _) = grouped(&settings);
        restored.restore(record.clone(), &model()).expect("the record is complete");
        assert_eq!(restored.record().expect("the CPU does not fail"), record);
        assert_eq!(trained(&mut restored), trained(&mut optimizer));
    }

    #[test]
    fn a_step_without_gradients_changes_nothing() {
        let (mut optimizer, _) = grouped(&settings("name = 'adam'"));
        let mut model = model();
        let before = model_record(&model).expect("the CPU does not fail");
        optimizer.step(0.1, &mut model, Named::new());
        assert_eq!(model_record(&model).expect("the CPU does not fail"), before);
        assert!(!optimizer.has_state());
    }

    #[test]
    fn only_sgd_and_adam_on_a_gpu_step_together() {
        let together =
            |text: &str, kernels| matches!(Optimizer::new(&settings(text), kernels).rule, Rule::Together(_));
        for text in ["name = 'sgd'", "name = 'adam'", "name = 'adamw'"] {
            assert!(together(text, Kernels::Gpu), "{text}");
            assert!(!together(text, Kernels::Cpu) && !together(text, Kernels::Composed), "{text}");
        }
        for text in
            ["name = 'lion'", "name = 'adafactor'", "name = 'adam', amsgrad = true", "name = 'rmsprop'"]
        {
            assert!(!together(text, Kernels::Gpu), "{text}");
        }
    }
}
