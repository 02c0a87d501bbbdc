//! Records the file operations of a program.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use super::disk::{Change, Choice, Disk, Inode, Kind, Node, Operation, ROOT, Tree};
use crate::{
    Error, Program,
    trace::{self, Action, Call, Moment, Options},
};

/// What a program did to the files below a folder.
#[derive(Debug)]
pub(super) struct Recording {
    /// The disk as the program found it, all of it flushed.
    pub(super) before: Disk,
    /// The newest save that it found.
    pub(super) reported_before: u64,
    /// In order.
    pub(super) operations: Vec<Operation>,
    /// The files as the program left them.
    pub(super) after: Tree,
}

const CALLS: [&str; 25] = [
    "open",
    "openat",
    "creat",
    "write",
    "pwrite64",
    "writev",
    "fsync",
    "fdatasync",
    "truncate",
    "ftruncate",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "rmdir",
    "unlink",
    "unlinkat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "fallocate",
    "copy_file_range",
    "sendfile",
];

/// Follows a program.
struct Recorder {
    root: PathBuf,
    disk: Disk,
    operations: Vec<Operation>,
    /// Of each open file, where the next write goes; `None` if it appends.
    places: BTreeMap<i64, Option<usize>>,
}

/// Runs a program, and records what it does below `root`.
pub(super) fn record(program: Program, root: &Path, reported_before: u64) -> Result<Recording, Error> {
    let root = root.canonicalize()?;
    let mut before = Disk::new();
    read_folder(&root, &mut before, ROOT)?;
    let disk = before.clone();
    let mut recorder = Recorder { root: root.clone(), disk, operations: Vec::new(), places: BTreeMap::new() };
    let mut problem = None;
    let options = Options { calls: &CALLS, records_data: true, limit: Duration::from_secs(300) };
    let traced = trace::run(program, options, &mut |moment, call| {
        match moment {
            Moment::Before if recorder.is_within(call) => return Action::Watch,
            Moment::After(result) if result >= 0 && problem.is_none() => {
                problem = recorder.add(call, result).err();
            }
            _ => {}
        }
        Action::Continue
    })?;
    if let Some(problem) = problem {
        return Err(problem);
    }
    if !traced.answer.is_success() {
        return Err(format!("the recorded program failed: {}", traced.answer.last_words()).into());
    }
    // The states are made from the disk before; it knows what kinds of things come.
    before.kinds.clone_from(&recorder.disk.kinds);
    let after = everything(&recorder.disk);
    let mut there = Disk::new();
    read_folder(&root, &mut there, ROOT)?;
    let there = everything(&there);
    // A call that the recorder does not understand shows here.
    if let Some(path) = there.keys().chain(after.keys()).find(|path| there.get(*path) != after.get(*path)) {
        return Err(
            format!("the recording does not lead to what is on the disk: `{}`", path.display()).into()
        );
    }
    Ok(Recording { before, reported_before, operations: recorder.operations, after })
}

impl Recording {
    /// The files as the program found them.
    pub(super) fn tree_before(&self) -> Tree {
        everything(&self.before)
    }
}

/// What a program that runs sees.
fn everything(disk: &Disk) -> Tree {
    let data = disk.pending().map(|(inode, _)| (inode, super::survival::Survival::Everything)).collect();
    disk.after(&Choice { is_kept: vec![true; disk.changes().len()], data })
}

/// Puts the things of a folder onto a disk.
fn read_folder(folder: &Path, disk: &mut Disk, directory: Inode) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name().to_string_lossy().into_owned(), entry.file_type()?);
        if kind.is_symlink() {
            disk.put(directory, name, Kind::Link(fs::read_link(entry.path())?), Vec::new());
        } else if kind.is_dir() {
            let below = disk.put(directory, name, Kind::Directory, Vec::new());
            read_folder(&entry.path(), disk, below)?;
        } else {
            disk.put(directory, name, Kind::File, fs::read(entry.path())?);
        }
    }
    Ok(())
}

impl Recorder {
    fn is_within(&self, call: &Call) -> bool {
        [&call.path, &call.second_path].into_iter().flatten().any(|path| path.starts_with(&self.root))
    }

    fn push(&mut self, operation: Operation) {
        self.disk.carry_out(&operation);
        self.operations.push(operation);
    }

    /// What is at a path, links unresolved; `None` if nothing is there.
    fn at(&self, path: &Path) -> Option<Inode> {
        let below = path.strip_prefix(&self.root).ok()?;
        let live = self.disk.live();
        let mut inode = ROOT;
        for part in below.components() {
            let Component::Normal(name) = part else { continue };
            inode = *live.get(&inode)?.get(&*name.to_string_lossy())?;
        }
        Some(inode)
    }

    /// The directory that a path lies in, and the name there.
    fn place(&self, path: Option<&Path>) -> Result<(Inode, String), Error> {
        let path = path.ok_or("a call without a path")?;
        let inside = path.parent().and_then(|parent| self.at(parent));
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        inside.zip(name).ok_or_else(|| format!("`{}` lies in no known folder", path.display()).into())
    }

    fn change(&mut self, path: Option<&Path>, inode: Option<Inode>) -> Result<(), Error> {
        let (directory, name) = self.place(path)?;
        self.push(Operation::Change(Change { directory, names: vec![(name, inode)] }));
        Ok(())
    }

    /// Adds a call that succeeded.
    fn add(&mut self, call: &Call, result: i64) -> Result<(), Error> {
        let path = call.path.as_deref();
        let inode = path.and_then(|path| self.at(path));
        match (call.name, inode) {
            ("open" | "openat" | "creat", _) => self.open(call, inode, result)?,
            ("write" | "pwrite64" | "writev", Some(inode)) => self.write(call, inode, result as usize)?,
            ("fsync" | "fdatasync", Some(inode)) => self.push(Operation::Sync { inode }),
            ("truncate" | "ftruncate", Some(inode)) => {
                self.push(Operation::Truncate { inode, length: call.arguments[1] as usize });
            }
            ("rename" | "renameat" | "renameat2", Some(inode)) => self.rename(call, inode)?,
            ("mkdir" | "mkdirat", _) => {
                let inode = self.disk.add(Kind::Directory);
                self.change(path, Some(inode))?;
            }
            ("symlink" | "symlinkat", _) => {
                let inode = self.disk.add(Kind::Link(call.second_path.clone().unwrap_or_default()));
                self.change(path, Some(inode))?;
            }
            ("link" | "linkat", Some(inode)) => self.change(call.second_path.as_deref(), Some(inode))?,
            ("rmdir" | "unlink" | "unlinkat", Some(_)) => self.change(path, None)?,
            // The file was removed while it was open.
            ("write" | "pwrite64" | "writev" | "fsync" | "fdatasync" | "ftruncate", None) => {}
            (name, _) => {
                let path = path.unwrap_or(Path::new("?")).display();
                return Err(format!("the recorder does not understand `{name}` of `{path}`").into());
            }
        }
        Ok(())
    }

    fn open(&mut self, call: &Call, inode: Option<Inode>, descriptor: i64) -> Result<(), Error> {
        let flags = call.open_flags().unwrap_or(0);
        if flags & libc::O_ACCMODE == libc::O_RDONLY {
            return Ok(());
        }
        match inode {
            None => {
                let inode = self.disk.add(Kind::File);
                self.change(call.path.as_deref(), Some(inode))?;
            }
            Some(inode) if flags & libc::O_TRUNC != 0 && !self.disk.bytes(inode).is_empty() => {
                self.push(Operation::Truncate { inode, length: 0 });
            }
            Some(_) => {}
        }
        self.places.insert(descriptor, (flags & libc::O_APPEND == 0).then_some(0));
        Ok(())
    }

    fn write(&mut self, call: &Call, inode: Inode, count: usize) -> Result<(), Error> {
        let mut bytes = call.data.clone().ok_or("a write without data")?;
        bytes.truncate(count);
        let end = self.disk.bytes(inode).len();
        let offset = match self.places.get_mut(&(call.arguments[0] as i64)) {
            _ if call.name == "pwrite64" => call.arguments[3] as usize,
            Some(Some(place)) => std::mem::replace(place, *place + count),
            Some(None) => end,
            None => return Err("a write to a file whose opening was not seen".into()),
        };
        let reported = self.reported(call.path.as_deref(), &bytes);
        self.push(Operation::Write { inode, offset, bytes });
        reported.into_iter().for_each(|save| self.push(Operation::Reported { save }));
        Ok(())
    }

    /// The number of the save that a line of the log reports.
    fn reported(&self, path: Option<&Path>, bytes: &[u8]) -> Option<u64> {
        path.filter(|path| path.ends_with("metrics.jsonl"))?;
        let event: Value =
            serde_json::from_slice(bytes).ok().filter(|it: &Value| it["event"] == "checkpoint")?;
        let state = self.root.join(event["checkpoint"].as_str()?).join("state.json");
        let state: Value = serde_json::from_slice(self.disk.bytes(self.at(&state)?)).ok()?;
        state["state"]["save_number"].as_u64()
    }

    fn rename(&mut self, call: &Call, inode: Inode) -> Result<(), Error> {
        let (from, old) = self.place(call.path.as_deref())?;
        let (to, new) = self.place(call.second_path.as_deref())?;
        if from != to {
            return Err(format!("`{old}` moves to another folder, which the model does not know").into());
        }
        let exchanges = call.name == "renameat2" && call.arguments[4] & u64::from(libc::RENAME_EXCHANGE) != 0;
        if exchanges {
            return Err(format!("`{old}` changes places with another, which the model does not know").into());
        }
        self.push(Operation::Change(Change {
            directory: from,
            names: vec![(old, None), (new, Some(inode))],
        }));
        Ok(())
    }
}

/// Writes a state of the disk into a folder.
pub(super) fn materialise(tree: &Tree, folder: &Path) -> io::Result<()> {
    for (path, node) in tree {
        let path = folder.join(path);
        match node {
            Node::Directory => fs::create_dir(path)?,
            Node::File(content) => fs::write(path, &*content.bytes)?,
            Node::Link(target) => std::os::unix::fs::symlink(target, path)?,
        }
    }
    Ok(())
}
