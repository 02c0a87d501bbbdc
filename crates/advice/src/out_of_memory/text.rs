//! The text of a report.

use std::fmt::{self, Display, Formatter};

use oomph_core::{Bytes, printable};
use oomph_timeline::Category;

use super::{
    process_memory::OtherProcess,
    report::{Advice, Kept, OutOfMemory, OutOfMemoryReport},
};

impl Display for OutOfMemoryReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.held(f)?;
        self.around(f)?;
        if let Some(kept) = &self.kept {
            writeln!(f, "\n{kept}")?;
            if let (Some(run), false) = (&self.run_dir, matches!(kept, Kept::Nothing { .. })) {
                let run = printable(run.display());
                writeln!(f, "to continue: `oomph train --resume {run}` with one of the flags below")?;
            }
        }
        self.advised(f)?;
        if let Some(files) = &self.files {
            let directory = files.text.parent().unwrap_or(&files.text).display();
            let directory = printable(directory);
            let and_what = match (&files.timeline, self.is_measured) {
                (None, _) => " is",
                (Some(_), true) => " and the timeline are",
                (Some(_), false) => " and the planned timeline are",
            };
            writeln!(f, "\nthis report{and_what} in {directory}")?;
        }
        self.not_written.as_ref().map_or(Ok(()), |reason| writeln!(f, "\n{}", printable(reason)))
    }
}

impl OutOfMemoryReport {
    /// The bytes of the parameters, if they alone exceed the limit.
    fn too_large_parameters(&self) -> Option<Bytes> {
        let parameters = self.in_use.of(Category::Parameters);
        self.limit_bytes.filter(|limit| parameters > *limit).map(|_| parameters)
    }

    fn head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let limit = self.limit_bytes.map(|limit| format!(" with {limit}")).unwrap_or_default();
        let [title, device] = [&self.title, &self.device].map(printable);
        writeln!(f, "{title} · {device}{limit} · planned peak {}", self.planned_peak_bytes)
    }

    fn held(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let when = if self.is_measured { "in use when memory ran out" } else { "in use at the planned peak" };
        writeln!(f, "\n{when}: {}", self.in_use.total())?;
        let known = self.in_use.iter().filter(|(_, bytes)| *bytes > Bytes::default());
        let known: Vec<_> =
            known.map(|(category, bytes)| [category.to_string(), bytes.to_string()]).collect();
        rows(f, &known, [false, true])?;
        if self.unplanned_bytes > Bytes::default() {
            writeln!(
                f,
                "{} of it is not in the plan: tensors that other code keeps alive, or a leak (`oomph profile` shows \
                 them)",
                self.unplanned_bytes
            )?;
        }
        writeln!(f, "\nlargest blocks:")?;
        let holders = self.holders.iter();
        let holders = holders.map(|holder| {
            [holder.size(), holder.category.to_string(), printable(holder.what()), printable(holder.place())]
        });
        rows(f, &holders.collect::<Vec<_>>(), [true, false, false, false])
    }

    fn around(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let around = &self.process_memory;
        let mut facts = Vec::new();
        if let Some((reserved, unused)) = around.reserved_bytes.zip(around.fragmentation_bytes) {
            facts.push(format!("this process has reserved {reserved}, {unused} of it not in use"));
        }
        if let Some(others) = around.others_bytes {
            let named: Vec<_> = around.others.iter().map(OtherProcess::to_string).collect();
            let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
            facts.push(format!("other processes use {others}{named}"));
        }
        if let Some((free, total)) = around.free_bytes.zip(around.total_bytes) {
            facts.push(format!("{free} of {total} is free"));
        }
        if facts.is_empty() {
            return Ok(());
        }
        writeln!(f, "\non the device:")?;
        facts.iter().try_for_each(|fact| writeln!(f, "  {fact}"))
    }

    fn advised(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.least.as_ref().is_some_and(|least| least.settings.is_empty()) {
            return writeln!(f, "\nno setting lowers the planned peak");
        }
        if let Some(least) = &self.least {
            writeln!(f, "\nno setting makes it fit; the lowest planned peak:")?;
            return writeln!(f, "  {}  planned peak {}", printable(least.typed()), least.planned_peak_bytes);
        }
        if self.levers.is_empty() {
            return self.too_large_parameters().map_or(Ok(()), |parameters| {
                writeln!(f, "\nno setting makes it fit: the parameters alone take {parameters}")
            });
        }
        let (keeping, changing): (Vec<_>, Vec<_>) =
            self.levers.iter().partition(|advice| advice.keeps_mathematics);
        let cells = |advice: &&Advice| {
            let peak = format!("planned peak {}", advice.planned_peak_bytes);
            [printable(advice.typed()), peak, advice.time(), advice.about.clone()]
        };
        for (training, advice) in [("the same", keeping), ("a different", changing)] {
            if !advice.is_empty() {
                writeln!(f, "\nto make it fit with {training} training:")?;
                rows(f, &advice.iter().map(cells).collect::<Vec<_>>(), [false; 4])?;
            }
        }
        Ok(())
    }
}

impl Advice {
    /// `about the same time`, `+12 % time`.
    pub fn time(&self) -> String {
        let percent = (self.slowdown * 100.0).round();
        if percent.abs() < 3.0 {
            "about the same time".into()
        } else {
            format!("{percent:+.0} % time").replace('-', "−")
        }
    }
}

/// Writes indented rows. Each column is as wide as its widest cell; `right` says which columns are right-aligned.
fn rows<const N: usize>(f: &mut Formatter<'_>, rows: &[[String; N]], right: [bool; N]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            if right[column] { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        });
        writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

impl Display for Kept {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::LastStep { step, checkpoint } => {
                write!(
                    f,
                    "step {step}, the last finished step, is saved in {}",
                    printable(checkpoint.display())
                )
            }
            Self::Before { step, checkpoint, reason } => {
                let (reason, checkpoint) = (printable(reason), printable(checkpoint.display()));
                write!(f, "{reason}; the newest checkpoint is that of step {step}, {checkpoint}")
            }
            Self::Nothing { reason } => write!(f, "{}; there is no checkpoint", printable(reason)),
        }
    }
}

/// `python train.py, process 4242: 1.10 GiB`.
impl Display for OtherProcess {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = printable(&self.command);
        let command = if shown.is_empty() { shown } else { format!("{shown}, ") };
        write!(f, "{command}process {}: {}", self.pid, self.bytes)
    }
}

impl OutOfMemory {
    /// A command or a setting that may fix the error.
    pub fn hint(&self) -> Option<String> {
        let Some(report) = self.report.as_deref() else {
            let hint = "lower `memory.micro_batch`, which keeps the batch; `oomph plan` shows which plans fit, `oomph \
                        monitor` which process holds memory";
            return Some(hint.to_owned());
        };
        // The report says what it saves and what it changes.
        let first = report.levers.first().map(|advice| advice.typed());
        let fits = first.map(|flags| format!("add `{flags}` to the command"));
        fits.or_else(|| {
            if report.unplanned_bytes > Bytes::default() {
                return Some("`oomph profile` shows the memory that is not in the plan".to_owned());
            }
            // Keep 1 % free for the planner's error.
            let without_levers = report.too_large_parameters().map(|_| report.planned_peak_bytes);
            let needed = report.least.as_ref().map(|least| least.planned_peak_bytes).or(without_levers)?;
            let needed = Bytes::new((needed.get() as f64 * 1.01).ceil() as u64);
            Some(format!("use a device with at least {needed}, a smaller model or smaller samples"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_in_time_are_not_shown() {
        let of = |slowdown| {
            let advice = Advice {
                levers: Vec::new(),
                settings: vec![("memory.micro_batch".into(), "8".into())],
                changes: Vec::new(),
                planned_peak_bytes: Bytes::mib(1),
                slowdown,
                keeps_mathematics: true,
                about: String::new(),
            };
            assert_eq!(advice.flags(), ["--set", "memory.micro_batch=8"]);
            advice.time()
        };
        assert_eq!([of(0.02), of(0.124), of(-0.1)], ["about the same time", "+12 % time", "−10 % time"]);
    }

    #[test]
    fn another_process_shows_its_command_and_its_bytes() {
        let of = |command: &str| {
            OtherProcess { pid: 7, command: command.into(), bytes: Bytes::mib(3) }.to_string()
        };
        assert_eq!(of(""), "process 7: 3.00 MiB");
        assert_eq!(of("python \u{1b}[31m"), "python \\u{1b}[31m, process 7: 3.00 MiB");
    }
}
