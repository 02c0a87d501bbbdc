//! A round: a trainer that is stopped and killed, and readers beside it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    process::{Child, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, sleep},
    time::{Duration, Instant},
};

use oomph_core::Generator;

use super::{
    commands::{self, Seen},
    direct::{self, Direct},
    tally::{Reading, Tally},
};
use crate::{Answer, Arena, Case, Error, Folder};

/// A small language model, which predicts from words.
const CONFIG: &str = "model = { name = 'lstm-lm', hidden = 16 }
data = { source = 'text', path = 'text.txt', steps = 16, workers = 0 }
train = { batch = 8, steps = 1000000, eval_every = '3 steps' }
run = { directory = 'run', save_every = '1 steps', keep_last = 1, log_every = 5 }
";

/// Threads that run commands; one more reads files.
const COMMANDS: usize = 2;

/// A round in a folder of its own.
pub(super) struct Round<'a> {
    arena: &'a Arena,
    case: Case,
    folder: Folder,
    /// For copies.
    aside: Folder,
    found: Mutex<(Tally, Vec<Seen>)>,
    is_over: AtomicBool,
}

impl<'a> Round<'a> {
    pub(super) fn new(arena: &'a Arena, case: Case) -> Result<Self, Error> {
        let folder = arena.folder()?;
        folder.write("net.toml", CONFIG)?;
        let text = (0..200).map(|line| format!("line {line} says that {} is a square\n", line * line));
        folder.write("text.txt", text.collect::<String>())?;
        let aside = arena.folder()?;
        Ok(Self { arena, case, folder, aside, found: Mutex::default(), is_over: AtomicBool::new(false) })
    }

    /// Trains and reads for a time.
    pub(super) fn run(&mut self, time: Duration) -> Result<Tally, Error> {
        let mut randoms: Vec<_> = (0..=COMMANDS).map(|_| self.fork()).collect();
        let mut train = self.fork();
        let this = &*self;
        thread::scope(|scope| -> Result<(), Error> {
            let readers: Vec<_> = randoms
                .iter_mut()
                .enumerate()
                .map(|(thread, random)| scope.spawn(move || this.read(thread, random)))
                .collect();
            // The readers begin before there is anything.
            sleep(Duration::from_millis(150));
            let trained = this.train(&mut train, time);
            this.is_over.store(true, Ordering::Relaxed);
            let read = readers.into_iter().map(|reader| {
                reader.join().unwrap_or_else(|_| Err("a reader of the attack panicked".into()))
            });
            // All are joined before the first error is given.
            let read: Vec<Result<(), Error>> = read.collect();
            trained?;
            read.into_iter().collect()
        })?;
        self.check_steps();
        Ok(std::mem::take(&mut self.found.get_mut().unwrap_or_else(PoisonError::into_inner).0))
    }

    /// Random numbers for a thread.
    fn fork(&mut self) -> Generator {
        Generator::at(oomph_core::Key::new(self.case.random.bits()))
    }

    fn count(&self, reader: &'static str, reading: Reading, seen: Option<Seen>) {
        let place = format!("round {} of seed {}", self.case.number, self.arena.seed);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.0.count(reader, reading, &place);
        found.1.extend(seen);
    }

    /// Reads until the round is over: one thread files, the others by commands.
    fn read(&self, thread: usize, random: &mut Generator) -> Result<(), Error> {
        let run = self.folder.at("run");
        let mut direct = Direct::new(self.aside.at("copy"));
        while !self.is_over.load(Ordering::Relaxed) {
            if thread == 0 {
                let (reader, reading) = direct.read(&run, random);
                self.count(reader, reading, None);
                // The trainer needs a core too.
                sleep(Duration::from_micros(500));
            } else {
                let (reader, reading, seen) = commands::read(self.arena, self.folder.path(), thread, random)?;
                self.count(reader, reading, seen);
            }
        }
        Ok(())
    }

    /// Trains; every few moments the trainer is stopped or killed, and resumed.
    fn train(&self, random: &mut Generator, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let trainer = self.start()?;
            let stops = Instant::now() + Duration::from_millis(300 + random.below(2500) as u64);
            while Instant::now() < stops.min(end) {
                sleep(Duration::from_millis(100 + random.below(300) as u64));
                if random.chance(0.2) {
                    self.second(&trainer, random)?;
                }
            }
            self.end(trainer, random)?;
        }
        Ok(())
    }

    fn start(&self) -> io::Result<Child> {
        let mut program = self
            .arena
            .oomph(self.folder.path())
            .arguments(["train", "--config", "net.toml", "--resume", "--quiet"]);
        program.command().stdout(Stdio::null());
        program.start()
    }

    /// Kills the trainer, or stops it; it must have been training.
    fn end(&self, mut trainer: Child, random: &mut Generator) -> Result<(), Error> {
        let is_training = trainer.try_wait()?.is_none();
        let is_killed = random.chance(0.6);
        // SAFETY: the process is a child that was not waited for, so its number is still its own.
        unsafe { libc::kill(trainer.id() as i32, if is_killed { libc::SIGKILL } else { libc::SIGTERM }) };
        let answer = Answer::of(trainer, Duration::from_secs(60))?;
        let reading = match (is_training, is_killed) {
            (false, _) => Reading::Harm(format!("ends by itself: {}", answer.last_words())),
            (true, true) => Reading::Right,
            (true, false) => match (answer.harm(), answer.code()) {
                (None, Some(143)) => Reading::Right,
                (harm, code) => Reading::Harm(format!("{harm:?}, code {code:?}: {}", answer.last_words())),
            },
        };
        self.count("the trainer itself", reading, None);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.0.kills += usize::from(is_killed);
        Ok(())
    }

    /// A second trainer, which must be refused while the first one trains.
    fn second(&self, first: &Child, random: &mut Generator) -> Result<(), Error> {
        // The first one has the directory once its number is in the lock file.
        let owner = fs::read_to_string(self.folder.at("run/lock")).unwrap_or_default();
        if owner.trim() != first.id().to_string() {
            return Ok(());
        }
        let words: &[&str] = if random.chance(0.5) {
            &["train", "--config", "net.toml", "--resume"]
        } else {
            &["train", "--resume", "run", "--set", "train.seed=7"]
        };
        let answer =
            self.arena.oomph(self.folder.path()).arguments(words).within(Duration::from_secs(20)).run()?;
        let reading = match answer.harm() {
            None if answer.code() == Some(1) && answer.errors().contains("in use by process") => {
                Reading::Right
            }
            harm => Reading::Harm(format!("{harm:?}, code {:?}: {}", answer.code(), answer.last_words())),
        };
        self.count("a second trainer", reading, None);
        Ok(())
    }

    /// Every step that a command read was saved, and its loss is the one that the trainer measured.
    fn check_steps(&mut self) {
        let place = format!("round {} of seed {}", self.case.number, self.arena.seed);
        let run = self.folder.at("run");
        let (tally, seen) = self.found.get_mut().unwrap_or_else(PoisonError::into_inner);
        let lines = match direct::lines(&run) {
            Ok(lines) => lines.unwrap_or_default(),
            Err(harm) => return tally.count("metrics.jsonl", Reading::Harm(harm), &place),
        };
        let mut saved = BTreeSet::new();
        let mut losses = BTreeMap::new();
        for event in &lines {
            let step = event["step"].as_u64();
            match event["event"].as_str() {
                Some("checkpoint") => saved.extend(step),
                // A process that was killed after a save may not have told of it; the next one starts there.
                Some("started") => saved.extend(event["first_step"].as_u64()),
                Some("eval") => losses.extend(step.zip(event["eval_loss"].as_f64())),
                _ => {}
            }
        }
        tally.saves += saved.len();
        for Seen { step, loss } in seen.iter() {
            // The last process may have been killed after a save, too.
            let is_saved = saved.contains(step) || saved.last().is_some_and(|last| *step == last + 1);
            let measured = losses.get(step).copied();
            let is_same = |loss: f64, measured: f64| (loss - measured).abs() <= 1e-6 * measured.abs();
            let is_right = loss.zip(measured).is_none_or(|(loss, measured)| is_same(loss, measured));
            if !is_saved || !is_right {
                let harm =
                    format!("step {step}, saved: {is_saved}; a loss of {loss:?}, the trainer's {measured:?}");
                tally.count("values of commands", Reading::Harm(harm), &place);
            } else if measured.is_some() && loss.is_some() {
                tally.count("values of commands", Reading::Right, &place);
            }
        }
    }
}
