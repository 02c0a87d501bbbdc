//! The filter by which the kernel stops a program at some system calls and at no others.

use std::io;

use libc::{sock_filter, sock_fprog};

/// The filter's program: instructions of the kernel's packet filter.
#[derive(Clone, Debug)]
pub(super) struct Filter(Vec<sock_filter>);

/// `AUDIT_ARCH_X86_64`.
const X86_64: u32 = 0xC000_003E;
/// Where `struct seccomp_data` holds the number of the call, and the architecture.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

impl Filter {
    /// Stops at the calls of these numbers.
    pub(super) fn new(numbers: &[u32]) -> Self {
        let mut program = vec![
            instruction(LOAD, ARCHITECTURE, 0, 0),
            instruction(IF_EQUAL, X86_64, 1, 0),
            instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
            instruction(LOAD, NUMBER, 0, 0),
        ];
        for number in numbers {
            program.push(instruction(IF_EQUAL, *number, 0, 1));
            program.push(instruction(RETURN, libc::SECCOMP_RET_TRACE, 0, 0));
        }
        program.push(instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
        Self(program)
    }

    /// Sets this process under the filter, and under the parent as its tracer. Nothing is allocated, so that it may run
    /// between fork and exec.
    pub(super) fn install(&self) -> io::Result<()> {
        let program = sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        let check = |result| if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) };
        // SAFETY: the calls take numbers, and a pointer to a program that lives until they return; the kernel copies it.
        unsafe {
            check(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))?;
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
            check(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program).into())
        }
    }
}
