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

use crate::account::{Account, MOST_DEVICES, charge, current_device};

/// The phase of a run: the coarse half of an [`ExecutionPoint`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    /// Between the other phases: logging, saving, user code.
    #[default]
    Idle,
    /// Building the model and restoring its state.
    Init,
    /// Uploading a batch to the device.
    Data,
    /// The forward pass of training, with the loss.
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
    /// All phases, in the order of their codes.
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

    /// Its name in reports: `forward`.
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

    /// Whether a training step passes through this phase before its optimizer runs. Uploads for an evaluation are in
    /// `Data` too; the caller must rule them out.
    pub const fn is_in_step(self) -> bool {
        matches!(self, Self::Data | Self::Forward | Self::Backward)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The phase and the scope (stage, layer, part) that a thread is in. One word, so that an allocator can record it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExecutionPoint(u32);

const SCOPE_BITS: u32 = 28;
const SCOPE_MASK: u32 = (1 << SCOPE_BITS) - 1;

impl ExecutionPoint {
    fn new(phase: Phase, scope: u32) -> Self {
        Self((phase as u32) << SCOPE_BITS | scope & SCOPE_MASK)
    }

    /// The phase.
    pub fn phase(self) -> Phase {
        Phase::ALL.get((self.0 >> SCOPE_BITS) as usize).copied().unwrap_or_default()
    }

    /// The scope's name in reports, such as `layer1.0.conv1`; empty outside any scope.
    pub fn scope(self) -> String {
        let names = lock(&NAMES);
        names.paths.get((self.0 & SCOPE_MASK) as usize).cloned().unwrap_or_default()
    }

    /// The point as a word, for storing.
    pub fn word(self) -> u32 {
        self.0
    }

    /// The point of a stored [`word`](Self::word) of this process.
    pub fn from_word(word: u32) -> Self {
        Self(word)
    }
}

/// The scopes seen so far. There are about as many as a model has layers, so they are never freed.
struct Names {
    /// By number; the first is outside any scope.
    paths: Vec<String>,
    /// By enclosing scope, then name. A look-up makes no `String`: the meter would count it.
    numbers: Option<HashMap<u32, HashMap<String, u32>>>,
}

static NAMES: Mutex<Names> = Mutex::new(Names { paths: Vec::new(), numbers: None });

/// The point that any thread working for the device entered last. Compute threads have no point of their own and use
/// this one. The point of each device has its own cache lines: threads of several devices write at the same time.
#[repr(align(128))]
struct Shared(AtomicU32);

static SHARED: [Shared; MOST_DEVICES] = [const { Shared(AtomicU32::new(0)) }; MOST_DEVICES];

fn shared(device: usize) -> &'static AtomicU32 {
    &SHARED[device.min(MOST_DEVICES - 1)].0
}

type Watcher = Rc<dyn Fn(ExecutionPoint)>;

thread_local! {
    // `const` and without a destructor: an allocator may read it at any time of a thread's life.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

fn lock(names: &Mutex<Names>) -> std::sync::MutexGuard<'_, Names> {
    // Each change is one push; the names stay valid after a panic.
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether `scope` equals `outer` or lies within it, as `layer1.0.conv1` lies within `layer1`.
pub fn is_within(scope: &str, outer: &str) -> bool {
    scope.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The point that this thread is at.
pub fn current_point() -> ExecutionPoint {
    ExecutionPoint(CURRENT.get())
}

/// The point most recently entered by any thread that works for this thread's device. Compute threads use it.
pub fn shared_point() -> ExecutionPoint {
    shared_point_of(current_device())
}

/// The same for the device of that index.
pub fn shared_point_of(device: usize) -> ExecutionPoint {
    ExecutionPoint(shared(device).load(Relaxed))
}

/// Runs `work` at the point of a thread that waits for it, as on a compute thread. Afterwards this thread's point and the
/// [shared point](shared_point) of its device are restored.
pub fn at_point<R>(point: ExecutionPoint, work: impl FnOnce() -> R) -> R {
    struct Restore {
        outer: ExecutionPoint,
        device: usize,
        shared: ExecutionPoint,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            go(self.outer);
            shared(self.device).store(self.shared.0, Relaxed);
        }
    }
    let device = current_device();
    let _restore = Restore { outer: current_point(), device, shared: shared_point_of(device) };
    go(point);
    work()
}

/// Enters a scope until the guard is dropped: a stage, a layer or a part of one, which every report names.
///
/// ```
/// let _attention = oomph_core::scope("attention");
/// assert_eq!(oomph_core::current_point().scope(), "attention");
/// {
///     let _scores = oomph_core::scope("scores");
///     assert_eq!(oomph_core::current_point().scope(), "attention.scores");
/// }
/// assert_eq!(oomph_core::current_point().scope(), "attention");
/// ```
#[must_use = "the scope ends when the guard is dropped"]
pub fn scope(name: &str) -> PointGuard {
    let outer = current_point();
    PointGuard::enter(ExecutionPoint::new(outer.phase(), number(outer.0 & SCOPE_MASK, name)))
}

/// Enters a phase until the guard is dropped. It starts outside any scope.
#[must_use = "the phase ends when the guard is dropped"]
pub fn phase(phase: Phase) -> PointGuard {
    PointGuard::enter(ExecutionPoint::new(phase, 0))
}

/// Calls `watcher` with every point that this thread enters while `work` runs.
pub fn watch_points<R>(watcher: impl Fn(ExecutionPoint) + 'static, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<Watcher>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCHER.set(self.0.take());
        }
    }
    let _restore = Restore(WATCHER.replace(Some(Rc::new(watcher))));
    work()
}

/// Returns the thread to its previous point when dropped.
#[derive(Debug)]
pub struct PointGuard {
    outer: ExecutionPoint,
    /// A point belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl PointGuard {
    fn enter(inner: ExecutionPoint) -> Self {
        let outer = current_point();
        go(inner);
        Self { outer, _thread: PhantomData }
    }
}

impl Drop for PointGuard {
    fn drop(&mut self) {
        go(self.outer);
    }
}

fn go(point: ExecutionPoint) {
    CURRENT.set(point.0);
    shared(current_device()).store(point.0, Relaxed);
    // Cloned: the watcher may be replaced while it runs.
    let watcher = WATCHER.with_borrow(Clone::clone);
    if let Some(watcher) = watcher {
        watcher(point);
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
    // Charged to the host: names are never freed.
    charge(Account::Host, || {
        let fresh = names.paths.len() as u32;
        let path = match names.paths.get(outer as usize).map(String::as_str) {
            None | Some("") => name.to_owned(),
            Some(outer) => format!("{outer}.{name}"),
        };
        names.paths.push(path);
        names.numbers.get_or_insert_default().entry(outer).or_default().insert(name.to_owned(), fresh);
        fresh
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::on_device;

    #[test]
    fn a_point_has_phase_and_scope_and_is_left_again() {
        let forward = phase(Phase::Forward);
        let stage = scope("layer1");
        let layer = scope("conv");
        assert_eq!(
            (current_point().phase(), current_point().scope()),
            (Phase::Forward, "layer1.conv".to_owned())
        );
        assert_eq!(ExecutionPoint::from_word(current_point().word()), current_point());
        drop(layer);
        assert_eq!(current_point().scope(), "layer1");
        drop(stage);
        drop(forward);
        assert_eq!((current_point().phase(), current_point().scope()), (Phase::Idle, String::new()));
    }

    #[test]
    fn the_same_scope_is_the_same_point() {
        let words: Vec<u32> = (0..2)
            .map(|_| {
                let _outer = scope("same");
                let _inner = scope("point");
                current_point().word()
            })
            .collect();
        assert_eq!(words[0], words[1]);
    }

    #[test]
    fn each_device_shares_the_point_of_its_own_threads() {
        // No other test uses these devices: tests run concurrently.
        let [one, other] = [MOST_DEVICES - 2, MOST_DEVICES - 3];
        let inner = on_device(one, || {
            let _phase = phase(Phase::Forward);
            let _scope = scope("shared");
            on_device(other, || {
                let _phase = phase(Phase::Backward);
                [one, other].map(|device| shared_point_of(device).phase())
            })
        });
        assert_eq!(inner, [Phase::Forward, Phase::Backward]);
        assert_eq!(on_device(one, shared_point), ExecutionPoint::default());
    }

    #[test]
    fn work_for_another_thread_runs_at_its_point() {
        let device = MOST_DEVICES - 4;
        let asking = {
            let _phase = phase(Phase::Eval);
            let _scope = scope("asking");
            current_point()
        };
        let seen = std::thread::spawn(move || {
            crate::device_thread(device);
            let _own = phase(Phase::Data);
            let inner = at_point(asking, || {
                let _scope = scope("part");
                (current_point().scope(), shared_point_of(device).scope())
            });
            (inner, current_point().phase(), shared_point().phase())
        });
        let inner = ("asking.part".to_owned(), "asking.part".to_owned());
        assert_eq!(seen.join().unwrap(), (inner, Phase::Data, Phase::Data));
    }

    #[test]
    fn a_watcher_sees_each_point_until_the_work_ends() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let notes = seen.clone();
        watch_points(move |point| notes.borrow_mut().push(point.scope()), || drop(scope("watched")));
        drop(scope("unwatched"));
        assert_eq!(*seen.borrow(), ["watched", ""]);
    }
}
