//! The states of the disk that a loss of power may leave, at each point of a recording.

use std::collections::{BTreeMap, HashMap};

use oomph_core::Generator;

use super::{
    disk::{Choice, Disk, Inode, Node, Operation, Tree},
    record::Recording,
    survival::{Survival, survivals},
};
use crate::run_files::sha256;

/// A state of the disk after a loss of power.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    /// The highest number of a save that was reported before.
    pub(super) reported: u64,
    /// How many operations came before, and what was left of those.
    pub(super) made: String,
    /// Whether the program had ended.
    pub(super) is_end: bool,
}

/// All states of a recording.
#[derive(Debug, Default)]
pub(super) struct States {
    /// Between operations.
    pub(super) points: usize,
    /// All that were made, equal ones too.
    pub(super) made: usize,
    /// Those that differ.
    pub(super) distinct: Vec<State>,
}

/// Random states at each point.
const RANDOM: usize = 4;

/// The states at every `stride`-th point.
pub(super) fn states(
    recording: &Recording,
    stride: usize,
    random: &mut dyn FnMut(usize) -> Generator,
) -> States {
    let mut states = States::default();
    let mut known = HashMap::new();
    let mut disk = recording.before.clone();
    let mut reported = recording.reported_before;
    let last = recording.operations.len();
    for point in 0..=last {
        let operation = point.checked_sub(1).map(|index| &recording.operations[index]);
        if let Some(operation) = operation {
            disk.carry_out(operation);
        }
        if let Some(Operation::Reported { save }) = operation {
            reported = reported.max(*save);
        }
        if point % stride != 0 && point != last {
            continue;
        }
        states.points += 1;
        for choice in choices(&disk, operation.and_then(written), &mut random(point)) {
            states.made += 1;
            let tree = disk.after(&choice);
            let is_end = point == last;
            let place = *known.entry(hash(&tree)).or_insert(states.distinct.len());
            match states.distinct.get_mut(place) {
                Some(state) => {
                    // The later point promises more.
                    if reported > state.reported {
                        state.made = shown(point, &choice, &disk);
                    }
                    state.reported = reported;
                    state.is_end |= is_end;
                }
                None => {
                    let made = shown(point, &choice, &disk);
                    states.distinct.push(State { tree, reported, made, is_end });
                }
            }
        }
    }
    states
}

/// The file that an operation changed.
fn written(operation: &Operation) -> Option<Inode> {
    match operation {
        Operation::Write { inode, .. } | Operation::Truncate { inode, .. } => Some(*inode),
        _ => None,
    }
}

/// What may survive at a point at which `written` was the last file to change.
fn choices(disk: &Disk, written: Option<Inode>, random: &mut Generator) -> Vec<Choice> {
    let count = disk.changes().len();
    let files: BTreeMap<_, _> =
        disk.pending().map(|(inode, versions)| (inode, survivals(&versions))).collect();
    let each = |survival| files.keys().map(|inode| (*inode, survival)).collect::<BTreeMap<_, _>>();
    let (all, zeros, none) = (each(Survival::Everything), each(Survival::Zeros), BTreeMap::new());
    let mut choices = Vec::new();
    let mut add = |is_kept: &dyn Fn(usize) -> bool, data: &BTreeMap<Inode, Survival>| {
        choices.push(Choice { is_kept: (0..count).map(is_kept).collect(), data: data.clone() });
    };
    for data in [&none, &all, &zeros] {
        add(&|_| false, data);
        add(&|_| true, data);
        for one in 0..count {
            add(&|index| index == one, data);
            add(&|index| index != one, data);
            // As a file system with one journal of all names leaves it.
            add(&|index| index < one, data);
        }
    }
    for (inode, survivals) in &files {
        // At other points the file lost the same when it was written.
        let few = [Survival::Zeros];
        for survival in if written == Some(*inode) { survivals } else { &few[..] } {
            for others in [&all, &none] {
                let mut data = others.clone();
                data.insert(*inode, *survival);
                add(&|_| true, &data);
            }
        }
        let mut without = all.clone();
        without.remove(inode);
        add(&|_| true, &without);
        add(&|_| true, &BTreeMap::from([(*inode, Survival::Everything)]));
    }
    for _ in 0..RANDOM {
        let kept: Vec<_> = (0..count).map(|_| random.chance(0.5)).collect();
        let left = files.iter().filter_map(|(inode, survivals)| {
            let survival = survivals.get(random.below(survivals.len() + 1))?;
            Some((*inode, *survival))
        });
        let data = left.collect();
        add(&|index| kept[index], &data);
    }
    choices
}

/// A hash that only equal trees have.
fn hash(tree: &Tree) -> String {
    let mut text = String::new();
    for (path, node) in tree {
        text += &match node {
            Node::File(content) => format!("{path:?} {}\n", content.hash),
            Node::Directory => format!("{path:?} /\n"),
            Node::Link(target) => format!("{path:?} -> {target:?}\n"),
        };
    }
    sha256(text.as_bytes())
}

/// A choice in words.
fn shown(point: usize, choice: &Choice, disk: &Disk) -> String {
    let lost = choice.is_kept.iter().zip(disk.changes()).filter(|(is_kept, _)| !**is_kept);
    let lost: Vec<_> = lost
        .map(|(_, change)| {
            let names = change.names.iter();
            names.map(|(name, inode)| format!("{}{name}", if inode.is_some() { '+' } else { '-' })).collect()
        })
        .map(|names: Vec<_>| names.join(" "))
        .collect();
    let data: Vec<_> = disk
        .pending()
        .map(|(inode, _)| match choice.data.get(&inode) {
            Some(survival) => format!("{inode} {survival:?}"),
            None => format!("{inode} nothing"),
        })
        .collect();
    format!("point {point}, lost names [{}], data [{}]", lost.join(", "), data.join(", "))
}
