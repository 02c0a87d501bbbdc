use oomph_engine::HostTensor;
use oomph_model::{Architecture, Named, lora::LORA_ENDINGS};

/// The weights of a model of `architecture` with the changes of its adapters, which are left out: W + α/r · B A.
pub(crate) fn merged(architecture: &Architecture, mut weights: Named<HostTensor>) -> Named<HostTensor> {
    let Some(lora) = architecture.lora() else { return weights };
    let [of_a, of_b] = LORA_ENDINGS;
    let adapted: Vec<String> =
        weights.keys().filter_map(|name| name.strip_suffix(of_a).map(str::to_owned)).collect();
    for name in adapted {
        let [a, b] = [of_a, of_b].map(|ending| weights.remove(&format!("{name}{ending}")));
        if let (Some(a), Some(b), Some(weight)) = (a, b, weights.get_mut(&name)) {
            add(&mut weight.values, &a.values, &b.values, lora.rank, lora.scale());
        }
    }
    weights
}

/// Adds `scale` · B A to a weight of rows as long as those of A, `[r, I]`. B is `[O, r]`.
fn add(weight: &mut [f32], a: &[f32], b: &[f32], rank: usize, scale: f64) {
    let inputs = a.len() / rank;
    for (row, factors) in weight.chunks_exact_mut(inputs).zip(b.chunks_exact(rank)) {
        for (input, value) in row.iter_mut().enumerate() {
            let column = a.iter().skip(input).step_by(inputs);
            let change: f64 = factors.iter().zip(column).map(|(b, a)| f64::from(*b) * f64::from(*a)).sum();
            *value = (f64::from(*value) + scale * change) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_added_to_its_weight() {
        let mut weight = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        // W is 2 × 3, B 2 × 2 and A 2 × 3.
        let (a, b) = ([1.0, 0.0, 2.0, 0.0, 1.0, 1.0], [1.0, 2.0, 0.0, -1.0]);
        add(&mut weight, &a, &b, 2, 0.5);
        assert_eq!(weight, [1.5, 3.0, 5.0, 4.0, 4.5, 5.5]);
    }
}
