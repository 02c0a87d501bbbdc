use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt,
    marker::PhantomData,
    rc::Rc,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use serde::{Deserialize, Serialize};

use crate::{
    account::{Account, charge},
    device::{MOST_DEVICES, current_device},
};

/// What a run is doing: the coarse half of a [`Place`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    /// Between the others: logging, saving, the user's own code.
    #[default]
    Idle,
    /// Making the model and restoring its state.
    Init,
    /// Bringing a batch to the device.
    Data,
    /// The forward pass of training, loss included.
    Forward,
    /// The backward pass.
    Backward,
    /// Clipping and the optimizer.
    Step,
    /// Evaluation.
    Eval,
    /// Writing a checkpoint.
    Checkpoint,
}

impl Phase {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Init,
        Self::Data,
        Self::Forward,
        Self::Backward,
        Self::Step,
        Self::Eval,
        Self::Checkpoint,
    ];

    /// As in reports: `forward`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Init => "init",
            Self::Data => "data",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Step => "step",
            Self::Eval => "eval",
            Self::Checkpoint => "checkpoint",
        }
    }
}

impl Phase {
    /// Whether it is a part of an optimizer step that ends before the optimizer moved anything. The upload of a batch
    /// is one too, where it is not for an evaluation.
    pub const fn is_in_step(self) -> bool {
        matches!(self, Self::Data | Self::Forward | Self::Backward)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where a run is: its phase, and the scope (stage, layer, part) it is in. One word, so that an allocator can note it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place(u32);

const SCOPE_BITS: u32 = 28;
const SCOPE_MASK: u32 = (1 << SCOPE_BITS) - 1;

impl Place {
    fn new(phase: Phase, scope: u32) -> Self {
        Self((phase as u32) << SCOPE_BITS | scope & SCOPE_MASK)
    }

    /// The phase.
    pub fn phase(self) -> Phase {
        Phase::ALL.get((self.0 >> SCOPE_BITS) as usize).copied().unwrap_or_default()
    }

    /// The scope as reports name it, such as `layer1.0.conv1`; empty outside of any.
    pub fn scope(self) -> String {
        let names = lock(&NAMES);
        names.paths.get((self.0 & SCOPE_MASK) as usize).cloned().unwrap_or_default()
    }

    /// The word, for storing.
    pub fn word(self) -> u32 {
        self.0
    }

    /// The place of a stored [`word`](Self::word) of this process.
    pub fn from_word(word: u32) -> Self {
        Self(word)
    }
}

/// The scopes seen so far. There are as many as a model has layers, so they are kept for ever.
struct Names {
    /// By number; the first is outside of any scope.
    paths: Vec<String>,
    /// By enclosing scope, then name: looked up without making a `String`, as allocations are what is watched here.
    numbers: Option<HashMap<u32, HashMap<String, u32>>>,
}

static NAMES: Mutex<Names> = Mutex::new(Names { paths: Vec::new(), numbers: None });

/// Where the thread of a device that moved last is: for threads that compute for it. On lines of its own, since the
/// threads of several devices move at the same time.
#[repr(align(128))]
struct Shared(AtomicU32);

static SHARED: [Shared; MOST_DEVICES] = [const { Shared(AtomicU32::new(0)) }; MOST_DEVICES];

/// Of a device by its index, as [`on_device`](crate::on_device) takes it.
fn shared(device: usize) -> &'static AtomicU32 {
    &SHARED[device.min(MOST_DEVICES - 1)].0
}

type Watcher = Rc<dyn Fn(Place)>;

thread_local! {
    // `const` and without a destructor, so that an allocator may read it at any time of a thread's life.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

fn lock(names: &Mutex<Names>) -> std::sync::MutexGuard<'_, Names> {
    // Each change is one push; a panic in between leaves names that are still true.
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a scope is the `outer` one, or a part of it: `layer1.0.conv1` of `layer1`.
pub fn is_within(scope: &str, outer: &str) -> bool {
    scope.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Where this thread is.
pub fn place() -> Place {
    Place(CURRENT.get())
}

/// Where the thread that entered or left something last is, of those that work for the same device as this one.
/// Threads that compute for others ask this.
pub fn shared_place() -> Place {
    shared_place_of(current_device())
}

/// The same of those that work for the device of that index.
pub fn shared_place_of(device: usize) -> Place {
    Place(shared(device).load(Relaxed))
}

/// Runs `work` where another thread is that waits for it: for a compute thread that was handed all that is to do.
/// Afterwards the thread is back where it was, and what its device [shares](shared_place) is what it was.
pub fn at_place<R>(place: Place, work: impl FnOnce() -> R) -> R {
    struct Restore {
        outer: Place,
        device: usize,
        shared: Place,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            go(self.outer);
            shared(self.device).store(self.shared.0, Relaxed);
        }
    }
    let device = current_device();
    let _restore = Restore { outer: self::place(), device, shared: shared_place_of(device) };
    go(place);
    work()
}

/// Names what follows, until the guard is dropped, in every report: the stage, the layer, or a part of one.
///
/// ```
/// let _attention = oomph_core::scope("attention");
/// assert_eq!(oomph_core::place().scope(), "attention");
/// {
///     let _scores = oomph_core::scope("scores");
///     assert_eq!(oomph_core::place().scope(), "attention.scores");
/// }
/// assert_eq!(oomph_core::place().scope(), "attention");
/// ```
#[must_use = "the scope ends where the guard is dropped"]
pub fn scope(name: &str) -> PlaceGuard {
    let outer = place();
    PlaceGuard::enter(Place::new(outer.phase(), number(outer.0 & SCOPE_MASK, name)))
}

/// Says what the thread does until the guard is dropped. Scopes start anew in it.
#[must_use = "the phase ends where the guard is dropped"]
pub fn phase(phase: Phase) -> PlaceGuard {
    PlaceGuard::enter(Place::new(phase, 0))
}

/// Calls `watcher` with every place that this thread comes to while `work` runs.
pub fn watch_places<R>(watcher: impl Fn(Place) + 'static, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<Watcher>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCHER.set(self.0.take());
        }
    }
    let _restore = Restore(WATCHER.replace(Some(Rc::new(watcher))));
    work()
}

/// Goes back to where the thread was when it is dropped.
#[derive(Debug)]
pub struct PlaceGuard {
    outer: Place,
    /// A place belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl PlaceGuard {
    fn enter(inner: Place) -> Self {
        let outer = place();
        go(inner);
        Self { outer, _thread: PhantomData }
    }
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        go(self.outer);
    }
}

fn go(place: Place) {
    CURRENT.set(place.0);
    shared(current_device()).store(place.0, Relaxed);
    // Cloned, so that the watcher may itself be replaced while it runs.
    let watcher = WATCHER.with_borrow(Clone::clone);
    if let Some(watcher) = watcher {
        watcher(place);
    }
}

fn number(outer: u32, name: &str) -> u32 {
    let mut names = lock(&NAMES);
    if names.paths.is_empty() {
        names.paths.push(String::new());
    }
    if let Some(&known) = names.numbers.as_ref().and_then(|all| all.get(&outer)?.get(name)) {
        return known;
    }
    // They stay for ever, whoever comes to them first.
    charge(Account::Host, || names.add(outer, name))
}

impl Names {
    /// A new scope, by name within its enclosing one.
    fn add(&mut self, outer: u32, name: &str) -> u32 {
        let fresh = self.paths.len() as u32;
        let path = match self.paths.get(outer as usize).map(String::as_str) {
            None | Some("") => name.to_owned(),
            Some(outer) => format!("{outer}.{name}"),
        };
        self.paths.push(path);
        self.numbers.get_or_insert_default().entry(outer).or_default().insert(name.to_owned(), fresh);
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::on_device;

    #[test]
    fn a_place_has_phase_and_scope_and_is_left_again() {
        let forward = phase(Phase::Forward);
        let stage = scope("layer1");
        let layer = scope("conv");
        assert_eq!((place().phase(), place().scope()), (Phase::Forward, "layer1.conv".to_owned()));
        assert_eq!(Place::from_word(place().word()), place());
        drop(layer);
        assert_eq!(place().scope(), "layer1");
        drop(stage);
        drop(forward);
        assert_eq!((place().phase(), place().scope()), (Phase::Idle, String::new()));
    }

    #[test]
    fn the_same_scope_has_the_same_place() {
        let words: Vec<u32> = (0..2)
            .map(|_| {
                let _outer = scope("same");
                let _inner = scope("place");
                place().word()
            })
            .collect();
        assert_eq!(words[0], words[1]);
    }

    #[test]
    fn each_device_shares_the_place_of_its_own_threads() {
        // Devices of this test alone: others run at the same time.
        let [one, other] = [MOST_DEVICES - 2, MOST_DEVICES - 3];
        let inner = on_device(one, || {
            let _phase = phase(Phase::Forward);
            let _scope = scope("shared");
            on_device(other, || {
                let _phase = phase(Phase::Backward);
                [one, other].map(|device| shared_place_of(device).phase())
            })
        });
        assert_eq!(inner, [Phase::Forward, Phase::Backward]);
        assert_eq!(on_device(one, shared_place), Place::default());
    }

    #[test]
    fn work_that_is_handed_over_is_where_it_was_asked_for() {
        let device = MOST_DEVICES - 4;
        let asking = {
            let _phase = phase(Phase::Eval);
            let _scope = scope("asking");
            place()
        };
        let seen = std::thread::spawn(move || {
            crate::device_thread(device);
            let _own = phase(Phase::Data);
            let inner = at_place(asking, || {
                let _scope = scope("part");
                (place().scope(), shared_place_of(device).scope())
            });
            (inner, place().phase(), shared_place().phase())
        });
        let inner = ("asking.part".to_owned(), "asking.part".to_owned());
        assert_eq!(seen.join().unwrap(), (inner, Phase::Data, Phase::Data));
    }

    #[test]
    fn a_watcher_sees_each_move_and_is_gone_afterwards() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let notes = seen.clone();
        watch_places(move |place| notes.borrow_mut().push(place.scope()), || drop(scope("watched")));
        drop(scope("unwatched"));
        assert_eq!(*seen.borrow(), ["watched", ""]);
    }
}
