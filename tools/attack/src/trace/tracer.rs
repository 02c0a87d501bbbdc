//! The tracer: waits for the threads of a program, and answers each that stops.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Child, ExitStatus},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use libc::{c_int, pid_t, user_regs_struct};

use super::{
    Action, Call, Moment, Options, Traced,
    calls::{self, Kind},
    filter::Filter,
    memory,
};
use crate::{Answer, Error, Program, answer::Streams};

/// What stops, and that no tracee survives the tracer.
const TRACED: c_int = libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_EXITKILL;
/// With `PTRACE_O_TRACESYSGOOD`, the signal of a call's end.
const END_OF_CALL: c_int = libc::SIGTRAP | 0x80;

/// A program under trace.
struct Tracer<'a> {
    records_data: bool,
    on_call: &'a mut dyn FnMut(Moment, &Call) -> Action,
    /// The process that was started.
    leader: pid_t,
    /// All threads of all its processes.
    threads: BTreeSet<pid_t>,
    /// Those that have stopped at least once: the first stop of a new thread is no signal of its own.
    stopped: BTreeSet<pid_t>,
    /// Calls whose end is awaited, with the registers as they were before.
    awaited: BTreeMap<pid_t, (Call, user_regs_struct)>,
    is_killed: bool,
}

/// See [`super::run`].
pub(super) fn run(
    mut program: Program,
    options: Options<'_>,
    on_call: &mut dyn FnMut(Moment, &Call) -> Action,
) -> Result<Traced, Error> {
    let number = |name: &&str| {
        calls::named(name).map(|kind| kind.number).ok_or_else(|| format!("the tracer knows no call `{name}`"))
    };
    let numbers = options.calls.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    let filter = Filter::new(&numbers);
    // SAFETY: between fork and exec the closure makes three system calls and allocates nothing.
    unsafe { program.command().pre_exec(move || filter.install()) };
    let begin = Instant::now();
    let mut child = program.start()?;
    let streams = Streams::of(&mut child);
    let leader = child.id() as pid_t;
    let (stop, watchdog) = watchdog(&child, options.limit)?;
    let mut tracer = Tracer {
        records_data: options.records_data,
        on_call,
        leader,
        threads: BTreeSet::from([leader]),
        stopped: BTreeSet::new(),
        awaited: BTreeMap::new(),
        is_killed: false,
    };
    let status = tracer.trace();
    if status.is_err() {
        tracer.kill();
    }
    drop(stop);
    let is_late = watchdog.join().unwrap_or(false);
    let (stdout, stderr) = streams.read();
    let status = status?;
    let answer =
        Answer { status: (!is_late).then_some(status), stdout, stderr, wall: begin.elapsed(), peak_rss: 0 };
    Ok(Traced { answer, is_killed: tracer.is_killed })
}

/// Kills a process at the limit, unless the sender is dropped before; the thread tells whether it did.
fn watchdog(child: &Child, limit: Duration) -> io::Result<(mpsc::Sender<()>, thread::JoinHandle<bool>)> {
    // SAFETY: the call takes numbers. The process is not waited for yet, so its number is its own.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    if descriptor == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else owns it.
    let process = unsafe { OwnedFd::from_raw_fd(descriptor as c_int) };
    let (stop, stopped) = mpsc::channel();
    let watch = move || {
        let is_late = stopped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if is_late {
            let none = std::ptr::null::<libc::siginfo_t>();
            // SAFETY: the descriptor is open, and the call allows no information about the signal.
            unsafe {
                libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGKILL, none, 0)
            };
        }
        is_late
    };
    Ok((stop, thread::spawn(watch)))
}

impl Tracer<'_> {
    /// Follows the program to its end.
    fn trace(&mut self) -> Result<ExitStatus, Error> {
        let mut end = None;
        while !self.threads.is_empty() {
            let mut status = 0;
            // SAFETY: `status` is writable. `__WNOTHREAD` leaves out children of other threads, which trace others.
            let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            if thread == -1 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(format!("waiting for the traced program: {error}").into());
            }
            if libc::WIFSTOPPED(status) {
                self.threads.insert(thread);
                self.answer(thread, status)?;
                continue;
            }
            self.threads.remove(&thread);
            self.stopped.remove(&thread);
            self.awaited.remove(&thread);
            if thread == self.leader {
                end = Some(ExitStatus::from_raw(status));
            }
        }
        end.ok_or_else(|| "the traced program ended without a status".into())
    }

    /// Lets a stopped thread go on.
    fn answer(&mut self, thread: pid_t, status: c_int) -> Result<(), Error> {
        let is_first = self.stopped.insert(thread);
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        match event {
            libc::PTRACE_EVENT_SECCOMP => return self.enter(thread),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                // It belongs to the program from now on, so that a kill reaches it before its first stop.
                self.threads.extend(new_thread(thread));
            }
            0 if is_first && thread == self.leader => options_set(thread)?,
            0 if is_first && signal == libc::SIGSTOP => {}
            0 if signal == END_OF_CALL => return self.leave(thread),
            0 => return go_on(libc::PTRACE_CONT, thread, signal),
            _ => {}
        }
        go_on(libc::PTRACE_CONT, thread, 0)
    }

    /// Shows a call that is about to execute.
    fn enter(&mut self, thread: pid_t) -> Result<(), Error> {
        let Some(mut registers) = registers(thread)? else { return Ok(()) };
        let Some(kind) = calls::numbered(registers.orig_rax) else {
            return go_on(libc::PTRACE_CONT, thread, 0);
        };
        let call = self.call(thread, kind, &registers);
        let action = (self.on_call)(Moment::Before, &call);
        let before = registers;
        match action {
            Action::Continue => return go_on(libc::PTRACE_CONT, thread, 0),
            Action::Kill => {
                self.kill();
                return Ok(());
            }
            Action::Fail(error) => {
                // The kernel skips a call without a number, and returns what the register holds.
                registers.orig_rax = u64::MAX;
                registers.rax = i64::from(-error) as u64;
                set_registers(thread, &registers)?;
                return go_on(libc::PTRACE_CONT, thread, 0);
            }
            Action::Short(most) => {
                let length = kind.length.ok_or_else(|| format!("`{}` has no length", kind.name))?;
                let register = argument(&mut registers, length);
                *register = (*register).min(most as u64);
                set_registers(thread, &registers)?;
            }
            Action::Watch => {}
        }
        self.awaited.insert(thread, (call, before));
        go_on(libc::PTRACE_SYSCALL, thread, 0)
    }

    /// Shows a call that has executed.
    fn leave(&mut self, thread: pid_t) -> Result<(), Error> {
        let (Some((call, before)), Some(after)) = (self.awaited.remove(&thread), registers(thread)?) else {
            return go_on(libc::PTRACE_CONT, thread, 0);
        };
        // A program may rely on it that a call changes no argument.
        let restored =
            user_regs_struct { rdi: before.rdi, rsi: before.rsi, rdx: before.rdx, r10: before.r10, ..after };
        set_registers(thread, &user_regs_struct { r8: before.r8, r9: before.r9, ..restored })?;
        if (self.on_call)(Moment::After(after.rax as i64), &call) == Action::Kill {
            self.kill();
            return Ok(());
        }
        go_on(libc::PTRACE_CONT, thread, 0)
    }

    fn call(&self, thread: pid_t, kind: &Kind, registers: &user_regs_struct) -> Call {
        let mut registers = *registers;
        let arguments = std::array::from_fn(|index| *argument(&mut registers, index));
        let data = || match kind.name {
            "write" | "pwrite64" => Some(memory::bytes(thread, arguments[1], arguments[2] as usize)),
            "writev" => Some(memory::vectors(thread, arguments[1], arguments[2])),
            _ => None,
        };
        Call {
            name: kind.name,
            arguments,
            path: memory::path(thread, kind.first, &arguments),
            second_path: memory::path(thread, kind.second, &arguments),
            data: if self.records_data { data() } else { None },
            is_of_child: !Path::new(&format!("/proc/{}/task/{thread}", self.leader)).exists(),
        }
    }

    /// Kills all processes.
    fn kill(&mut self) {
        self.is_killed = true;
        for thread in &self.threads {
            // SAFETY: the call takes numbers. A thread in the set has not been waited for, so its number is its own.
            unsafe { libc::kill(*thread, libc::SIGKILL) };
        }
    }
}

/// The register of an argument.
fn argument(registers: &mut user_regs_struct, index: usize) -> &mut u64 {
    match index {
        0 => &mut registers.rdi,
        1 => &mut registers.rsi,
        2 => &mut registers.rdx,
        3 => &mut registers.r10,
        4 => &mut registers.r8,
        _ => &mut registers.r9,
    }
}

/// Whether a request reached its thread: not if the thread was killed meanwhile.
fn reached(result: libc::c_long) -> Result<bool, Error> {
    if result != -1 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) { Ok(false) } else { Err(format!("ptrace: {error}").into()) }
}

fn go_on(request: libc::c_uint, thread: pid_t, signal: c_int) -> Result<(), Error> {
    // SAFETY: the request takes numbers.
    reached(unsafe { libc::ptrace(request, thread, 0, signal) }).map(|_| ())
}

fn options_set(thread: pid_t) -> Result<(), Error> {
    // SAFETY: the request takes numbers.
    reached(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, thread, 0, TRACED) }).map(|_| ())
}

fn registers(thread: pid_t) -> Result<Option<user_regs_struct>, Error> {
    let mut registers = MaybeUninit::uninit();
    // SAFETY: the request writes a `user_regs_struct`, for which there is room.
    let is_reached =
        reached(unsafe { libc::ptrace(libc::PTRACE_GETREGS, thread, 0, registers.as_mut_ptr()) })?;
    // SAFETY: the request wrote it.
    Ok(is_reached.then(|| unsafe { registers.assume_init() }))
}

fn set_registers(thread: pid_t, registers: &user_regs_struct) -> Result<(), Error> {
    // SAFETY: the request reads a `user_regs_struct`.
    reached(unsafe { libc::ptrace(libc::PTRACE_SETREGS, thread, 0, std::ptr::from_ref(registers)) })
        .map(|_| ())
}

/// The thread or process that a thread has just started.
fn new_thread(thread: pid_t) -> Option<pid_t> {
    let mut new: libc::c_ulong = 0;
    // SAFETY: the request writes one number.
    let is_reached =
        reached(unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, thread, 0, &raw mut new) }).ok()?;
    is_reached.then_some(new as pid_t)
}
