//! Kernels that NVIDIA's compiler made of tests/cuda, against the same computed here.

mod kit;

use kit::{Noise, Size, buffer, f32, line, run, u32};
use oomph_ptx::Module;

const ELEMENTS: [&str; 2] = [include_str!("ptx/elements.sm_75.ptx"), include_str!("ptx/elements.sm_90.ptx")];
const BLOCKS: [&str; 2] = [include_str!("ptx/blocks.sm_75.ptx"), include_str!("ptx/blocks.sm_90.ptx")];
const ASYNC: [&str; 2] = [include_str!("ptx/async_copy.sm_80.ptx"), include_str!("ptx/async_copy.sm_90.ptx")];

fn noise(count: usize) -> Vec<u32> {
    let mut noise = Noise(1);
    (0..count).map(|_| noise.next()).collect()
}

fn floats(count: usize) -> Vec<f32> {
    noise(count).into_iter().map(|bits| (bits % 4001) as f32 / 200.0 - 10.0).collect()
}

#[test]
fn guarded_elements() {
    for ptx in ELEMENTS {
        let (mut x, mut y) = (floats(1000), floats(1024));
        let expected: Vec<f32> =
            (0..1024).map(|i| if i < 1000 { 2.5f32.mul_add(x[i], y[i]) } else { y[i] }).collect();
        run(ptx, "axpy", &line(8, 128), &[buffer(&mut x), buffer(&mut y), f32(2.5), u32(1000)]);
        assert_eq!(y, expected);
    }
}

#[test]
fn strided_loops() {
    for ptx in ELEMENTS {
        let (mut x, mut y) = (floats(1003), vec![0f32; 1003]);
        run(ptx, "strided_square", &line(3, 50), &[buffer(&mut x), buffer(&mut y), u32(1003)]);
        assert_eq!(y, x.iter().map(|x| x * x).collect::<Vec<_>>());
    }
}

#[test]
fn lanes_diverge_and_meet_again() {
    for ptx in ELEMENTS {
        let mut x: Vec<u32> = (1..=500).collect();
        let mut y = vec![0u32; 500];
        run(ptx, "collatz", &line(4, 128), &[buffer(&mut x), buffer(&mut y), u32(500)]);
        let steps = |&start: &u32| {
            let (mut value, mut count) = (start, 0);
            while value != 1 && count <= 200 {
                value = if value % 2 == 1 { 3 * value + 1 } else { value / 2 };
                count += 1;
            }
            count
        };
        assert_eq!(y, x.iter().map(steps).collect::<Vec<u32>>());
    }
}

#[test]
fn every_lane_takes_its_own_case() {
    for ptx in ELEMENTS {
        let mut x: Vec<u32> = noise(64).into_iter().map(|bits| bits % 9).collect();
        let mut y = vec![0u32; 64];
        run(ptx, "switched", &line(1, 64), &[buffer(&mut x), buffer(&mut y)]);
        let expected = |(i, &v): (usize, &u32)| {
            let i = i as u32;
            match v {
                0 => i * 3,
                1 => i ^ 5,
                2 => (0..i).fold(2u32, |v, k| v.wrapping_add(k.wrapping_mul(v))),
                3 => i << 3,
                4 => (!i).wrapping_add(7),
                5 => 12,
                6 => i / 3,
                _ => 1000 + i,
            }
        };
        assert_eq!(y, x.iter().enumerate().map(expected).collect::<Vec<_>>());
    }
}

#[test]
fn local_arrays_belong_to_one_thread() {
    for ptx in ELEMENTS {
        let mut x: Vec<u32> = noise(96).into_iter().map(|bits| (bits % 64) | 1).collect();
        let mut y = vec![0u32; 96];
        run(ptx, "local_array", &line(1, 96), &[buffer(&mut x), buffer(&mut y)]);
        let expected = |(i, &x): (usize, &u32)| {
            let mut history = [0u32; 8];
            for k in 0..8 {
                history[((k * x) & 7) as usize] = k * 10 + i as u32;
            }
            history[(x & 7) as usize] + history[(x >> 3 & 7) as usize] * 1000
        };
        assert_eq!(y, x.iter().enumerate().map(expected).collect::<Vec<_>>());
    }
}

#[test]
fn parameters_by_value_are_indexed() {
    for ptx in ELEMENTS {
        let settings: Vec<u8> =
            [3u32, 1, 4, 1, 5, 9, 0.25f32.to_bits()].iter().flat_map(|x| x.to_ne_bytes()).collect();
        let mut y = vec![0f32; 32];
        run(ptx, "by_value", &line(1, 32), &[buffer(&mut y), kit::Argument::Bytes(settings)]);
        assert_eq!(y[..7], [6.25, 2.25, 8.25, 2.25, 10.25, 18.25, 6.25]);
    }
}

#[test]
fn functions_of_the_cuda_library() {
    let exact: [fn(f64) -> f64; 10] = [
        f64::exp,
        |x| x.abs().ln(),
        f64::sin,
        f64::cos,
        f64::tanh,
        erf,
        |x| x.abs().powf(f64::from(1.7f32)),
        |x| x.abs().sqrt(),
        f64::floor,
        |x| x.abs().ln_1p(),
    ];
    for ptx in ELEMENTS {
        let mut x = floats(300);
        // An argument that needs the slow reduction of sine and cosine.
        x[7] = 123_456_790.0;
        let mut y = vec![0f32; 3000];
        run(ptx, "functions", &line(3, 100), &[buffer(&mut x), buffer(&mut y), u32(300)]);
        for (i, &x) in x.iter().enumerate() {
            for (k, exact) in exact.iter().enumerate() {
                let (found, exact) = (f64::from(y[10 * i + k]), exact(f64::from(x)));
                let close =
                    (found - exact).abs() <= 1e-6 * exact.abs().max(1.0) || found == f64::from(exact as f32);
                assert!(close, "function {k} of {x}: {found}, not {exact}");
            }
        }
    }
}

/// The error function, by its series or its continued fraction.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    2.0 / std::f64::consts::PI.sqrt() * sum
}

#[test]
fn functions_of_doubles() {
    for ptx in ELEMENTS {
        let mut x: Vec<f64> = floats(64).into_iter().map(f64::from).collect();
        let mut y = vec![0f64; 64];
        run(ptx, "doubles", &line(1, 64), &[buffer(&mut x), buffer(&mut y)]);
        for (&x, y) in x.iter().zip(y) {
            let exact = x.exp() + x / (1.0 + x * x).sqrt();
            assert!((y - exact).abs() <= 1e-14 * exact.abs().max(1.0), "{x}: {y}, not {exact}");
        }
    }
}

#[test]
fn three_dimensions() {
    for ptx in ELEMENTS {
        let mut y = vec![0u32; 12 * 10 * 6];
        run(ptx, "grid3", &Size([3, 2, 3], [4, 5, 2], 0), &[buffer(&mut y)]);
        for (at, found) in y.into_iter().enumerate() {
            let at = at as u32;
            assert_eq!(found, at % 12 + 100 * (at / 12 % 10) + 10000 * (at / 120));
        }
    }
}

#[test]
fn sums_by_shared_memory_and_by_shuffles() {
    for ptx in BLOCKS {
        let mut x: Vec<f32> = noise(1000).into_iter().map(|bits| (bits % 100) as f32).collect();
        let mut out = vec![0f32; 4];
        run(ptx, "sum_shared", &line(4, 128), &[buffer(&mut x), buffer(&mut out), u32(1000)]);
        assert_eq!(out.iter().sum::<f32>(), x.iter().sum::<f32>());

        let mut out = vec![0f32; 16];
        run(ptx, "sum_shuffled", &line(4, 128), &[buffer(&mut x), buffer(&mut out)]);
        assert_eq!(out[..15], x[..480].chunks(32).map(|chunk| chunk.iter().sum()).collect::<Vec<f32>>()[..]);
    }
}

#[test]
fn shuffles_of_every_kind() {
    for ptx in BLOCKS {
        let (mut x, mut out) = (noise(32), vec![0u32; 192]);
        run(ptx, "shuffles", &line(1, 32), &[buffer(&mut x), buffer(&mut out)]);
        for i in 0..32usize {
            assert_eq!(out[i], x[(i * 7) & 31]);
            assert_eq!(out[i + 32], if i >= 3 { x[i - 3] } else { x[i] });
            assert_eq!(out[i + 64], if i + 5 < 32 { x[i + 5] } else { x[i] });
            assert_eq!(out[i + 96], x[i ^ 9]);
            assert_eq!(out[i + 128], if i % 8 + 2 < 8 { x[i + 2] } else { x[i] });
            assert_eq!(out[i + 160], x[i / 4 * 4 + 1]);
        }
    }
}

#[test]
fn a_shuffle_waits_for_lanes_that_branched_off() {
    for ptx in BLOCKS {
        let mut x: Vec<u32> = noise(32).into_iter().map(|bits| bits % 20).collect();
        let mut out = vec![0u32; 32];
        run(ptx, "diverged_shuffle", &line(1, 32), &[buffer(&mut out), buffer(&mut x)]);
        let value = |start: u32| {
            if start.is_multiple_of(2) {
                return 2 * start;
            }
            // The bound grows with the sum, until the sum wraps.
            let (mut sum, mut k) = (start, 0);
            while k < sum {
                sum = sum.wrapping_add(k);
                k += 1;
            }
            sum
        };
        let values: Vec<u32> = x.iter().map(|&x| value(x)).collect();
        assert_eq!(out[..31], values[1..]);
        assert_eq!(out[31], values[31]);
    }
}

#[test]
fn votes_and_matches() {
    for ptx in BLOCKS {
        let mut x: Vec<u32> = noise(32).into_iter().map(|bits| bits % 40).collect();
        let mask = |holds: &dyn Fn(u32) -> bool| {
            x.iter().enumerate().fold(0u32, |mask, (i, &v)| mask | u32::from(holds(v)) << i)
        };
        let (above, odd) = (mask(&|v| v > 10), mask(&|v| v % 2 == 1));
        let matches: Vec<u32> = x.iter().map(|&v| mask(&|other| other == v)).collect();
        let mut out = vec![0u32; 128];
        run(ptx, "votes", &line(1, 32), &[buffer(&mut x), buffer(&mut out)]);
        for (lane, found) in out.chunks(4).enumerate() {
            let active = if x[lane] % 2 == 1 { odd } else { 0 };
            assert_eq!(found, [above, 1, 0, active]);
        }
        let mut out = vec![0u32; 32];
        run(ptx, "matches", &line(1, 32), &[buffer(&mut x), buffer(&mut out)]);
        assert_eq!(out, matches);
    }
}

#[test]
fn atomics_of_many_blocks() {
    for ptx in BLOCKS {
        let (mut x, mut bins) = (noise(2000), vec![0u32; 16]);
        run(ptx, "histogram", &line(16, 128), &[buffer(&mut x), buffer(&mut bins), u32(2000)]);
        let mut expected = vec![0u32; 16];
        x.iter().for_each(|x| expected[(x % 16) as usize] += 1);
        assert_eq!(bins, expected);

        let mut u = vec![0, 0, u32::MAX, 0, u32::MAX, 0, 0, 0, 0, 0];
        let (mut s, mut l, mut f, mut d) = (vec![0i32, i32::MIN], vec![1u64], vec![0f32], vec![0f64]);
        let arguments = [buffer(&mut u), buffer(&mut s), buffer(&mut l), buffer(&mut f), buffer(&mut d)];
        run(ptx, "atomics", &line(4, 64), &arguments);
        let xor = (0..256).fold(0, |xor, i| xor ^ i);
        // 256 steps around a ring of ten.
        assert_eq!(u, [255 * 128, 255, 0, u32::MAX, 0, xor, 6, 4, 5, 77]);
        assert_eq!(s, [-255, -45]);
        assert_eq!((l[0], f[0], d[0]), (1 + (256 << 33), 128.0, 64.0));
    }
}

#[test]
fn shared_memory_of_the_launch() {
    for ptx in BLOCKS {
        let (mut x, mut y) = (floats(300), vec![0f32; 300]);
        run(ptx, "reversed", &Size([3, 1, 1], [100, 1, 1], 400), &[buffer(&mut x), buffer(&mut y)]);
        let expected: Vec<f32> = x.chunks(100).flat_map(|chunk| chunk.iter().rev().copied()).collect();
        assert_eq!(y, expected);
    }
}

#[test]
fn barriers_count_who_is_left_or_named() {
    for ptx in BLOCKS {
        let mut y = vec![0u32; 64];
        run(ptx, "early_exit", &line(1, 64), &[buffer(&mut y)]);
        assert_eq!(y, [vec![11; 40], vec![0; 24]].concat());

        let mut y = vec![0u32; 128];
        run(ptx, "named", &line(1, 128), &[buffer(&mut y)]);
        assert_eq!(y, (0..128).map(|i| i ^ 63).collect::<Vec<_>>());
    }
}

#[test]
fn asynchronous_copies_fill_with_zeros() {
    for ptx in ASYNC {
        for (kernel, bytes) in [("copy4", 4), ("copy8", 8), ("copy16", 16)] {
            for used in [0, 1, 3, bytes - 1, bytes] {
                let mut x: Vec<u8> = (0..32 * bytes).map(|i| (i * 7 + 1) as u8).collect();
                let mut y = vec![0u8; 32 * bytes];
                run(ptx, kernel, &line(1, 32), &[buffer(&mut x), buffer(&mut y), u32(used as u32)]);
                let expected: Vec<u8> = (0..32 * bytes)
                    .map(|i| if i % bytes < used { x[(31 - i / bytes) * bytes + i % bytes] } else { 0 })
                    .collect();
                assert_eq!(y, expected, "{kernel}, {used} bytes");
            }
        }
    }
}

#[test]
fn barriers_in_memory_go_from_phase_to_phase() {
    for ptx in ASYNC {
        let mut y = vec![0u32; 4 * 128];
        run(ptx, "phases", &line(1, 128), &[buffer(&mut y)]);
        let mut sum = 0;
        for (phase, found) in y.chunks(128).enumerate() {
            sum += 127 * 64 + 128 * phase as u32;
            assert!(found.iter().all(|&found| found == sum), "phase {phase}");
        }
    }
}

#[test]
fn barriers_of_the_cuda_library() {
    for ptx in [include_str!("ptx/library_barrier.sm_75.ptx"), include_str!("ptx/library_barrier.sm_80.ptx")]
    {
        let mut x: Vec<f32> = (0..128).map(|i| i as f32).collect();
        let mut y = vec![0f32; 128];
        run(ptx, "exchanged", &line(1, 128), &[buffer(&mut x), buffer(&mut y)]);
        let expected: Vec<f32> = (0..128).map(|i| (i ^ 1) as f32 + 1000.0 * (i % 64 + 4) as f32).collect();
        assert_eq!(y, expected);
    }
}

#[test]
fn a_product_by_tiles() {
    let (rows, columns, common) = (128, 64, 80);
    let mut small = Noise(5);
    let mut matrix = |count: usize| -> Vec<f32> { (0..count).map(|_| small.small()).collect() };
    let (mut a, mut b, mut c) = (matrix(rows * common), matrix(common * columns), vec![0f32; rows * columns]);
    let arguments = [buffer(&mut a), buffer(&mut b), buffer(&mut c), u32(columns as u32), u32(common as u32)];
    run(include_str!("ptx/tiled.sm_80.ptx"), "tiled", &Size([1, 2, 1], [256, 1, 1], 0), &arguments);
    for (at, &found) in c.iter().enumerate() {
        let (row, column) = (at / columns, at % columns);
        let exact: f32 = (0..common).map(|k| a[row * common + k] * b[k * columns + column]).sum();
        assert_eq!(found, exact, "row {row}, column {column}");
    }
}

#[test]
fn reductions_by_one_instruction() {
    let mut x: Vec<i32> = noise(32).into_iter().map(|bits| bits as i32).collect();
    let mut out = vec![0i32; 128];
    run(include_str!("ptx/warp_sums.sm_80.ptx"), "reduce", &line(1, 32), &[buffer(&mut x), buffer(&mut out)]);
    let sum = x.iter().fold(0i32, |sum, &x| sum.wrapping_add(x));
    let unsigned = x.iter().map(|&x| x as u32).max().unwrap_or(0) as i32;
    let xor = x.iter().fold(0, |xor, x| xor ^ x);
    for (found, expected) in out.chunks(32).zip([sum, x.iter().copied().min().unwrap_or(0), unsigned, xor]) {
        assert!(found.iter().all(|&found| found == expected));
    }
}

#[test]
fn what_a_kernel_says_of_itself() {
    let module = Module::parse(BLOCKS[1]).unwrap();
    let kernel = module.kernel("sum_shared").unwrap();
    assert_eq!((kernel.static_shared_bytes(), kernel.parameters()), (512, [8, 8, 4].as_slice()));
    assert!(module.kernels().any(|kernel| kernel.name() == "votes"));
    let elements = Module::parse(ELEMENTS[1]).unwrap();
    assert!(elements.kernel("local_array").unwrap().local_bytes() >= 32);
    assert_eq!(elements.kernel("by_value").unwrap().parameters(), [8, 28]);
}
