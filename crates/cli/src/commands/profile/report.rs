//! The text of a profile.

use oomph_core::Bytes;
use oomph_timeline::Category;

use super::findings::{Findings, Training, difference};
use crate::{
    numbers::{grouped, percent, plural},
    table::{
        Column::{Left, Right},
        Table, pairs,
    },
};

pub(super) fn report(findings: &Findings<'_>) -> String {
    let several = (findings.devices.len() > 1).then(|| devices(findings));
    let sections = [head(findings)].into_iter().chain(several);
    let sections = sections.chain([categories(findings), phases(findings)]);
    // With several devices the table of devices has the times.
    let one = findings.devices.len() == 1 && !findings.times.is_empty();
    let sections = sections.chain(one.then(|| times(findings))).chain([largest(findings), files(findings)]);
    sections.collect::<Vec<_>>().join("\n")
}

fn head(findings: &Findings<'_>) -> String {
    let Training { model, batch, micro_batch } = findings.training;
    let limit_bytes = findings.recording.limit_bytes;
    let host = Some(findings.recording.host_bytes.to_string());
    let micro_batches =
        (micro_batch < batch).then(|| format!(" in micro-batches of {}", grouped(micro_batch)));
    let micro_batches = micro_batches.unwrap_or_default();
    let count = findings.step_seconds.len();
    let time =
        median(findings.step_seconds).map(|seconds| format!(", {} each (median)", milliseconds(seconds)));
    let steps = format!(
        "{} after {}{}",
        grouped(count),
        plural(findings.warmup, "warm-up step"),
        time.unwrap_or_default()
    );
    let limit = limit_bytes.map(|limit| format!(" of {limit}"));
    if findings.devices.len() > 1 {
        let strategy = findings.strategy.unwrap_or_default();
        let each = limit_bytes.map(|limit| format!(" with {limit} each")).unwrap_or_default();
        return pairs([
            ("model", Some(format!("{model}, batch {}{micro_batches}", grouped(batch)))),
            ("devices", Some(format!("{}, {strategy}{each}", findings.devices.len()))),
            ("steps", Some(steps)),
            ("host", host),
        ]);
    }
    let peak = &findings.peak;
    pairs([
        ("model", Some(format!("{model}, batch {}{micro_batches}", grouped(batch)))),
        ("device", Some(findings.device.to_owned())),
        ("steps", Some(steps)),
        ("planned peak", Some(format!("{} ({})", peak.planned_peak_bytes, signed(peak.relative_error)))),
        ("peak in use", Some(format!("{}{}", peak.peak_in_use_bytes, limit.unwrap_or_default()))),
        ("host", host),
    ])
}

/// The peak and the activity of each device.
fn devices(findings: &Findings<'_>) -> String {
    let mut table = Table::new([
        Left("device"),
        Left("stages"),
        Right("planned peak"),
        Right("peak in use"),
        Right("difference"),
        Right("busy"),
        Right("communication"),
        Right("idle"),
    ]);
    for device in &findings.devices {
        let share = |share: Option<f64>| share.map(percent).unwrap_or_default();
        table.row([
            device.device.to_owned(),
            device.stages.map(|[first, last]| format!("{first} … {last}")).unwrap_or_default(),
            device.peak.planned_peak_bytes.to_string(),
            device.peak.peak_in_use_bytes.to_string(),
            signed(device.peak.relative_error),
            share(device.busy_share),
            share(device.communication_share),
            share(device.idle_share),
        ]);
    }
    let note = format!("the rest shows device {}, which has the highest peak in use", findings.device);
    format!("{}{note}\n", table.without_empty_columns())
}

/// The categories at the planned and at the measured peak.
fn categories(findings: &Findings<'_>) -> String {
    let mut table =
        Table::new([Left("at the peak"), Right("planned"), Right("measured"), Right("difference")]);
    let (planned, measured) = (&findings.categories.planned, &findings.categories.measured);
    for category in Category::ALL {
        let (planned, measured) = (planned.of(category), measured.of(category));
        if (planned, measured) != (Bytes::default(), Bytes::default()) {
            table.row([category.to_string(), amount(planned), amount(measured), more(planned, measured)]);
        }
    }
    table.rule();
    let (planned, measured) = (planned.total(), measured.total());
    table.strong(["total".into(), amount(planned), amount(measured), more(planned, measured)]);
    table.to_string()
}

fn phases(findings: &Findings<'_>) -> String {
    let mut table = Table::new([Left("peak in"), Right("planned"), Right("measured"), Right("difference")]);
    for phase in &findings.phases {
        let (planned, measured) = (phase.planned_peak_bytes, phase.peak_in_use_bytes);
        // A phase without a plan, such as building the model, has no error.
        let none = planned == measured || planned == Bytes::default();
        let error = if none { "–".into() } else { signed(difference(planned, measured)) };
        table.row([phase.phase.to_string(), amount(planned), amount(measured), error]);
    }
    table.to_string()
}

/// The time of a step by activity.
fn times(findings: &Findings<'_>) -> String {
    let mut table = Table::new([Left("time in"), Right("each step"), Right("share")]);
    for time in &findings.times {
        table.row([time.kind.to_string(), milliseconds(time.seconds), percent(time.share)]);
    }
    table.to_string()
}

fn largest(findings: &Findings<'_>) -> String {
    let mut table = Table::new([Right("largest"), Left("for"), Left("tensor"), Left("made in")]);
    for holder in &findings.largest {
        table.row([holder.size(), holder.category.to_string(), holder.what(), holder.place()]);
    }
    table.to_string()
}

fn files(findings: &Findings<'_>) -> String {
    let files = findings.files;
    let named = [
        ("page", &files.timeline),
        ("picture", &files.svg),
        ("PyTorch memory snapshot", &files.snapshot),
        ("Perfetto trace", &files.trace),
        ("JSON lines", &files.events),
    ];
    pairs(named.map(|(name, path)| (name, path.as_ref().map(|path| path.display().to_string()))))
}

fn amount(bytes: Bytes) -> String {
    if bytes == Bytes::default() { "–".into() } else { bytes.to_string() }
}

/// Planned minus measured bytes: `+1.50 KiB`, `−40 B`, `–`.
fn more(planned: Bytes, measured: Bytes) -> String {
    let bytes = Bytes::new(planned.get().abs_diff(measured.get()));
    match planned.cmp(&measured) {
        std::cmp::Ordering::Less => format!("−{bytes}"),
        std::cmp::Ordering::Equal => "–".into(),
        std::cmp::Ordering::Greater => format!("+{bytes}"),
    }
}

/// A signed percentage in the format of the page: `+3.1 %`.
fn signed(share: f64) -> String {
    let text = format!("{:+.1} %", share * 100.0).replace('-', "−");
    // Zero has no sign.
    if text == "+0.0 %" || text == "−0.0 %" { "0.0 %".into() } else { text }
}

/// The median; the mean of the two middle values if their number is even.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted[low] + sorted[high]) / 2.0)
}

/// `41.2 ms`, `1.30 s`, `27 µs`.
fn milliseconds(seconds: f64) -> String {
    match seconds {
        long if long >= 0.9995 => format!("{long:.2} s"),
        short if short >= 0.09995 => format!("{:.0} ms", short * 1e3),
        shorter if shorter >= 0.9995e-3 => format!("{:.1} ms", shorter * 1e3),
        least => format!("{:.0} µs", least * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn differences_have_a_sign_and_zero_has_none() {
        let bytes = Bytes::new;
        assert_eq!(more(bytes(2048), bytes(1024)), "+1.00 KiB");
        assert_eq!(more(bytes(10), bytes(30)), "−20 B");
        assert_eq!(more(bytes(7), bytes(7)), "–");
        assert_eq!(
            (signed(0.031), signed(-0.2), signed(-1e-9)),
            ("+3.1 %".into(), "−20.0 %".into(), "0.0 %".into())
        );
    }

    #[test]
    fn step_times_have_three_digits() {
        assert_eq!(
            [0.000_027, 0.0412, 0.41, 1.3].map(milliseconds),
            ["27 µs", "41.2 ms", "410 ms", "1.30 s"].map(String::from)
        );
    }
}
