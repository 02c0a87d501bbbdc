//! Buffers, launches and kernels from templates, for all tests.
#![allow(dead_code, reason = "every test file uses some of it")]

use oomph_ptx::{ExecError, Executed, GlobalMemory, Kernel, Launch, Module};

/// The buffers of a test.
#[derive(Default)]
pub(crate) struct Memory(pub(crate) Vec<(u64, u64)>);

impl GlobalMemory for Memory {
    fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        self.0.iter().copied().find(|&(start, end)| address >= start && address < end)
    }
}

/// An argument of a kernel.
pub(crate) enum Argument {
    Bytes(Vec<u8>),
    /// A buffer by its address: the range that is allocated.
    Buffer(u64, u64),
}

pub(crate) fn u32(value: u32) -> Argument {
    Argument::Bytes(value.to_ne_bytes().to_vec())
}

pub(crate) fn f32(value: f32) -> Argument {
    Argument::Bytes(value.to_ne_bytes().to_vec())
}

pub(crate) fn buffer<T>(data: &mut [T]) -> Argument {
    let start = data.as_mut_ptr().expose_provenance() as u64;
    Argument::Buffer(start, start + size_of_val(data) as u64)
}

/// Grid, block and bytes of dynamic shared memory.
pub(crate) struct Size(pub(crate) [u32; 3], pub(crate) [u32; 3], pub(crate) usize);

/// A line of blocks and threads.
pub(crate) fn line(blocks: u32, threads: u32) -> Size {
    Size([blocks, 1, 1], [threads, 1, 1], 0)
}

pub(crate) fn launch(kernel: &Kernel, size: &Size, arguments: &[Argument]) -> Result<Executed, ExecError> {
    let mut memory = Memory::default();
    let mut bytes = Vec::new();
    for argument in arguments {
        match argument {
            Argument::Bytes(value) => bytes.push(value.clone()),
            &Argument::Buffer(start, end) => {
                memory.0.push((start, end));
                bytes.push(start.to_ne_bytes().to_vec());
            }
        }
    }
    let parameters: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    kernel.run(&Launch {
        grid: size.0,
        block: size.1,
        dynamic_shared_bytes: size.2,
        parameters: &parameters,
        memory: &memory,
        threads: 2,
        sectors: None,
    })
}

/// Runs the kernel of a text.
pub(crate) fn run(ptx: &str, name: &str, size: &Size, arguments: &[Argument]) -> Executed {
    let module = Module::parse(ptx).unwrap_or_else(|error| panic!("{error}"));
    let kernel = module.kernel(name).unwrap_or_else(|| panic!("no kernel {name}"));
    launch(kernel, size, arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// Applies instructions to operands: `%a64`, `%b64`, `%c64` hold them whole, `%a`, `%b`, `%c` their low 32 bits, `%ha`,
/// `%hb`, `%hc` their low 16; the result is what is then in `%d64`, `%d` or `%hd`, whichever the text names, or in
/// the predicate `%pd`.
pub(crate) fn apply(instructions: &str, operands: &[[u64; 3]]) -> Vec<u64> {
    let result = if instructions.contains("%d64") {
        ""
    } else if instructions.contains("%hd") {
        "cvt.u64.u16 %d64, %hd;"
    } else if instructions.contains("%pd") {
        "selp.b64 %d64, 1, 0, %pd;"
    } else {
        "cvt.u64.u32 %d64, %d;"
    };
    let ptx = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n
        .visible .entry apply(.param .u64 in, .param .u64 out, .param .u32 count) {{
            .reg .pred %p<3>; .reg .pred %pa; .reg .pred %pd; .reg .b32 %r<9>; .reg .b64 %rd<9>;
            .reg .b16 %ha; .reg .b16 %hb; .reg .b16 %hc; .reg .b16 %hd; .reg .b32 %a; .reg .b32 %b; .reg .b32 %c;
            .reg .b32 %d; .reg .b64 %a64; .reg .b64 %b64; .reg .b64 %c64; .reg .b64 %d64; .reg .b64 %e64;
            ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out]; ld.param.u32 %r0, [count];
            mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
            mad.lo.u32 %r4, %r2, %r3, %r1;
            setp.ge.u32 %p0, %r4, %r0;
            @%p0 bra END;
            mad.wide.u32 %rd2, %r4, 24, %rd0;
            ld.global.u64 %a64, [%rd2]; ld.global.u64 %b64, [%rd2+8]; ld.global.u64 %c64, [%rd2+16];
            cvt.u32.u64 %a, %a64; cvt.u32.u64 %b, %b64; cvt.u32.u64 %c, %c64;
            cvt.u16.u64 %ha, %a64; cvt.u16.u64 %hb, %b64; cvt.u16.u64 %hc, %c64;
            setp.ne.u64 %pa, %c64, 0;
            mov.u64 %d64, 0;
            {instructions}
            {result}
            mad.wide.u32 %rd3, %r4, 8, %rd1;
            st.global.u64 [%rd3], %d64;
        END: ret; }}"
    );
    let mut input: Vec<u64> = operands.iter().flatten().copied().collect();
    let mut output = vec![0u64; operands.len()];
    let blocks = (operands.len() as u32).div_ceil(64);
    run(
        &ptx,
        "apply",
        &line(blocks, 64),
        &[buffer(&mut input), buffer(&mut output), u32(operands.len() as u32)],
    );
    output
}

/// All triples of some values.
pub(crate) fn triples(values: &[u64]) -> Vec<[u64; 3]> {
    let mut out = Vec::new();
    for &a in values {
        for &b in values {
            for &c in values {
                out.push([a, b, c]);
            }
        }
    }
    out
}

/// A pseudo-random sequence of 32 bits.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// A small number that every format holds exactly.
    pub(crate) fn small(&mut self) -> f32 {
        (self.next() % 17) as f32 / 8.0 - 1.0
    }
}
