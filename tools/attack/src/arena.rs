//! Where cases run: the program, its folders, the random numbers of each case, and the threads.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use oomph_core::{Generator, Key};

use crate::{Error, answer::Program};

/// What an attack runs in.
#[derive(Debug)]
pub struct Arena {
    /// The `oomph` program.
    pub oomph: PathBuf,
    /// Beside it are other programs that attacks start.
    pub programs: PathBuf,
    /// How many cases to try.
    pub cases: usize,
    /// The only case to try, of an attack whose cases do not depend on each other.
    pub case: Option<usize>,
    /// Determines the cases.
    pub seed: u64,
    /// Only cases whose name contains it; all if it is empty.
    pub only: String,
}

/// A case: its number, and random numbers that depend on seed, attack and number alone.
#[derive(Debug)]
pub struct Case {
    /// From 0.
    pub number: usize,
    /// Its random numbers.
    pub random: Generator,
}

/// A temporary folder, removed with everything in it.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path within it.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file, and the folders that it lies in.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
        let path = self.at(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, content)
    }
}

/// The time after which a line tells how far an attack is.
const PROGRESS: Duration = Duration::from_secs(60);

impl Arena {
    /// A new folder: in memory where the machine has such a place, since many cases write much.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn folder(&self) -> io::Result<Folder> {
        let memory = Path::new("/dev/shm");
        let mut builder = tempfile::Builder::new();
        builder.prefix("oomph-attack-");
        let folder = if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
        folder.map(Folder)
    }

    /// The `oomph` program in a folder.
    pub fn oomph(&self, folder: &Path) -> Program {
        Program::new(&self.oomph, folder)
    }

    /// The case of a number, of the attack with this name.
    pub fn case(&self, attack: &str, number: usize) -> Case {
        Case { number, random: Generator::at(Key::new(self.seed).with_name(attack).with(number as u64)) }
    }

    /// Runs `count` cases on all cores, and gives their results in order. The first error of the machine ends it.
    ///
    /// # Errors
    /// The first that a case gives.
    pub fn each<T: Send>(
        &self,
        attack: &str,
        count: usize,
        run: impl Fn(Case) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let (first, end) = self.case.map_or((0, count), |case| (case, case + 1));
        let next = AtomicUsize::new(first);
        let results = Mutex::new((Vec::with_capacity(count), Instant::now()));
        let work = || -> Result<(), Error> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok(());
                }
                let result =
                    run(self.case(attack, number)).inspect_err(|_| next.store(end, Ordering::Relaxed))?;
                let mut held = results.lock().unwrap_or_else(PoisonError::into_inner);
                held.0.push((number, result));
                if held.1.elapsed() > PROGRESS {
                    held.1 = Instant::now();
                    eprintln!("{attack}: {} of {count}", held.0.len());
                }
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_| Err("a thread of the attack panicked".into()))
            })
        })?;
        let (mut results, _) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(number, _)| *number);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }
}
