//! The simulated machine: its cards, and which of them a thread uses.

use std::{cell::Cell, process, sync::OnceLock};

use crate::{counters::Compiler, device::Device, failure::Failure, log::Log, report, settings::Settings};

/// All cards of this process.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) devices: Vec<Device>,
    pub(crate) log: Log,
    pub(crate) settings: Settings,
    pub(crate) compiler: Compiler,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();

thread_local! {
    /// The card whose context is current in this thread.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The machine. The first call reads the settings and ends the process with an error where they mean nothing: a test on
/// another machine than the one it asked for would be worthless.
pub(crate) fn machine() -> &'static Machine {
    MACHINE.get_or_init(|| {
        let settings = Settings::read().unwrap_or_else(|error| {
            eprintln!("cuda-sim: {error}");
            process::exit(2)
        });
        let faults = |index| settings.faults.of(index);
        let cards = settings.cards.iter().cloned().enumerate();
        let devices = cards.map(|(index, card)| Device::new(card, faults(index))).collect();
        let log = Log::open(settings.log.as_deref());
        report::at_exit();
        Machine { devices, log, settings, compiler: Compiler::default() }
    })
}

/// The machine, if a call has made it.
pub(crate) fn if_started() -> Option<&'static Machine> {
    MACHINE.get()
}

/// The card of that number.
pub(crate) fn device(index: i32) -> Result<&'static Device, Failure> {
    let index = usize::try_from(index).map_err(|_| Failure::InvalidDevice)?;
    machine().devices.get(index).ok_or(Failure::InvalidDevice)
}

/// Makes a card's context current in this thread, or none.
pub(crate) fn set_current(index: Option<usize>) {
    CURRENT.set(index);
}

/// The number of the card that is current in this thread.
pub(crate) fn current_index() -> Option<usize> {
    CURRENT.get()
}

/// The card that is current in this thread, if its context works.
pub(crate) fn current() -> Result<&'static Device, Failure> {
    let device = current_index().and_then(|index| machine().devices.get(index));
    let device = device.ok_or(Failure::InvalidContext)?;
    device.check().map(|()| device)
}
