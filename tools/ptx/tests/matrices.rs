//! Every form of the tensor-core instructions, alone, against a plain product of matrices. Where each element is in a
//! fragment is written here as the PTX ISA has it, register by register.

mod kit;

use half::{bf16, f16};
use kit::{Noise, buffer, line, run};

/// Row-major.
type Matrix = Vec<Vec<f32>>;

/// A matrix in which no two elements are alike, of numbers that every format holds exactly.
fn distinct(rows: usize, columns: usize, seed: u64) -> Matrix {
    let mut order: Vec<i32> = (0..(rows * columns) as i32).collect();
    let mut noise = Noise(seed);
    for last in (1..order.len()).rev() {
        order.swap(last, noise.next() as usize % (last + 1));
    }
    // Up to 256 values that fit the eight bits of a bfloat16.
    let value = |i: i32| (i % 256 - 128) as f32 / 16.0;
    (0..rows).map(|r| (0..columns).map(|c| value(order[r * columns + c])).collect()).collect()
}

fn product(a: &Matrix, b: &Matrix, c: &Matrix) -> Matrix {
    let element = |row: usize, column: usize| {
        c[row][column] + (0..b.len()).map(|k| a[row][k] * b[k][column]).sum::<f32>()
    };
    (0..a.len()).map(|row| (0..b[0].len()).map(|column| element(row, column)).collect()).collect()
}

/// A format of elements.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    F16,
    Bf16,
    Tf32,
    F32,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::F16 => "f16",
            Format::Bf16 => "bf16",
            Format::Tf32 => "tf32",
            Format::F32 => "f32",
        }
    }

    fn per_register(self) -> usize {
        if matches!(self, Format::F16 | Format::Bf16) { 2 } else { 1 }
    }

    fn bits(self, value: f32) -> u32 {
        match self {
            Format::F16 => u32::from(f16::from_f32(value).to_bits()),
            Format::Bf16 => u32::from(bf16::from_f32(value).to_bits()),
            // The low bits are to be ignored, so they are not left zero here.
            Format::Tf32 => value.to_bits() | 0x1234 & 0x1fff,
            Format::F32 => value.to_bits(),
        }
    }

    fn value(self, bits: u32) -> f32 {
        match self {
            Format::F16 => f16::from_bits(bits as u16).to_f32(),
            Format::Bf16 => bf16::from_bits(bits as u16).to_f32(),
            Format::Tf32 | Format::F32 => f32::from_bits(bits),
        }
    }
}

/// Row and column of a lane's element.
type ElementPlace = fn(lane: usize, index: usize) -> (usize, usize);

/// The registers of all lanes, one lane after another.
fn fragment(matrix: &Matrix, format: Format, registers: usize, place: ElementPlace) -> Vec<u32> {
    let per = format.per_register();
    let mut out = vec![0; 32 * registers];
    for lane in 0..32 {
        for index in 0..registers * per {
            let (row, column) = place(lane, index);
            out[lane * registers + index / per] |= format.bits(matrix[row][column]) << (16 * (index % per));
        }
    }
    out
}

fn a16x16(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
    let column = if i < 4 { thread * 2 + (i & 1) } else { thread * 2 + (i & 1) + 8 };
    (row, column)
}

fn b16x8(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (if i < 2 { thread * 2 + (i & 1) } else { thread * 2 + (i & 1) + 8 }, group)
}

fn a16x8(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

fn b8x8(lane: usize, i: usize) -> (usize, usize) {
    (lane % 4 * 2 + i, lane >> 2)
}

fn a_tf32(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    [(group, thread), (group + 8, thread), (group, thread + 4), (group + 8, thread + 4)][i]
}

fn b_tf32(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    [(thread, group), (thread + 4, group)][i]
}

fn c16x8(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

/// `n` registers from `start` on.
fn registers(start: usize, n: usize) -> String {
    let names: Vec<String> = (start..start + n).map(|i| format!("%r{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// A form of `mma`: K, the types, and the layouts of A and B.
struct Form(usize, Format, Format, ElementPlace, ElementPlace);

fn check_mma(&Form(k, ab, c, place_a, place_b): &Form) {
    let (a, b, start) = (distinct(16, k, 1), distinct(k, 8, 2), distinct(16, 8, 3));
    let counts = [16 * k / 32 / ab.per_register(), k * 8 / 32 / ab.per_register(), 4 / c.per_register()];
    let [na, nb, nc] = counts;
    let mut fragments =
        [fragment(&a, ab, na, place_a), fragment(&b, ab, nb, place_b), fragment(&start, c, nc, c16x8)];
    let mut loads = String::new();
    for (which, (&n, first)) in counts.iter().zip([10, 20, 30]).enumerate() {
        loads += &format!("mad.wide.u32 %rd8, %r0, {}, %rd{which};\n", 4 * n);
        for i in 0..n {
            loads += &format!("ld.global.u32 %r{}, [%rd8+{}];\n", first + i, 4 * i);
        }
    }
    let stores: String =
        (0..nc).map(|i| format!("st.global.u32 [%rd8+{}], %r{};\n", 4 * i, 40 + i)).collect();
    let (ab_name, c_name) = (ab.name(), c.name());
    let ptx = format!(
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {{
            .reg .b32 %r<50>; .reg .b64 %rd<9>;
            ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u64 %rd2, [c]; ld.param.u64 %rd3, [d];
            mov.u32 %r0, %tid.x;
            {loads}
            mma.sync.aligned.m16n8k{k}.row.col.{c_name}.{ab_name}.{ab_name}.{c_name} {}, {}, {}, {};
            mad.wide.u32 %rd8, %r0, {}, %rd3;
            {stores}
            ret; }}",
        registers(40, nc),
        registers(10, na),
        registers(20, nb),
        registers(30, nc),
        4 * nc,
    );
    let mut out = vec![0u32; 32 * nc];
    let [fa, fb, fc] = &mut fragments;
    run(&ptx, "k", &line(1, 32), &[buffer(fa), buffer(fb), buffer(fc), buffer(&mut out)]);
    let expected = product(&a, &b, &start);
    let per = c.per_register();
    for lane in 0..32 {
        for index in 0..4 {
            let (row, column) = c16x8(lane, index);
            let found = c.value(out[lane * nc + index / per] >> (16 * (index % per)));
            let expected =
                c.value(c.bits(expected[row][column]) & if c == Format::F32 { u32::MAX } else { 0xffff });
            assert_eq!(found, expected, "k{k} {ab_name} {c_name}: row {row}, column {column}");
        }
    }
}

#[test]
fn every_form_of_mma() {
    for form in [
        Form(16, Format::F16, Format::F32, a16x16, b16x8),
        Form(16, Format::F16, Format::F16, a16x16, b16x8),
        Form(16, Format::Bf16, Format::F32, a16x16, b16x8),
        Form(8, Format::F16, Format::F32, a16x8, b8x8),
        Form(8, Format::F16, Format::F16, a16x8, b8x8),
        Form(8, Format::Bf16, Format::F32, a16x8, b8x8),
        Form(8, Format::Tf32, Format::F32, a_tf32, b_tf32),
        Form(4, Format::Tf32, Format::F32, a_tf32, b_tf32),
    ] {
        check_mma(&form);
    }
}

/// Matrices of 8 × 8 in shared memory, rows of 16 bytes; lane l gives the address of row l.
fn shared_matrices(count: usize, transpose: &str, load: bool) -> Vec<u32> {
    let into = registers(10, count);
    let body = if load {
        let stores: String =
            (0..count).map(|i| format!("st.global.u32 [%rd2+{}], %r{};\n", 4 * i, 10 + i)).collect();
        format!(
            "mad.wide.u32 %rd4, %r0, 16, %rd0; ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd4];
             st.shared.v4.u32 [%r2], {{%r4, %r5, %r6, %r7}}; bar.sync 0;
             ldmatrix.sync.aligned.m8n8.x{count}{transpose}.shared.b16 {into}, [%r2];
             mad.wide.u32 %rd2, %r0, {}, %rd1; {stores}",
            4 * count
        )
    } else {
        let loads: String =
            (0..count).map(|i| format!("ld.global.u32 %r{}, [%rd2+{}];\n", 10 + i, 4 * i)).collect();
        format!(
            "mad.wide.u32 %rd2, %r0, {}, %rd0; {loads}
             stmatrix.sync.aligned.m8n8.x{count}{transpose}.shared::cta.b16 [%r2], {into}; bar.sync 0;
             ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r2];
             mad.wide.u32 %rd4, %r0, 16, %rd1; st.global.v4.u32 [%rd4], {{%r4, %r5, %r6, %r7}};",
            4 * count
        )
    };
    let ptx = format!(
        ".visible .entry k(.param .u64 in, .param .u64 out) {{
            .reg .b32 %r<20>; .reg .b64 %rd<9>; .shared .align 16 .b8 rows[512];
            ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];
            mov.u32 %r0, %tid.x; mov.u32 %r1, rows; mad.lo.u32 %r2, %r0, 16, %r1;
            {body} ret; }}"
    );
    let mut input: Vec<u16> = (0..256).collect();
    let mut output = vec![0u32; 128];
    run(&ptx, "k", &line(1, 32), &[buffer(&mut input), buffer(&mut output)]);
    output
}

#[test]
fn matrices_of_shared_memory_are_loaded() {
    for count in [1, 2, 4] {
        for transpose in ["", ".trans"] {
            let found = shared_matrices(count, transpose, true);
            for lane in 0..32 {
                for matrix in 0..count {
                    let element = |part: usize| {
                        let (row, column) = (lane / 4, lane % 4 * 2 + part);
                        let (row, column) = if transpose.is_empty() { (row, column) } else { (column, row) };
                        (matrix * 64 + row * 8 + column) as u32
                    };
                    assert_eq!(found[lane * count + matrix], element(1) << 16 | element(0));
                }
            }
        }
    }
}

#[test]
fn matrices_are_stored_to_shared_memory() {
    for count in [1, 2, 4] {
        for transpose in ["", ".trans"] {
            let found = shared_matrices(count, transpose, false);
            for at in 0..64 * count {
                let (matrix, row, column) = (at / 64, at / 8 % 8, at % 8);
                let (row, column) = if transpose.is_empty() { (row, column) } else { (column, row) };
                let (lane, part) = (row * 4 + column / 2, column % 2);
                // The input's halves count up: lane by lane, register by register.
                let expected = (lane * count * 2 + matrix * 2 + part) as u32;
                assert_eq!(found[at / 2] >> (16 * (at % 2)) & 0xffff, expected);
            }
        }
    }
}

/// The way kernels use both: `ldmatrix.x4` of A as it is, `ldmatrix.x2.trans` of B as it is.
#[test]
fn loaded_matrices_are_the_fragments_of_mma() {
    let (a, b) = (distinct(16, 16, 5), distinct(16, 8, 6));
    let bits = |matrix: &Matrix| -> Vec<u16> {
        matrix.iter().flatten().map(|&x| f16::from_f32(x).to_bits()).collect()
    };
    let ptx = ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d) {
        .reg .b32 %r<40>; .reg .b64 %rd<9>; .shared .align 16 .b8 sa[512]; .shared .align 16 .b8 sb[256];
        ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u64 %rd2, [d];
        mov.u32 %r0, %tid.x; mov.u32 %r1, sa; mov.u32 %r2, sb;
        mad.wide.u32 %rd3, %r0, 16, %rd0; mad.lo.u32 %r3, %r0, 16, %r1;
        cp.async.cg.shared.global [%r3], [%rd3], 16;
        mad.wide.u32 %rd4, %r0, 8, %rd1; mad.lo.u32 %r4, %r0, 8, %r2;
        cp.async.ca.shared.global [%r4], [%rd4], 8;
        cp.async.wait_all; bar.sync 0;
        and.b32 %r5, %r0, 15; shr.u32 %r6, %r0, 4; shl.b32 %r6, %r6, 4;
        mad.lo.u32 %r7, %r5, 32, %r1; add.u32 %r7, %r7, %r6;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r7];
        mad.lo.u32 %r8, %r5, 16, %r2;
        ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r14, %r15}, [%r8];
        mov.u32 %r20, 0;
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r30, %r31, %r32, %r33}, {%r10, %r11, %r12, %r13},
            {%r14, %r15}, {%r20, %r20, %r20, %r20};
        mad.wide.u32 %rd5, %r0, 16, %rd2;
        st.global.v4.f32 [%rd5], {%r30, %r31, %r32, %r33};
        ret; }";
    let (mut bits_a, mut bits_b, mut out) = (bits(&a), bits(&b), vec![0f32; 128]);
    run(ptx, "k", &line(1, 32), &[buffer(&mut bits_a), buffer(&mut bits_b), buffer(&mut out)]);
    let expected = product(&a, &b, &vec![vec![0.0; 8]; 16]);
    for lane in 0..32 {
        for index in 0..4 {
            let (row, column) = c16x8(lane, index);
            assert_eq!(out[lane * 4 + index], expected[row][column]);
        }
    }
}

#[test]
fn fragments_of_cuda() {
    for ptx in [include_str!("ptx/tensor.sm_75.ptx"), include_str!("ptx/tensor.sm_90.ptx")] {
        for (kernel, m, n, a_by_column, b_by_column) in
            [("square", 16, 16, false, true), ("wide", 8, 32, false, false), ("tall", 32, 8, true, false)]
        {
            let (a, b) = (distinct(m, 16, 7), distinct(16, n, 8));
            let mut out = vec![0f32; m * n];
            let (mut bits_a, mut bits_b) = (stored(&a, a_by_column), stored(&b, b_by_column));
            run(ptx, kernel, &line(1, 32), &[buffer(&mut bits_a), buffer(&mut bits_b), buffer(&mut out)]);
            let expected = product(&a, &b, &vec![vec![0.5; n]; m]);
            assert_eq!(out, expected.iter().flatten().map(|x| 2.0 * x).collect::<Vec<_>>(), "{kernel}");
        }
        let (a, b) = (distinct(16, 16, 9), distinct(16, 16, 10));
        let (mut bits_a, mut bits_b, mut out) = (stored(&a, false), stored(&b, false), vec![0u16; 256]);
        run(ptx, "halves", &line(1, 32), &[buffer(&mut bits_a), buffer(&mut bits_b), buffer(&mut out)]);
        let expected = product(&a, &b, &vec![vec![0.5; 16]; 16]);
        for (found, expected) in out.iter().zip(expected.iter().flatten()) {
            let rounded = f16::from_f32(*expected).to_f32();
            assert_eq!(*found, f16::from_f32(2.0 * rounded).to_bits());
        }
    }
}

fn stored(matrix: &Matrix, by_column: bool) -> Vec<u16> {
    let (rows, columns) = (matrix.len(), matrix[0].len());
    let at = |i: usize| if by_column { (i % rows, i / rows) } else { (i / columns, i % columns) };
    (0..rows * columns).map(|i| f16::from_f32(matrix[at(i).0][at(i).1]).to_bits()).collect()
}

/// `wmma` in tf32 and bfloat16, from row- and column-major memory with rows further apart than they are long.
#[test]
fn fragments_of_other_types() {
    for (shape, k, format) in [("m16n16k8", 8, Format::Tf32), ("m16n16k16", 16, Format::Bf16)] {
        let (a, b) = (distinct(16, k, 11), distinct(k, 16, 12));
        let padded = |matrix: &Matrix, by_column: bool| {
            let mut bytes = vec![0u8; 24 * 24 * 4];
            let size = 4 / format.per_register();
            for (row, values) in matrix.iter().enumerate() {
                for (column, &value) in values.iter().enumerate() {
                    let at = size * if by_column { column * 20 + row } else { row * 20 + column };
                    let bits = format.bits(value).to_le_bytes();
                    bytes[at..at + size].copy_from_slice(&bits[..size]);
                }
            }
            bytes
        };
        let (name, c) = (format.name(), registers(30, 8));
        let (fa, fb) = (registers(10, 4), registers(20, 4));
        let ptx = format!(
            ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d) {{
                .reg .b32 %r<40>; .reg .b64 %rd<9>;
                ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u64 %rd2, [d]; mov.u32 %r0, 20;
                wmma.load.a.sync.aligned.row.{shape}.global.{name} {fa}, [%rd0], %r0;
                wmma.load.b.sync.aligned.col.{shape}.{name} {fb}, [%rd1], %r0;
                wmma.load.c.sync.aligned.row.{shape}.global.f32 {c}, [%rd2], %r0;
                wmma.mma.sync.aligned.row.col.{shape}.f32.{name}.{name}.f32 {c}, {fa}, {fb}, {c};
                wmma.store.d.sync.aligned.col.{shape}.global.f32 [%rd2], {c}, %r0;
                ret; }}"
        );
        let mut out = vec![1f32; 20 * 16];
        let (mut bytes_a, mut bytes_b) = (padded(&a, false), padded(&b, true));
        run(&ptx, "k", &line(1, 32), &[buffer(&mut bytes_a), buffer(&mut bytes_b), buffer(&mut out)]);
        let expected = product(&a, &b, &vec![vec![1.0; 16]; 16]);
        for row in 0..16 {
            for column in 0..16 {
                assert_eq!(out[column * 20 + row], expected[row][column], "{name}: {row}, {column}");
            }
        }
    }
}
