use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

/// Signals that Windows does not have; the numbers are those of Unix.
pub const SIGHUP: i32 = 1;
pub(super) const SIGUSR2: i32 = 12;

/// How long a signal waits at most: too short to be noticed, too long to cost time.
const PAUSE: Duration = Duration::from_millis(50);

/// Nothing: Windows has no limit of file sizes.
pub fn survive_file_limit() {}

/// The signals that a training handles: Ctrl-C, and the request of another program to end.
pub(super) fn of_training() -> Vec<i32> {
    vec![SIGINT, SIGTERM]
}

/// Windows runs a handler in a thread of its own, and forgets it afterwards. signal-hook registers it again, and the handler
/// sets a flag that the listening thread looks at.
pub(super) fn handle(signals: &[i32], mut handle: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut flags = Vec::new();
    for signal in signals.iter().filter(|signal| [SIGINT, SIGTERM].contains(signal)) {
        let flag = Arc::new(AtomicBool::new(false));
        flag::register(*signal, flag.clone())?;
        flags.push((*signal, flag));
    }
    let listen = move || {
        loop {
            thread::sleep(PAUSE);
            for (signal, flag) in &flags {
                if flag.swap(false, Ordering::SeqCst) {
                    handle(*signal);
                }
            }
        }
    };
    thread::Builder::new().name("oomph-signals".into()).spawn(listen).map(drop)
}
