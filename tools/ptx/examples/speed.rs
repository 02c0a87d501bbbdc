//! Measures nanoseconds a warp instruction: `cargo run --release -p oomph-ptx --example speed`.

use std::time::Instant;

use oomph_ptx::{GlobalMemory, Launch, Module};

struct One(u64, u64);

impl GlobalMemory for One {
    fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        (address >= self.0 && address < self.1).then_some((self.0, self.1))
    }
}

/// A loop of some instructions, eight times a turn.
fn kernel(instructions: &str) -> String {
    let body = instructions.repeat(8);
    format!(
        ".visible .entry k(.param .u64 x) {{
            .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .f32 %f<16>; .reg .b64 %rd<8>;
            .shared .align 16 .b8 s[4096];
            ld.param.u64 %rd0, [x]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, 4, %rd0;
            mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 16, %r2; mov.u32 %r0, 0; mov.f32 %f0, 0f3F800000; mov.f32 %f1, %f0;
            mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u32 %r22, 0; mov.u32 %r23, 0; mov.u32 %r24, 0; mov.u32 %r25, 0;
            mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;
        L:  {body}
            add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 1000; @%p0 bra L;
            st.global.f32 [%rd1], %f1; st.global.u32 [%rd1], %r4;
            ret; }}"
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut x = vec![0f32; 3 * 256 * 256];
    let start = x.as_mut_ptr().expose_provenance() as u64;
    let memory = One(start, start + 4 * x.len() as u64);
    for (name, instructions) in [
        ("fma.rn.f32", "fma.rn.f32 %f1, %f1, %f0, %f0;"),
        ("add.s32", "add.s32 %r4, %r4, %r1;"),
        ("mul.wide.u32", "mul.wide.u32 %rd2, %r1, %r4;"),
        ("add.s64", "add.s64 %rd2, %rd1, %rd2;"),
        ("setp.lt.s32", "setp.lt.s32 %p1, %r4, %r1;"),
        ("selp.f32", "selp.f32 %f1, %f0, %f1, %p1;"),
        ("guarded add.f32", "@%p1 add.f32 %f1, %f1, %f0;"),
        ("max.f32", "max.f32 %f1, %f1, %f0;"),
        ("ex2.approx.f32", "ex2.approx.f32 %f1, %f0;"),
        ("fma.rm.f32", "fma.rm.f32 %f1, %f1, %f0, %f0;"),
        ("cvt.rn.f16.f32", "cvt.rn.f16.f32 %h1, %f1;"),
        ("cvt.rn.f32.s32", "cvt.rn.f32.s32 %f1, %r1;"),
        ("fma.rn.f16x2", "fma.rn.f16x2 %r4, %r4, %r1, %r1;"),
        ("ld.global.f32 in a row", "ld.global.f32 %f1, [%rd1];"),
        ("ld.global.f32 of one", "ld.global.f32 %f1, [%rd0];"),
        ("ld.global.v4.f32", "ld.global.v4.f32 {%f4, %f5, %f6, %f7}, [%rd0];"),
        ("st.global.f32 in a row", "st.global.f32 [%rd1], %f1;"),
        ("ld.shared.v4.f32", "ld.shared.v4.f32 {%f4, %f5, %f6, %f7}, [%r3];"),
        ("st.shared.f32", "st.shared.f32 [%r3], %f1;"),
        ("shfl.sync.bfly", "shfl.sync.bfly.b32 %r4, %r1, 1, 31, 0xffffffff;"),
        ("ldmatrix.x4", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r3];"),
        (
            "mma.m16n8k16.f16",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r20, %r21, %r22, %r23}, \
             {%r24, %r25}, {%f4, %f5, %f6, %f7};",
        ),
        (
            "mma.m16n8k8.tf32",
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4, %f5, %f6, %f7}, {%r20, %r21, %r22, %r23}, \
             {%r24, %r25}, {%f4, %f5, %f6, %f7};",
        ),
    ] {
        let module = Module::parse(&kernel(instructions))?;
        let kernel = module.kernel("k").ok_or("the module has no kernel")?;
        let launch = Launch {
            grid: [1, 1, 1],
            block: [256, 1, 1],
            dynamic_shared_bytes: 0,
            parameters: &[&start.to_ne_bytes()],
            memory: &memory,
            threads: 1,
            sectors: None,
        };
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let begin = Instant::now();
            let executed = kernel.run(&launch)?;
            best = best.min(begin.elapsed().as_nanos() as f64 / executed.warp_instructions as f64);
        }
        println!("{name:24} {best:7.1} ns");
    }
    product(&memory, start)
}

/// A product of matrices of 256 × 256, by a kernel that NVIDIA's compiler made.
fn product(memory: &One, start: u64) -> Result<(), Box<dyn std::error::Error>> {
    let module = Module::parse(include_str!("../tests/ptx/tiled.sm_80.ptx"))?;
    let kernel = module.kernel("tiled").ok_or("the module has no kernel")?;
    let matrix = |index: u64| (start + index * 256 * 256 * 4).to_ne_bytes();
    let size = 256u32.to_ne_bytes();
    let begin = Instant::now();
    let executed = kernel.run(&Launch {
        grid: [4, 4, 1],
        block: [256, 1, 1],
        dynamic_shared_bytes: 0,
        parameters: &[&matrix(0), &matrix(1), &matrix(2), &size, &size],
        memory,
        threads: 1,
        sectors: None,
    })?;
    let nanoseconds = begin.elapsed().as_nanos() as f64;
    println!("product of 256 × 256: {:.1} ms", nanoseconds / 1e6);
    println!("{:24} {:7.1} ns", "an instruction of it", nanoseconds / executed.warp_instructions as f64);
    Ok(())
}
