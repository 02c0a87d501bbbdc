//! A file system in memory that knows what a loss of power may take away.
//!
//! The model is pessimistic, as ALICE's (Pillai et al., OSDI 2014). `fsync` of a file keeps its data and its size, and not
//! its name. `fsync` of a directory keeps its names, and not what they name. Everything else may be lost or kept, in any
//! order. A rename happens as a whole or not at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use super::survival::{Survival, survived};

/// The number of a file, directory or link. Its name may change, and its number does not.
pub(super) type Inode = usize;

/// The directory that all paths begin in.
pub(super) const ROOT: Inode = 0;

/// What an inode is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    /// A symbolic link with its target: complete as soon as it has a name.
    Link(PathBuf),
}

/// A change of names within one directory, which happens as a whole: a creation, a removal or a rename.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) directory: Inode,
    /// Each name with what it names afterwards.
    pub(super) names: Vec<(String, Option<Inode>)>,
}

/// One operation of a recorded program.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// Names change.
    Change(Change),
    /// Bytes are written.
    Write { inode: Inode, offset: usize, bytes: Vec<u8> },
    /// A file gets another length.
    Truncate { inode: Inode, length: usize },
    /// A file or a directory is flushed.
    Sync { inode: Inode },
    /// The program said that the save of this number is done.
    Reported { save: u64 },
}

/// Bytes that states share, with their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) hash: String,
}

impl Content {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { hash: crate::run_files::sha256(&bytes), bytes: Arc::new(bytes) }
    }
}

/// The names of a directory.
pub(super) type Names = BTreeMap<String, Inode>;

/// The disk and what is not yet on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) kinds: Vec<Kind>,
    directories: BTreeMap<Inode, Names>,
    files: BTreeMap<Inode, Content>,
    /// Changes of names since the last flush of their directories, in order.
    changes: Vec<Change>,
    /// What each file held after each write since its last flush.
    versions: BTreeMap<Inode, Vec<Arc<Vec<u8>>>>,
}

/// What survives a loss of power.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Of each pending change, whether it is kept.
    pub(super) is_kept: Vec<bool>,
    /// What is kept of the pending data of each file. Files that are not named lose it.
    pub(super) data: BTreeMap<Inode, Survival>,
}

/// A thing in a state of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(Content),
    Directory,
    Link(PathBuf),
}

/// A state of the disk: each path with what is there.
pub(super) type Tree = BTreeMap<PathBuf, Node>;

impl Disk {
    /// A disk with an empty root.
    pub(super) fn new() -> Self {
        let mut disk = Self::default();
        disk.add(Kind::Directory);
        disk
    }

    /// A new inode without a name.
    pub(super) fn add(&mut self, kind: Kind) -> Inode {
        let inode = self.kinds.len();
        match kind {
            Kind::File => drop(self.files.insert(inode, Content::new(Vec::new()))),
            Kind::Directory => drop(self.directories.insert(inode, Names::new())),
            Kind::Link(_) => {}
        }
        self.kinds.push(kind);
        inode
    }

    /// Puts something onto the disk that is already flushed.
    pub(super) fn put(&mut self, directory: Inode, name: String, kind: Kind, bytes: Vec<u8>) -> Inode {
        let is_file = kind == Kind::File;
        let inode = self.add(kind);
        if is_file {
            self.files.insert(inode, Content::new(bytes));
        }
        self.directories.entry(directory).or_default().insert(name, inode);
        inode
    }

    /// Carries out an operation.
    pub(super) fn carry_out(&mut self, operation: &Operation) {
        match operation {
            Operation::Change(change) => self.changes.push(change.clone()),
            Operation::Write { inode, offset, bytes } => self.edit(*inode, |content| {
                let end = offset + bytes.len();
                content.resize(content.len().max(end), 0);
                content[*offset..end].copy_from_slice(bytes);
            }),
            Operation::Truncate { inode, length } => self.edit(*inode, |content| content.resize(*length, 0)),
            Operation::Sync { inode } => self.sync(*inode),
            Operation::Reported { .. } => {}
        }
    }

    fn edit(&mut self, inode: Inode, change: impl FnOnce(&mut Vec<u8>)) {
        let mut content = self.bytes(inode).to_vec();
        change(&mut content);
        self.versions.entry(inode).or_default().push(Arc::new(content));
    }

    fn sync(&mut self, inode: Inode) {
        if let Some(last) = self.versions.remove(&inode).and_then(|versions| versions.into_iter().next_back())
        {
            let content = Content::new(last.to_vec());
            self.files.insert(inode, content);
        }
        let (flushed, pending) = self.changes.drain(..).partition(|change| change.directory == inode);
        self.changes = pending;
        let flushed: Vec<Change> = flushed;
        flushed.iter().for_each(|change| apply(&mut self.directories, change));
        self.forget();
    }

    /// Forgets what no name leads to any more, whatever survives.
    fn forget(&mut self) {
        let mut found = BTreeSet::from([ROOT]);
        let mut waiting = vec![ROOT];
        while let Some(directory) = waiting.pop() {
            let durable = self.directories.get(&directory).into_iter().flatten().map(|(_, inode)| *inode);
            let changes = self.changes.iter().filter(|change| change.directory == directory);
            let pending = changes.flat_map(|change| change.names.iter().filter_map(|(_, inode)| *inode));
            waiting.extend(durable.chain(pending).filter(|inode| found.insert(*inode)));
        }
        self.directories.retain(|inode, _| found.contains(inode));
        self.files.retain(|inode, _| found.contains(inode));
        self.versions.retain(|inode, _| found.contains(inode));
        self.changes.retain(|change| found.contains(&change.directory));
    }

    /// The bytes that a running program sees in a file.
    pub(super) fn bytes(&self, inode: Inode) -> &[u8] {
        let pending = self.versions.get(&inode).and_then(|versions| versions.last());
        pending.or_else(|| self.files.get(&inode).map(|content| &content.bytes)).map_or(&[], |bytes| bytes)
    }

    /// The names that a running program sees.
    pub(super) fn live(&self) -> BTreeMap<Inode, Names> {
        let mut live = self.directories.clone();
        self.changes.iter().for_each(|change| apply(&mut live, change));
        live
    }

    /// The pending changes of names.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The files with pending data: what is on the disk, and what came since.
    pub(super) fn pending(&self) -> impl Iterator<Item = (Inode, Vec<Arc<Vec<u8>>>)> {
        self.versions.iter().map(|(inode, versions)| {
            let durable = self.files.get(inode).map(|content| content.bytes.clone()).unwrap_or_default();
            (*inode, std::iter::once(durable).chain(versions.iter().cloned()).collect())
        })
    }

    /// The state of the disk after a loss of power that leaves `choice`.
    pub(super) fn after(&self, choice: &Choice) -> Tree {
        let mut directories = self.directories.clone();
        let kept = self.changes.iter().zip(&choice.is_kept).filter(|(_, is_kept)| **is_kept);
        kept.for_each(|(change, _)| apply(&mut directories, change));
        let pending: BTreeMap<_, _> = self
            .pending()
            .filter_map(|(inode, versions)| {
                let survival = *choice.data.get(&inode)?;
                Some((inode, Content::new(survived(&versions, survival))))
            })
            .collect();
        let mut tree = Tree::new();
        let mut waiting = vec![(PathBuf::new(), ROOT)];
        while let Some((path, directory)) = waiting.pop() {
            for (name, inode) in directories.get(&directory).into_iter().flatten() {
                let path = path.join(name);
                let node = match &self.kinds[*inode] {
                    Kind::Link(target) => Node::Link(target.clone()),
                    Kind::File => {
                        let content = pending.get(inode).or_else(|| self.files.get(inode));
                        Node::File(content.cloned().unwrap_or_else(|| Content::new(Vec::new())))
                    }
                    Kind::Directory => {
                        waiting.push((path.clone(), *inode));
                        Node::Directory
                    }
                };
                tree.insert(path, node);
            }
        }
        tree
    }
}

fn apply(directories: &mut BTreeMap<Inode, Names>, change: &Change) {
    let names = directories.entry(change.directory).or_default();
    for (name, inode) in &change.names {
        match inode {
            Some(inode) => drop(names.insert(name.clone(), *inode)),
            None => drop(names.remove(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is written, flushed or not, and renamed, as it is after a loss of power.
    fn renamed(is_flushed: bool, is_renamed: bool, is_kept: bool, survival: Option<Survival>) -> Vec<String> {
        let mut disk = Disk::new();
        let inode = disk.add(Kind::File);
        let named = |names| Operation::Change(Change { directory: ROOT, names });
        disk.carry_out(&named(vec![("new".to_owned(), Some(inode))]));
        disk.carry_out(&Operation::Write { inode, offset: 0, bytes: b"data".to_vec() });
        if is_flushed {
            disk.carry_out(&Operation::Sync { inode });
        }
        disk.carry_out(&named(vec![("new".to_owned(), None), ("name".to_owned(), Some(inode))]));
        if is_renamed {
            disk.carry_out(&Operation::Sync { inode: ROOT });
        }
        let is_kept = vec![is_kept; disk.changes().len()];
        let data = survival.map(|survival| (inode, survival)).into_iter().collect();
        let shown = |(path, node): (&PathBuf, &Node)| match node {
            Node::File(content) => format!("{}={}", path.display(), content.bytes.escape_ascii()),
            other => format!("{}: {other:?}", path.display()),
        };
        disk.after(&Choice { is_kept, data }).iter().map(shown).collect()
    }

    #[test]
    fn the_flush_of_a_file_keeps_its_data_and_not_its_name() {
        assert_eq!(renamed(true, false, false, None), Vec::<String>::new());
        assert_eq!(renamed(true, false, true, None), ["name=data"]);
    }

    #[test]
    fn the_flush_of_a_directory_keeps_a_name_and_not_the_data() {
        assert_eq!(renamed(false, true, false, None), ["name="]);
        assert_eq!(renamed(false, true, false, Some(Survival::Zeros)), ["name=\\x00\\x00\\x00\\x00"]);
        assert_eq!(renamed(false, true, false, Some(Survival::Everything)), ["name=data"]);
    }

    #[test]
    fn both_flushes_keep_both() {
        assert_eq!(renamed(true, true, false, None), ["name=data"]);
    }

    #[test]
    fn a_directory_without_its_name_hides_what_is_in_it() {
        let mut disk = Disk::new();
        let directory = disk.add(Kind::Directory);
        let made = Change { directory: ROOT, names: vec![("folder".to_owned(), Some(directory))] };
        disk.carry_out(&Operation::Change(made));
        let inode = disk.add(Kind::File);
        let named = Change { directory, names: vec![("file".to_owned(), Some(inode))] };
        disk.carry_out(&Operation::Change(named));
        disk.carry_out(&Operation::Sync { inode: directory });
        let left = |is_kept| disk.after(&Choice { is_kept: vec![is_kept], data: BTreeMap::new() }).len();
        assert_eq!((left(false), left(true)), (0, 2));
    }
}
