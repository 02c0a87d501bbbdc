//! A report as people read it.

use std::fmt::{self, Display, Formatter};

use oomph_core::Bytes;

use super::{Advice, Kept, OtherProcess, OutOfMemory, OutOfMemoryReport};

impl Display for OutOfMemoryReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.held(f)?;
        self.around(f)?;
        if let Some(kept) = &self.kept {
            writeln!(f, "\n{kept}")?;
            if let (Some(run), false) = (&self.run_dir, matches!(kept, Kept::Nothing { .. })) {
                writeln!(f, "`oomph train --resume {}` with one of the flags below goes on", run.display())?;
            }
        }
        self.advised(f)?;
        if let Some(files) = &self.files {
            let directory = files.text.parent().unwrap_or(&files.text).display();
            let and_what = match (&files.timeline, self.is_measured) {
                (None, _) => " is",
                (Some(_), true) => " and the timeline up to then are",
                (Some(_), false) => " and the planned timeline are",
            };
            writeln!(f, "\nthis report{and_what} in {directory}")?;
        }
        match &self.not_written {
            Some(reason) => writeln!(f, "\n{reason}"),
            None => Ok(()),
        }
    }
}

impl OutOfMemoryReport {
    fn head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let limit = self.limit_bytes.map(|limit| format!(" with {limit}")).unwrap_or_default();
        writeln!(f, "{} · {}{limit} · planned peak {}", self.title, self.device, self.planned_peak_bytes)
    }

    fn held(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let when = if self.is_measured { "in use then" } else { "in use at the planned peak" };
        writeln!(f, "\n{when}: {}", self.in_use.total())?;
        let known = self.in_use.iter().filter(|(_, bytes)| *bytes > Bytes::default());
        let known: Vec<_> =
            known.map(|(category, bytes)| [category.to_string(), bytes.to_string()]).collect();
        rows(f, &known, [false, true])?;
        if self.unplanned_bytes > Bytes::default() {
            writeln!(
                f,
                "of it {} that the plan does not know: a tensor that something keeps, or memory that is never given \
                 back (`oomph profile` shows which)",
                self.unplanned_bytes
            )?;
        }
        writeln!(f, "\nthe largest:")?;
        let holders = self.holders.iter();
        let holders =
            holders.map(|holder| [holder.size(), holder.category.to_string(), holder.what(), holder.place()]);
        rows(f, &holders.collect::<Vec<_>>(), [true, false, false, false])
    }

    fn around(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let around = &self.surroundings;
        let mut facts = Vec::new();
        if let Some((reserved, unused)) = around.reserved_bytes.zip(around.fragmentation_bytes) {
            facts.push(format!("this process has {reserved} reserved, {unused} of it not in use"));
        }
        if let Some(others) = around.others_bytes {
            let named: Vec<_> = around.others.iter().map(OtherProcess::to_string).collect();
            let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
            facts.push(format!("other processes hold {others}{named}"));
        }
        if let Some((free, total)) = around.free_bytes.zip(around.total_bytes) {
            facts.push(format!("{free} of {total} are free"));
        }
        if facts.is_empty() {
            return Ok(());
        }
        writeln!(f, "\naround it:")?;
        facts.iter().try_for_each(|fact| writeln!(f, "  {fact}"))
    }

    fn advised(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.least.as_ref().is_some_and(|least| least.settings.is_empty()) {
            return writeln!(f, "\nthere is nothing to change that would need less");
        }
        if let Some(least) = &self.least {
            writeln!(f, "\nnothing that can be changed makes it fit; what needs least:")?;
            return writeln!(f, "  {}  planned peak {}", least.flags().join(" "), least.planned_peak_bytes);
        }
        if self.levers.is_empty() {
            return Ok(());
        }
        let (keeping, changing): (Vec<_>, Vec<_>) =
            self.levers.iter().partition(|advice| advice.keeps_mathematics);
        if !keeping.is_empty() {
            writeln!(f, "\nto make it fit:")?;
            advice_rows(f, keeping)?;
        }
        if !changing.is_empty() {
            writeln!(f, "\nto make it fit by training something else:")?;
            advice_rows(f, changing)?;
        }
        Ok(())
    }
}

fn advice_rows<'a>(f: &mut Formatter<'_>, advice: impl IntoIterator<Item = &'a Advice>) -> fmt::Result {
    let cells = advice.into_iter().map(|advice| {
        let peak = format!("planned peak {}", advice.planned_peak_bytes);
        [advice.flags().join(" "), peak, advice.time(), advice.about.clone()]
    });
    rows(f, &cells.collect::<Vec<_>>(), [false; 4])
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

/// Rows of cells, indented, each column as wide as its widest cell; `right` says which go to the right.
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
                    "the state of step {step}, the last one that was finished, is saved in {}",
                    checkpoint.display()
                )
            }
            Self::Before { step, checkpoint, reason } => {
                write!(f, "{reason}: the checkpoint of step {step} counts, {}", checkpoint.display())
            }
            Self::Nothing { reason } => write!(f, "{reason}: no state is saved"),
        }
    }
}

/// `python train.py, process 4242: 1.10 GiB`.
impl Display for OtherProcess {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown: String =
            self.command.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let command = if shown.is_empty() { shown } else { format!("{shown}, ") };
        write!(f, "{command}process {}: {}", self.pid, self.bytes)
    }
}

impl OutOfMemory {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        let report = self.report.as_deref()?;
        let first = report.levers.first();
        let fits = first.map(|advice| {
            let Advice { planned_peak_bytes, about, .. } = advice;
            format!(
                "`{}`: planned peak {planned_peak_bytes}, {}; {about}",
                advice.flags().join(" "),
                advice.time()
            )
        });
        fits.or_else(|| {
            if report.unplanned_bytes > Bytes::default() {
                return Some("`oomph profile` shows who holds what the plan does not know".to_owned());
            }
            // With the margin that plans have.
            let needed = report.least.as_ref()?.planned_peak_bytes;
            let needed = Bytes::new((needed.get() as f64 * 1.01).ceil() as u64);
            Some(format!("it needs a device with at least {needed}, or a smaller model or smaller samples"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_where_they_matter() {
        let of = |slowdown| {
            let advice = Advice {
                levers: Vec::new(),
                settings: vec![("memory.micro_batch".into(), "8".into())],
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
    fn another_process_is_named_as_far_as_it_is_known() {
        let of = |command: &str| {
            OtherProcess { pid: 7, command: command.into(), bytes: Bytes::mib(3) }.to_string()
        };
        assert_eq!(of(""), "process 7: 3.00 MiB");
        assert_eq!(of("python \u{1b}[31m"), "python \u{fffd}[31m, process 7: 3.00 MiB");
    }
}
