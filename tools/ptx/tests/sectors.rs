//! What a launch tells of the memory that it touches.

use oomph_ptx::{GlobalMemory, Launch, Module, Sectors};

/// All addresses, in one allocation.
struct All;

impl GlobalMemory for All {
    fn allocation(&self, _: u64) -> Option<(u64, u64)> {
        Some((0, u64::MAX))
    }
}

/// Thread i reads float 16 i, and writes float i and a float of shared memory.
const STRIDED: &str = ".visible .entry strided(.param .u64 in, .param .u64 out) {
    .shared .align 4 .b8 tile[256];
    .reg .b32 %r<3>; .reg .b64 %rd<9>; .reg .f32 %f<2>;
    ld.param.u64 %rd0, [in];
    ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, 64;
    add.s64 %rd3, %rd0, %rd2;
    ld.global.f32 %f0, [%rd3];
    mul.wide.u32 %rd4, %r0, 4;
    add.s64 %rd5, %rd1, %rd4;
    st.global.f32 [%rd5], %f0;
    mov.u64 %rd6, tile;
    cvta.shared.u64 %rd7, %rd6;
    add.s64 %rd8, %rd7, %rd4;
    st.f32 [%rd8], %f0;
    ld.f32 %f1, [%rd8];
    ret;
}";

#[test]
fn a_strided_kernel_reads_a_sector_a_thread_and_writes_dense_ones() {
    #[repr(align(64))]
    struct Buffer<const N: usize>([f32; N]);
    let (input, mut output) = (Buffer([1.0; 1024]), Buffer([0.0; 64]));
    let addresses = [input.0.as_ptr().expose_provenance(), output.0.as_mut_ptr().expose_provenance()];
    let addresses = addresses.map(|address| (address as u64).to_ne_bytes());
    let sectors = Sectors::default();
    let module = Module::parse(STRIDED).unwrap_or_else(|error| panic!("{error}"));
    let launch = Launch {
        grid: [1, 1, 1],
        block: [64, 1, 1],
        dynamic_shared_bytes: 0,
        parameters: &[&addresses[0], &addresses[1]],
        memory: &All,
        threads: 1,
        sectors: Some(&sectors),
    };
    module.kernel("strided").unwrap().run(&launch).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((sectors.read_bytes(), sectors.written_bytes()), (64 * 32, 64 * 4));
    assert_eq!(output.0, [1.0; 64]);
}
