//! Starting the program, and what it answered.

use std::{
    ffi::OsStr,
    io::{self, Read},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::{self, sleep},
    time::{Duration, Instant},
};

/// A command line of the program, with its answer.
#[derive(Debug)]
pub struct Program {
    command: Command,
    limit: Duration,
    asked_to_end_after: Option<Duration>,
}

/// What the program answered.
#[derive(Debug)]
pub struct Answer {
    /// How it ended; `None` if it was still running at the limit, and was killed.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// How long it ran.
    pub wall: Duration,
    /// The most memory that it held in RAM, in bytes; 0 if a tracer or `mpirun` waited for it.
    pub peak_rss: u64,
}

/// What reads the output of a child while it runs, since a full pipe would stop it.
#[derive(Debug)]
pub(crate) struct Streams {
    stdout: thread::JoinHandle<Vec<u8>>,
    stderr: thread::JoinHandle<Vec<u8>>,
}

/// The longest time that a command may take, unless told otherwise: a command that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(300);

impl Program {
    /// `program` in a folder, without the variables of this process that change its words, and with one thread.
    pub fn new(program: &Path, folder: &Path) -> Self {
        let mut command = Command::new(program);
        command.current_dir(folder).stdin(Stdio::null()).env("XDG_CACHE_HOME", folder.join("cache"));
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "RUST_BACKTRACE"] {
            command.env_remove(variable);
        }
        // Cases run side by side, one a core.
        command.env("RAYON_NUM_THREADS", "1");
        Self { command, limit: LIMIT, asked_to_end_after: None }
    }

    /// Adds arguments.
    pub fn arguments<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets how long it may run.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets when it gets SIGTERM: a long training ends well then, a hang does not.
    pub fn asked_to_end_after(mut self, time: Duration) -> Self {
        self.asked_to_end_after = Some(time);
        self
    }

    /// The command, for what is set rarely.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts it with its output piped.
    ///
    /// # Errors
    /// If the system does not start it.
    pub fn start(mut self) -> io::Result<Child> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }

    /// Runs it to its end, or to the limit.
    ///
    /// # Errors
    /// If the system does not start it.
    pub fn run(self) -> io::Result<Answer> {
        let (limit, asked) = (self.limit, self.asked_to_end_after);
        Answer::watched(self.start()?, limit, asked)
    }
}

impl Streams {
    /// Takes the streams of a child.
    pub(crate) fn of(child: &mut Child) -> Self {
        let reading = |stream: Option<Box<dyn Read + Send>>| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is kept; a child that was killed closes its streams.
                let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
                bytes
            })
        };
        let stdout = reading(child.stdout.take().map(|stream| Box::new(stream) as _));
        Self { stdout, stderr: reading(child.stderr.take().map(|stream| Box::new(stream) as _)) }
    }

    /// Standard output and standard error, when both have ended.
    pub(crate) fn read(self) -> (Vec<u8>, Vec<u8>) {
        let joined = |thread: thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
        (joined(self.stdout), joined(self.stderr))
    }
}

impl Answer {
    /// Reads what a child writes until it ends; kills it at the limit.
    ///
    /// # Errors
    /// If the system cannot wait for it.
    pub fn of(child: Child, limit: Duration) -> io::Result<Self> {
        Self::watched(child, limit, None)
    }

    fn watched(mut child: Child, limit: Duration, mut asked: Option<Duration>) -> io::Result<Self> {
        let start = Instant::now();
        let streams = Streams::of(&mut child);
        let (status, peak_rss) = loop {
            match ended(&child, libc::WNOHANG)? {
                Some((status, peak_rss)) => break (Some(status), peak_rss),
                None if start.elapsed() > limit => {
                    child.kill()?;
                    break (None, ended(&child, 0)?.map_or(0, |(_, peak_rss)| peak_rss));
                }
                None => {
                    if asked.take_if(|time| start.elapsed() > *time).is_some() {
                        signal(&child, libc::SIGTERM);
                    }
                    // Most commands take 20 to 300 ms.
                    sleep(Duration::from_millis(2));
                }
            }
        };
        let (stdout, stderr) = streams.read();
        Ok(Self { status, stdout, stderr, wall: start.elapsed(), peak_rss })
    }

    /// The exit code; `None` if a signal ended it, or the limit.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// Whether it ended with exit code 0.
    pub fn is_success(&self) -> bool {
        self.code() == Some(0)
    }

    /// Standard error as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// What no answer may be, whatever was asked: a hang, a panic, a death by a signal, an exit code without its meaning,
    /// an error without a word, or raw control characters.
    pub fn harm(&self) -> Option<String> {
        let Some(status) = self.status else {
            return Some(format!("hangs: no end within {} s", self.wall.as_secs()));
        };
        if let Some(signal) = status.signal() {
            return Some(format!("signal {signal} ended it: {}", self.last_words()));
        }
        let errors = self.errors();
        // Where memory is refused Rust says a word of its own first, with a note about backtraces.
        let is_refused = errors.contains("error: out of memory: the system refused an allocation of ");
        if errors.contains("panicked at")
            || errors.contains("this is a bug")
            || errors.contains("RUST_BACKTRACE") && !is_refused
        {
            return Some(format!("panics: {}", self.last_words()));
        }
        let code = status.code().unwrap_or(-1);
        if ![0, 1, 2, 75, 130, 143].contains(&code) {
            return Some(format!("exit code {code} has no meaning: {}", self.last_words()));
        }
        // Doctor and find-batch end with a report and without a word on standard error.
        if code == 1 && !errors.contains("error") && self.stdout.is_empty() {
            return Some("ends with 1 and says nothing".into());
        }
        let raw = [&self.stdout, &self.stderr].into_iter().find_map(|bytes| raw_control(bytes));
        raw.map(|at| format!("a raw control character reaches the terminal: {at}"))
    }

    /// The end of standard error, on one line.
    pub fn last_words(&self) -> String {
        const MOST: usize = 400;
        let errors = oomph_core::printable(self.errors().trim());
        let start = errors.char_indices().rev().nth(MOST).map_or(0, |(at, _)| at);
        errors[start..].to_owned()
    }
}

/// How a child ended and the most bytes that it held in RAM; `None` if it runs. The standard library has no such call.
fn ended(child: &Child, options: libc::c_int) -> io::Result<Option<(ExitStatus, u64)>> {
    let mut status = 0;
    // SAFETY: `rusage` is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the types that the call writes. The child was not waited for yet.
    let found = unsafe { libc::wait4(child.id().cast_signed(), &mut status, options, &mut usage) };
    match found {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        // Linux counts in KiB.
        _ => Ok(Some((ExitStatus::from_raw(status), usage.ru_maxrss.cast_unsigned() * 1024))),
    }
}

/// Sends a signal to a child that was not waited for.
fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: the call takes two numbers. The process is ours as long as nobody waited for it.
    unsafe { libc::kill(child.id().cast_signed(), signal) };
}

/// The surroundings of the first character that a terminal would obey.
fn raw_control(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let is_raw = |character: char| oomph_core::is_unprintable(character) && !matches!(character, '\n' | '\t');
    let at = text.find(is_raw)?;
    let (before, after) = text.split_at(at);
    let before: String = before.chars().rev().take(30).collect::<Vec<_>>().into_iter().rev().collect();
    Some(oomph_core::printable(before + &after.chars().take(30).collect::<String>()))
}
