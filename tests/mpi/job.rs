//! Starts the binary by mpirun, and looks at its ranks.

use std::{
    fmt, fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, channel},
    },
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use oomph_test_support::{Missing, skip};
use serde_json::Value;

/// Names a job to its processes, so that they are found among all others.
const NAME: &str = "OOMPH_TEST_JOB";
/// A job that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(120);

/// Whether jobs can be started; says so where they cannot.
pub(crate) fn has_mpirun() -> bool {
    let has = Command::new("mpirun").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let has = has.is_ok_and(|status| status.success());
    if !has {
        skip(Missing::Mpirun);
    }
    has
}

/// A job that runs.
pub(crate) struct Job {
    child: Child,
    name: String,
    lines: Receiver<String>,
    /// Standard output as far as it was looked at.
    stdout: String,
    stderr: Option<JoinHandle<String>>,
}

/// What a job said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Job {
    /// Starts so many ranks of `oomph`, in the folder `at`.
    pub(crate) fn start(ranks: usize, at: &Path, arguments: &[&str]) -> Self {
        let binary = env!("CARGO_BIN_EXE_oomph");
        let ranks = ranks.to_string();
        Self::launch(at, &[&["-n", &ranks, binary], arguments].concat())
    }

    /// Starts what mpirun is told by `arguments`.
    pub(crate) fn launch(at: &Path, arguments: &[&str]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let mut command = Command::new("mpirun");
        command.args(arguments).current_dir(at).env(NAME, &name).env("XDG_CACHE_HOME", at.join("cache"));
        // These are Open MPI 4's and 5's ways to say: as root, and with more ranks than cores.
        command
            .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
            .envs([("OMPI_MCA_rmaps_base_oversubscribe", "1")])
            .envs([("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")]);
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "RUST_BACKTRACE"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("mpirun starts");
        let stdout = child.stdout.take().expect("piped");
        let (line, lines) = channel();
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|text| line.send(text))
        });
        let mut stderr = child.stderr.take().expect("piped");
        let stderr = thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).expect("a pipe");
            String::from_utf8_lossy(&text).into_owned()
        });
        Self { child, name, lines, stdout: String::new(), stderr: Some(stderr) }
    }

    /// Reads up to the next event of that name.
    pub(crate) fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let Ok(line) = self.lines.recv_timeout(LONGEST) else {
                panic!("no event `{event}`:\n{}", self.end());
            };
            self.stdout += &format!("{line}\n");
            let value: Value = serde_json::from_str(&line).expect(&line);
            if value["event"] == event {
                return value;
            }
        }
    }

    /// Sends a signal such as `-KILL` to a rank.
    pub(crate) fn signal_rank(&self, rank: usize, signal: &str) {
        let id = self.processes().into_iter().find(|(_, of)| *of == Some(rank)).expect("the rank runs").0;
        kill(signal, id);
    }

    /// The processes of the job with their ranks; mpirun has none.
    fn processes(&self) -> Vec<(u32, Option<usize>)> {
        let of_job = format!("{NAME}={}", self.name);
        let process = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.ok()?.path();
            let id = path.file_name()?.to_str()?.parse().ok()?;
            let environment = fs::read(path.join("environ")).ok()?;
            let variables: Vec<_> =
                environment.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            let of = |name: &str| variables.iter().find_map(|variable| variable.strip_prefix(name));
            let rank = of("OMPI_COMM_WORLD_RANK=").or_else(|| of("PMI_RANK=")).map(str::to_owned);
            variables.iter().any(|variable| **variable == *of_job).then_some(())?;
            Some((id, rank.and_then(|rank| rank.parse().ok())))
        };
        fs::read_dir("/proc").expect("Linux").filter_map(process).collect()
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> Answer {
        self.ends_within(LONGEST)
    }

    /// Waits for its end, that of all its processes too.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> Answer {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("a child of this process") {
                Some(status) if self.processes().is_empty() => break Some(status),
                _ if begin.elapsed() > limit => break None,
                _ => sleep(Duration::from_millis(20)),
            }
        };
        let left = self.processes();
        left.iter().for_each(|(id, _)| kill("-KILL", *id));
        let rest = self.lines.iter().map(|line| line + "\n");
        let stdout = std::mem::take(&mut self.stdout) + &rest.collect::<String>();
        let stderr = self.stderr.take().map(|thread| thread.join().expect("it reads")).unwrap_or_default();
        let answer = Answer { code: status.and_then(|status| status.code()), stdout, stderr };
        assert!(status.is_some(), "after {limit:?} there are still the processes {left:?}\n{answer}");
        answer
    }
}

fn kill(signal: &str, id: u32) {
    let sent = Command::new("kill").args([signal, &id.to_string()]).status().expect("`kill` starts");
    assert!(sent.success(), "no process {id}");
}

impl Drop for Job {
    fn drop(&mut self) {
        // Where a test fails the ranks shall not go on.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Runs so many ranks to their end.
pub(crate) fn run(ranks: usize, at: &Path, arguments: &[&str]) -> Answer {
    Job::start(ranks, at, arguments).end()
}

impl Answer {
    /// How often it says `text` on standard error.
    pub(crate) fn says(&self, text: &str) -> usize {
        self.stderr.matches(text).count()
    }

    /// Fails unless the exit code is 0.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self}");
        self
    }

    /// The events of that name.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        let events = self.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        events.filter(|event| event["event"] == name).collect()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit code {:?}", self.code)?;
        // Of a long training only what is about its end.
        let is_progress = |line: &str| {
            let events = ["step", "eval", "checkpoint"].map(|event| format!("{{\"event\":\"{event}\""));
            events
                .iter()
                .map(String::as_str)
                .chain(["step ", "epoch ", "saved "])
                .any(|head| line.starts_with(head))
        };
        let mut lines = self.stdout.lines().chain(self.stderr.lines()).filter(|line| !is_progress(line));
        lines.try_for_each(|line| writeln!(f, "{line}"))
    }
}
