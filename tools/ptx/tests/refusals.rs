//! What is refused: modules that cannot be run, launches that do not fit, and accesses outside of memory.

mod kit;

use kit::{Argument, Size, apply, buffer, launch, line, u32};
use oomph_ptx::{ExecError, LaunchFault, Module, PtxError};

fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.visible .entry k(.param .u64 x, .param .u32 n)\n{{
        .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .shared .align 8 .b8 s[64];
        ld.param.u64 %rd0, [x]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, 4, %rd0;
{body}
        ret; }}"
    )
}

fn error_of(body: &str, threads: u32, n: u32) -> ExecError {
    let module = Module::parse(&kernel(body)).unwrap_or_else(|error| panic!("{error}"));
    let mut x = vec![0u32; 64];
    let arguments = [buffer(&mut x), u32(n)];
    launch(module.kernel("k").unwrap(), &line(1, threads), &arguments).expect_err("the kernel is stopped")
}

#[test]
fn unknown_instructions_are_named_with_their_line() {
    for instruction in [
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        "add.something.u32",
        "mul.wide.f32",
        "tex.2d.v4.f32.f32",
        "div.rm.f32",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
    ] {
        let error = Module::parse(&kernel(&format!("{instruction} %r0, %r1, %r2;"))).err();
        let expected = PtxError::Unsupported { line: 7, instruction: instruction.into() };
        assert_eq!(error, Some(expected));
    }
    let call = Module::parse(&kernel("call.uni (%r0), function, (%r1);")).err();
    assert_eq!(call, Some(PtxError::Unsupported { line: 7, instruction: "call.uni".into() }));
}

#[test]
fn names_and_operands_are_checked() {
    let undeclared = |body: &str, name: &str| {
        let expected = PtxError::Undeclared { line: 7, name: name.into() };
        assert_eq!(Module::parse(&kernel(body)).err(), Some(expected));
    };
    undeclared("bra NOWHERE;", "NOWHERE");
    undeclared("mov.u32 %r0, %envreg0;", "%envreg0");
    undeclared("add.u32 %r0, %r1, %r9;", "%r9");
    undeclared("@%q bra NOWHERE;", "%q");
    let misfit = |body: &str| {
        assert!(
            matches!(Module::parse(&kernel(body)).err(), Some(PtxError::Operand { line: 7, .. })),
            "{body}"
        );
    };
    misfit("add.u32 %r0, %rd0, %r1;");
    misfit("add.u64 %rd0, %rd0, %r1;");
    misfit("setp.eq.u32 %r0, %r1, %r2;");
    misfit("ld.global.v4.u32 {%r0, %r1}, [%rd0];");
    misfit("st.global.u32 %rd0, %r0;");
    assert!(matches!(Module::parse("hello"), Err(PtxError::Syntax { line: 1, .. })));
}

#[test]
fn addresses_outside_of_memory_are_illegal() {
    // The guard lets no lane through that is beyond the end.
    for (body, bytes) in [
        ("ld.global.u32 %r2, [%rd1+4];", 4),
        ("st.global.u32 [%rd1+4], %r1;", 4),
        ("ld.u32 %r2, [%rd1+4];", 4),
        ("atom.global.add.u32 %r2, [%rd1+4], 1;", 4),
        ("add.u64 %rd2, %rd1, 4; ld.global.u32 %r2, [%rd2];", 4),
    ] {
        let error = error_of(body, 64, 64);
        let ExecError::IllegalAddress { kernel, line, bytes: found, .. } = error else { panic!("{error}") };
        assert_eq!((kernel.as_str(), line, found), ("k", 7, bytes), "{body}");
    }
    for body in [
        "ld.global.u32 %r2, [0];",
        "mov.u64 %rd3, s; ld.shared.u32 %r2, [%rd3+64];",
        "mov.u32 %r3, s; st.shared.u32 [%r3+-4], %r0;",
        "ld.param.u32 %r2, [x+12];",
    ] {
        assert!(matches!(error_of(body, 32, 0), ExecError::IllegalAddress { line: 7, .. }), "{body}");
    }
}

#[test]
fn addresses_are_aligned() {
    let error = error_of("ld.global.v2.u32 {%r2, %r3}, [%rd0+4];", 1, 0);
    assert!(matches!(error, ExecError::Misaligned { line: 7, bytes: 8, .. }), "{error}");
    let error = error_of("ld.global.u16 %r2, [%rd0+1];", 32, 0);
    assert!(matches!(error, ExecError::Misaligned { bytes: 2, .. }), "{error}");
}

#[test]
fn inactive_lanes_access_nothing() {
    let body =
        "setp.ge.u32 %p0, %r1, %r0; @%p0 bra END; ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd1], %r2; END:";
    let module = Module::parse(&kernel(body)).unwrap();
    let mut x = vec![0u32; 10];
    launch(module.kernel("k").unwrap(), &line(1, 128), &[buffer(&mut x), u32(10)]).unwrap();
}

#[test]
fn traps_are_reported() {
    assert_eq!(error_of("trap;", 1, 0), ExecError::Trap { kernel: "k".into(), line: 7 });
    let guarded = "setp.ge.u32 %p0, %r1, %r0;\n@%p0 trap;";
    assert_eq!(error_of(guarded, 64, 63), ExecError::Trap { kernel: "k".into(), line: 8 });
    let module = Module::parse(&kernel(guarded)).unwrap();
    let mut x = vec![0u32; 1];
    launch(module.kernel("k").unwrap(), &line(1, 64), &[buffer(&mut x), u32(64)]).unwrap();
}

#[test]
fn lanes_that_never_meet_are_reported() {
    // Odd lanes wait for even ones, which wait elsewhere.
    let body = "and.b32 %r2, %r1, 1; setp.eq.u32 %p0, %r2, 0; @%p0 bra EVEN;
        shfl.sync.idx.b32 %r3, %r1, 0, 31, 0xffffffff; ret;
        EVEN: bar.warp.sync 0xffffffff;";
    let error = error_of(body, 32, 0);
    assert!(matches!(error, ExecError::NotConverged { .. }), "{error}");
    // A group of lanes may do so on its own.
    let body = "and.b32 %r2, %r1, 1; setp.eq.u32 %p0, %r2, 0; @%p0 bra EVEN;
        shfl.sync.idx.b32 %r3, %r1, 1, 31, 0xaaaaaaaa; ret;
        EVEN: bar.warp.sync 0x55555555;";
    let module = Module::parse(&kernel(body)).unwrap();
    launch(module.kernel("k").unwrap(), &line(1, 32), &[buffer(&mut [0u32]), u32(0)]).unwrap();
}

#[test]
fn barriers_that_nobody_reaches_are_reported() {
    let error = error_of("bar.sync 1, 96;", 64, 0);
    assert_eq!(error, ExecError::BarrierDeadlock { kernel: "k".into(), line: 7, barrier: 1, waiting: 64 });
    let error = error_of("mov.u32 %r2, 16; bar.sync %r2;", 32, 0);
    assert!(matches!(error, ExecError::OutOfRange { value: 16, limit: 16, .. }), "{error}");
}

#[test]
fn launches_are_checked() {
    let text = kernel("").replace("\n{", "\n.maxntid 64, 1, 1\n{");
    let module = Module::parse(&text).unwrap();
    let kernel = module.kernel("k").unwrap();
    assert_eq!(kernel.max_threads(), Some(64));
    let fault = |size: &Size, arguments: &[Argument]| match launch(kernel, size, arguments) {
        Err(ExecError::Launch { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let mut x = [0u32];
    let fits = [buffer(&mut x), u32(0)];
    assert_eq!(fault(&line(1, 65), &fits), LaunchFault::BlockSize { threads: 65, limit: 64 });
    assert_eq!(fault(&line(1, 0), &fits), LaunchFault::BlockSize { threads: 0, limit: 64 });
    assert_eq!(fault(&line(1, 1), &fits[..1]), LaunchFault::ParameterCount { expected: 2, given: 1 });
    let short = [u32(0), u32(0)];
    assert_eq!(fault(&line(1, 1), &short), LaunchFault::ParameterSize { index: 0, expected: 8, given: 4 });
    assert!(launch(kernel, &line(0, 1), &fits).is_ok(), "a grid without blocks has nothing to do");
}

#[test]
fn branch_tables_go_where_their_index_says() {
    let table = "{ .reg .b32 %i; and.b32 %i, %a, 3; T: .branchtargets A, B, C; brx.idx %i, T;
        A: mov.u32 %d, 10; bra E; B: mov.u32 %d, 20; bra E; C: mov.u32 %d, 30; E: }";
    let found = apply(table, &[[0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 0, 0]]);
    assert_eq!(found, [10, 20, 30, 20]);
}

#[test]
fn module_variables_hold_their_values_and_addresses() {
    let text = ".const .align 4 .b32 table[3] = {5, -6, 7};
        .global .align 8 .u64 pointer = table;
        .visible .entry k(.param .u64 x, .param .u32 n) {
            .reg .b32 %r<4>; .reg .b64 %rd<4>;
            ld.param.u64 %rd0, [x]; ld.global.u64 %rd1, [pointer]; ld.global.u32 %r0, [%rd1+4];
            ld.const.u32 %r1, [table+8]; add.u32 %r2, %r0, %r1; st.global.u32 [%rd0], %r2; ret; }";
    let module = Module::parse(text).unwrap();
    let mut x = vec![0u32; 1];
    launch(module.kernel("k").unwrap(), &line(1, 1), &[buffer(&mut x), u32(0)]).unwrap();
    assert_eq!(x, [1]);
}
