//! A job of several ranks that mpirun started.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Trouble, system::send};
use crate::Answer;

/// Names a job to its processes, so that they are found among all others.
const NAME: &str = "OOMPH_ATTACK_JOB";
/// The longest silence of a job that is undisturbed.
pub(super) const LONGEST: Duration = Duration::from_secs(120);

/// A job that runs. Dropping it kills what is left of it.
#[derive(Debug)]
pub(super) struct Job {
    child: Child,
    name: String,
    start: Instant,
    lines: Receiver<String>,
    /// Standard output as far as it was looked at.
    stdout: String,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Job {
    /// Starts what mpirun is told by `arguments`, in a folder that also has the files of the MPI library.
    pub(super) fn launch<A: AsRef<OsStr>>(
        folder: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self, Trouble> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new("mpirun");
        command.args(["--bind-to", "none"]).args(arguments).current_dir(folder);
        // What a killed job leaves behind is removed with the folder. The variables are those of Open MPI 4 and 5.
        command
            .env(NAME, &name)
            .env("TMPDIR", folder)
            .env("OMPI_MCA_btl_vader_backing_directory", folder)
            .env("OMPI_MCA_btl_sm_backing_directory", folder)
            .env("XDG_CACHE_HOME", folder.join("cache"));
        // As root, and with more ranks than cores.
        command
            .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
            .envs([("OMPI_MCA_rmaps_base_oversubscribe", "1")])
            .envs([("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")])
            .env("RAYON_NUM_THREADS", "1");
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "RUST_BACKTRACE"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (line, lines) = channel();
        let stdout = child.stdout.take();
        thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
            // It ends with the job, or when the job is dropped.
            let _ = lines.map_while(Result::ok).try_for_each(|text| line.send(text));
        });
        let stderr = child.stderr.take();
        let stderr = thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error is kept.
            let _ = stderr.map(|mut stderr| stderr.read_to_end(&mut bytes));
            bytes
        });
        let start = Instant::now();
        Ok(Self { child, name, start, lines, stdout: String::new(), stderr: Some(stderr) })
    }

    /// Reads up to the first event that is looked for. `None` if the job ends before.
    pub(super) fn wait_for(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<Option<Value>, Trouble> {
        loop {
            let line = match self.lines.recv_timeout(LONGEST) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Trouble::Harm(format!("says nothing for {LONGEST:?}: {}", self.left())));
                }
            };
            self.stdout += &line;
            self.stdout.push('\n');
            // Open MPI writes its notes to standard error, so each line is an event; others are ignored.
            match serde_json::from_str::<Value>(&line) {
                Ok(event) if is_it(&event) => return Ok(Some(event)),
                _ => {}
            }
        }
    }

    /// Waits until a step is done. `false` if the job ends before.
    pub(super) fn wait_for_step(&mut self, step: usize) -> Result<bool, Trouble> {
        let is_it = |event: &Value| {
            event["event"] == "step" && event["step"].as_u64().is_some_and(|at| at >= step as u64)
        };
        self.wait_for(is_it).map(|event| event.is_some())
    }

    /// Sends a signal to a rank. `false` if it does not run, or not any more.
    pub(super) fn signal(&self, rank: usize, signal: i32) -> bool {
        self.process(rank).is_some_and(|process| send(process, signal))
    }

    /// Sends a signal to mpirun.
    pub(super) fn signal_launcher(&self, signal: i32) -> bool {
        send(self.child.id(), signal)
    }

    /// The process of a rank.
    pub(super) fn process(&self, rank: usize) -> Option<u32> {
        self.processes().into_iter().find_map(|(process, of)| (of == Some(rank)).then_some(process))
    }

    /// Whether mpirun still runs.
    pub(super) fn is_running(&mut self) -> Result<bool, Trouble> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// The processes of the job with their ranks; mpirun has none. A process that has ended has no environment.
    fn processes(&self) -> Vec<(u32, Option<usize>)> {
        let of_job = format!("{NAME}={}", self.name);
        let process = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.ok()?.path();
            let id = path.file_name()?.to_str()?.parse().ok()?;
            let environment = fs::read(path.join("environ")).ok()?;
            let variables: Vec<_> =
                environment.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            variables.iter().any(|variable| **variable == *of_job).then_some(())?;
            let of = |name: &str| variables.iter().find_map(|variable| variable.strip_prefix(name));
            let rank = of("OMPI_COMM_WORLD_RANK=").or_else(|| of("PMI_RANK="));
            Some((id, rank.and_then(|rank| rank.parse().ok())))
        };
        fs::read_dir("/proc").into_iter().flatten().filter_map(process).collect()
    }

    /// Waits for its end, that of all its processes too. An answer without a status is that of a job whose ranks have
    /// ended, and whose mpirun hangs: Open MPI 4.1 may, if a rank dies while it connects.
    pub(super) fn ends_within(mut self, limit: Duration) -> Result<Answer, Trouble> {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait()? {
                Some(status) if self.processes().is_empty() => break status,
                _ if begin.elapsed() > limit => {
                    let left = self.left();
                    let has_ranks = self.processes().iter().any(|(_, rank)| rank.is_some());
                    self.kill_all();
                    if !has_ranks {
                        return Ok(self.answer(None));
                    }
                    let words = self.answer(None).last_words();
                    return Err(Trouble::Harm(format!("no end within {limit:?}: {left}; it said: {words}")));
                }
                _ => sleep(Duration::from_millis(10)),
            }
        };
        Ok(self.answer(Some(status)))
    }

    fn answer(&mut self, status: Option<std::process::ExitStatus>) -> Answer {
        let rest: String = self.lines.iter().map(|line| line + "\n").collect();
        let stdout = (std::mem::take(&mut self.stdout) + &rest).into_bytes();
        let stderr = self.stderr.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        Answer { status, stdout, stderr, wall: self.start.elapsed(), peak_rss: 0 }
    }

    /// The processes that are left, with their states.
    fn left(&self) -> String {
        let tell = |(process, rank): (u32, Option<usize>)| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("").trim();
            let rank = rank.map_or("mpirun".to_owned(), |rank| format!("rank {rank}"));
            format!("{rank} is left, {state}")
        };
        self.processes().into_iter().map(tell).collect::<Vec<_>>().join(", ")
    }

    fn kill_all(&mut self) {
        for (process, _) in self.processes() {
            send(process, libc::SIGKILL);
        }
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.kill_all();
    }
}
