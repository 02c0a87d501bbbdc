//! Functions of the [sigopt set](https://github.com/sigopt/evalset), with the bounds of `kurobako_problems` 0.1.14. All are minimised.

use std::f64::consts::{E, PI};

/// A function.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) value: fn(&[f64]) -> f64,
    pub(crate) bounds: &'static [[f64; 2]],
    /// Its smallest value.
    pub(crate) least: f64,
}

const LOG_BOUNDS: [[f64; 2]; 11] = [
    [-2.0, 2.0],
    [-2.0, 1.1],
    [0.5, 2.0],
    [-2.0, 2.0],
    [0.8, 2.0],
    [-2.0, 1.5],
    [-2.0, 2.0],
    [-2.0, 1.2],
    [0.7, 2.0],
    [-2.0, 2.0],
    [-2.0, 2.0],
];
const LEFT: [f64; 2] = [-5.0, 2.0];
const RIGHT: [f64; 2] = [-2.0, 5.0];

/// The functions that `tools/search/regret.py` has too.
#[rustfmt::skip]
pub(crate) const FUNCTIONS: [Function; 12] = [
    Function { name: "Ackley 3", value: ackley, bounds: &[[-10.0, 30.0]; 3], least: 0.0 },
    Function { name: "Alpine02 2", value: alpine02, bounds: &[[0.0, 10.0]; 2], least: -6.129_503_9 },
    Function { name: "Branin02 2", value: branin02, bounds: &[[-5.0, 15.0]; 2], least: 5.558_914_4 },
    Function { name: "Hartmann3 3", value: hartmann3, bounds: &[[0.0, 1.0]; 3], least: -3.862_782_2 },
    Function { name: "Hartmann6 6", value: hartmann6, bounds: &[[0.0, 1.0]; 6], least: -3.322_368_1 },
    Function { name: "Michalewicz 4", value: michalewicz, bounds: &[[0.0, PI]; 4], least: -3.698_857_2 },
    Function { name: "Powell 4", value: powell, bounds: &[[-4.0, 5.0]; 4], least: 0.0 },
    Function { name: "Rastrigin 8", value: rastrigin, bounds: &[LEFT, LEFT, RIGHT, RIGHT, LEFT, LEFT, RIGHT, RIGHT], least: 0.0 },
    Function { name: "RosenbrockLog 11", value: rosenbrock_log, bounds: &LOG_BOUNDS, least: 0.0 },
    Function { name: "Shekel05 4", value: shekel05, bounds: &[[0.0, 10.0]; 4], least: -10.152_723_7 },
    Function { name: "SixHumpCamel 2", value: six_hump_camel, bounds: &[[-2.0, 2.0], [-1.5, 1.5]], least: -1.031_628_5 },
    Function { name: "StyblinskiTang 5", value: styblinski_tang, bounds: &[[-5.0, 5.0]; 5], least: -195.830_828_6 },
];

fn ackley(x: &[f64]) -> f64 {
    let count = x.len() as f64;
    let root = (x.iter().map(|v| v * v).sum::<f64>() / count).sqrt();
    let waves = x.iter().map(|v| (2.0 * PI * v).cos()).sum::<f64>() / count;
    -20.0 * (-0.2 * root).exp() - waves.exp() + 20.0 + E
}

fn alpine02(x: &[f64]) -> f64 {
    x.iter().map(|v| v.sqrt() * v.sin()).product()
}

fn branin02(x: &[f64]) -> f64 {
    let [a, b] = [x[0], x[1]];
    (b - 5.1 / (4.0 * PI * PI) * a * a + 5.0 * a / PI - 6.0).powi(2)
        + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * a.cos() * b.cos()
        + (a * a + b * b + 1.0).ln()
        + 10.0
}

fn hartmann(x: &[f64], scales: &[[f64; 4]], centers: &[[f64; 4]]) -> f64 {
    let distance = |i: usize| -> f64 {
        x.iter().zip(scales).zip(centers).map(|((x, scale), center)| scale[i] * (x - center[i]).powi(2)).sum()
    };
    -[1.0, 1.2, 3.0, 3.2].iter().enumerate().map(|(i, weight)| weight * (-distance(i)).exp()).sum::<f64>()
}

fn hartmann3(x: &[f64]) -> f64 {
    let scales = [[3.0, 0.1, 3.0, 0.1], [10.0, 10.0, 10.0, 10.0], [30.0, 35.0, 30.0, 35.0]];
    let centers = [
        [0.36890, 0.46990, 0.10910, 0.03815],
        [0.11700, 0.43870, 0.87320, 0.57430],
        [0.26730, 0.74700, 0.55470, 0.88280],
    ];
    hartmann(x, &scales, &centers)
}

fn hartmann6(x: &[f64]) -> f64 {
    let scales = [
        [10.0, 0.05, 3.0, 17.0],
        [3.0, 10.0, 3.5, 8.0],
        [17.0, 17.0, 1.7, 0.05],
        [3.5, 0.1, 10.0, 10.0],
        [1.7, 8.0, 17.0, 0.1],
        [8.0, 14.0, 8.0, 14.0],
    ];
    let centers = [
        [0.1312, 0.2329, 0.2348, 0.4047],
        [0.1696, 0.4135, 0.1451, 0.8828],
        [0.5569, 0.8307, 0.3522, 0.8732],
        [0.0124, 0.3736, 0.2883, 0.5743],
        [0.8283, 0.1004, 0.3047, 0.1091],
        [0.5886, 0.9991, 0.6650, 0.0381],
    ];
    hartmann(x, &scales, &centers)
}

fn michalewicz(x: &[f64]) -> f64 {
    -(1..).zip(x).map(|(i, v)| v.sin() * (f64::from(i) * v * v / PI).sin().powi(20)).sum::<f64>()
}

fn powell(x: &[f64]) -> f64 {
    let [a, b, c, d] = [x[0], x[1], x[2], x[3]];
    (a + 10.0 * b).powi(2) + 5.0 * (c - d).powi(2) + (b - 2.0 * c).powi(4) + 10.0 * (a - d).powi(4)
}

fn rastrigin(x: &[f64]) -> f64 {
    10.0 * x.len() as f64 + x.iter().map(|v| v * v - 10.0 * (2.0 * PI * v).cos()).sum::<f64>()
}

fn rosenbrock_log(x: &[f64]) -> f64 {
    let term = |pair: &[f64]| 100.0 * (pair[1] - pair[0] * pair[0]).powi(2) + (1.0 - pair[0]).powi(2);
    (1.0 + x.windows(2).map(term).sum::<f64>()).ln()
}

fn shekel05(x: &[f64]) -> f64 {
    let rows = [
        [4.0, 4.0, 4.0, 4.0],
        [1.0, 1.0, 1.0, 1.0],
        [8.0, 8.0, 8.0, 8.0],
        [6.0, 6.0, 6.0, 6.0],
        [3.0, 7.0, 3.0, 7.0],
    ];
    let distance = |row: &[f64; 4]| -> f64 { x.iter().zip(row).map(|(v, a)| (v - a) * (v - a)).sum() };
    -rows.iter().zip([0.1, 0.2, 0.2, 0.4, 0.6]).map(|(row, c)| 1.0 / (distance(row) + c)).sum::<f64>()
}

fn six_hump_camel(x: &[f64]) -> f64 {
    let [a, b] = [x[0] * x[0], x[1] * x[1]];
    (4.0 - 2.1 * a + a * a / 3.0) * a + x[0] * x[1] + (4.0 * b - 4.0) * b
}

fn styblinski_tang(x: &[f64]) -> f64 {
    x.iter().map(|v| v.powi(4) - 16.0 * v * v + 5.0 * v).sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    use oomph_core::{Generator, Key};

    use super::*;

    /// Where the functions are least, in the order of the list.
    const LEAST_AT: [&[f64]; 12] = [
        &[0.0; 3],
        &[7.917_052_7, 4.815_842_3],
        &[-3.196_988_4, 12.526_257_9],
        &[0.114_614, 0.555_649, 0.852_547],
        &[0.201_69, 0.150_011, 0.476_874, 0.275_332, 0.311_652, 0.657_3],
        &[2.202_906, std::f64::consts::FRAC_PI_2, 1.284_992, 1.923_058],
        &[0.0; 4],
        &[0.0; 8],
        &[1.0; 11],
        &[4.000_038, 4.000_132, 4.000_038, 4.000_132],
        &[0.089_842, -0.712_656],
        &[-2.903_534; 5],
    ];

    /// Goes down from a random point, in ever smaller steps.
    fn descend(function: &Function, seed: u64) -> f64 {
        let mut generator = Generator::at(Key::new(seed));
        let mut draw = |[low, high]: [f64; 2]| low + (high - low) * f64::from(generator.uniform());
        let mut best: Vec<f64> = function.bounds.iter().map(|bounds| draw(*bounds)).collect();
        let mut value = (function.value)(&best);
        for attempt in 0..5_000 {
            let share = 0.5 * 0.998_f64.powi(attempt);
            let moved = best.iter().zip(function.bounds).map(|(x, bounds)| {
                let width = share * (bounds[1] - bounds[0]);
                (x + draw([-width, width])).clamp(bounds[0], bounds[1])
            });
            let moved: Vec<_> = moved.collect();
            let there = (function.value)(&moved);
            if there < value {
                (best, value) = (moved, there);
            }
        }
        value
    }

    #[test]
    fn the_least_values_are_right() {
        for (function, at) in FUNCTIONS.iter().zip(LEAST_AT) {
            let value = (function.value)(at);
            assert!((value - function.least).abs() < 2e-6, "{}: {value}", function.name);
            let found = (0..20).map(|seed| descend(function, seed)).fold(f64::INFINITY, f64::min);
            assert!(found > function.least - 1e-6, "{}: {found} is less", function.name);
        }
    }
}
