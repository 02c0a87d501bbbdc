//! `oomph monitor`: the memory of GPUs and host with the processes that use it, sampled repeatedly.

use std::{
    env,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use clap::Args;
use oomph_monitor::{Sampler, report};
use oomph_terminal::screen::Screen;

use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    output,
    signals::{self, SIGINT, SIGTERM},
};

#[derive(Args, Debug)]
#[command(after_help = "\
A process is stale if it holds GPU memory, has run no kernel for a minute, and has lost its parent.
A crashed launcher leaves such processes behind. The report shows the command that ends a stale
process; oomph never ends one itself.

Ctrl-C stops the monitor.

Examples:
  oomph monitor
  oomph monitor --once
  oomph monitor --json --interval 10s >memory.jsonl")]
pub(crate) struct MonitorArguments {
    /// Print one sample and exit
    #[arg(long, conflicts_with = "interval")]
    once: bool,
    /// Time between two samples, from 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Print one JSON object per sample, each on a line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &MonitorArguments) -> Result<Exit, CliError> {
    let stopped = stopped()?;
    let mut sampler =
        Sampler::open(env::var_os("CUDA_VISIBLE_DEVICES").map(|list| list.to_string_lossy().into_owned()));
    // A terminal is redrawn; files and pipes get one report after the other.
    let mut screen = if arguments.json || arguments.once { None } else { Screen::open() };
    let mut noted = None;
    loop {
        let sample = sampler.sample();
        if arguments.json {
            output::print_json(&sample)?;
        } else {
            if sample.no_gpu != noted {
                screen.iter_mut().try_for_each(Screen::clear).map_err(CliError::Output)?;
                if let Some(reason) = sampler.no_gpu() {
                    Notices::default().no_gpu(format!("NVML: {reason}"), reason.hint());
                }
                noted.clone_from(&sample.no_gpu);
            }
            match &mut screen {
                Some(screen) => screen.draw(&report(&sample)).map_err(CliError::Output)?,
                None if arguments.once => output::print(&report(&sample))?,
                // An empty line separates it from the next report.
                None => output::print(&(report(&sample) + "\n"))?,
            }
        }
        if arguments.once {
            return Ok(Exit::Success);
        }
        match stopped.recv_timeout(arguments.interval) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(exit) => return Ok(exit),
            // The signal thread lives as long as the process.
            Err(RecvTimeoutError::Disconnected) => return Ok(Exit::Success),
        }
    }
}

/// Receives the exit code after SIGINT or SIGTERM. SIGINT is the normal end of a monitor and no error.
fn stopped() -> Result<Receiver<Exit>, CliError> {
    let (sender, receiver) = channel();
    signals::handle(&[SIGINT, SIGTERM], move |signal| {
        let exit = if signal == SIGINT { Exit::Success } else { Exit::Terminated };
        // Without a receiver the command has ended.
        let _ = sender.send(exit);
    })?;
    Ok(receiver)
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);

/// Suffixes with their seconds. `ms` comes before `s`, which is its end. A bare number is seconds.
const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Why a text is not an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum IntervalError {
    #[error("expected a number and a unit, such as `2s`, `500ms` or `1m`")]
    NotATime,
    #[error("expected a time from `100ms` to `1h`")]
    OutOfRange,
}

/// Reads `2s`, `500ms`, `1.5m`.
fn interval(text: &str) -> Result<Duration, IntervalError> {
    let text = text.trim();
    let (number, seconds) = UNITS
        .iter()
        .find_map(|(suffix, seconds)| Some((text.strip_suffix(suffix)?.trim_end(), *seconds)))
        .unwrap_or((text, 1.0));
    // `parse` would accept words such as `inf`.
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(IntervalError::NotATime);
    }
    let number: f64 = number.parse().map_err(|_| IntervalError::NotATime)?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| IntervalError::OutOfRange)?;
    if (SHORTEST..=LONGEST).contains(&time) { Ok(time) } else { Err(IntervalError::OutOfRange) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        for (text, millis) in
            [("2s", 2000), ("2", 2000), ("500ms", 500), ("0.5 s", 500), ("1m", 60_000), ("1h", 3_600_000)]
        {
            assert_eq!(interval(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn malformed_intervals_are_refused() {
        for text in ["", "s", "fast", "2 weeks", "-1s", "1..5s", "inf", "1e3"] {
            assert_eq!(interval(text), Err(IntervalError::NotATime), "{text}");
        }
        for text in ["0", "0s", "99ms", "61m", "2h", "99999999999999999999999h"] {
            assert_eq!(interval(text), Err(IntervalError::OutOfRange), "{text}");
        }
    }
}
