//! Gradient clipping against PyTorch's `clip_grad_norm_` and `clip_grad_value_`.

use burn::tensor::Device;
use oomph_config::Clip;
use oomph_engine::clip::clip;
use oomph_model::{AnyTensor, Kernels, Named};

use crate::{compare::Comparison, golden::Golden};

/// Relative to the size of the tensor: the norm is a sum of 29 squares and a root, one rounding (6e-8) each.
const TOLERANCE: f64 = 1e-6;

const PARAMETERS: [&str; 3] = ["a", "b", "c"];

#[test]
fn gradients_are_bounded_as_by_torch() {
    let check = |case: &str, limit| {
        let golden = Golden::open("clip");
        let clipped = clip(gradients(&golden), limit, Kernels::Cpu);
        let mut comparison = Comparison::new(format!("clip {case}"), TOLERANCE);
        for name in PARAMETERS {
            let expected = golden.get(&format!("{case}.{name}"));
            comparison.elements(name, &clipped[name].to_host().unwrap(), &expected.values);
        }
        comparison.finish();
    };
    check("global_norm", Clip::GlobalNorm(1.5));
    check("global_norm_idle", Clip::GlobalNorm(100.0));
    check("tensor_norm", Clip::Norm(1.5));
    check("value", Clip::Value(0.5));
}

#[test]
fn gradients_below_every_limit_do_not_change_by_a_bit() {
    let golden = Golden::open("clip");
    for limit in [Clip::GlobalNorm(100.0), Clip::Norm(100.0), Clip::Value(100.0)] {
        for (name, gradient) in clip(gradients(&golden), limit, Kernels::Cpu) {
            let before = golden.get(&format!("grad.{name}")).floats();
            assert_eq!(gradient.to_host().unwrap(), before, "{name} with {limit:?}");
        }
    }
}

#[test]
fn gradients_of_zeros_stay_zeros() {
    for limit in [Clip::GlobalNorm(1.0), Clip::Norm(1.0), Clip::Value(1.0)] {
        let zeros = Named::from([("a".to_owned(), AnyTensor::zeros(&[3, 4], &Device::flex()))]);
        assert_eq!(clip(zeros, limit, Kernels::Cpu)["a"].to_host().unwrap(), [0.0; 12], "{limit:?}");
    }
}

fn gradients(golden: &Golden) -> Named<AnyTensor> {
    let stored = |name: &str| golden.get(&format!("grad.{name}"));
    let tensor = |name| AnyTensor::floats(stored(name).floats(), &stored(name).shape, &Device::flex());
    PARAMETERS.into_iter().map(|name| (name.to_owned(), tensor(name))).collect()
}
