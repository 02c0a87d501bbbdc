//! The head of a timeline's page: plain markup, readable without scripts.

use std::io::{self, Write};

use oomph_core::Bytes;

use super::{
    document::Text,
    page::{Page, PageDevice},
};
use crate::timeline::{Clock, Origin, Timeline};

/// The name of a timeline's peak. Plans and measurements never share one.
pub(super) fn peak_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Planned => "planned peak",
        Origin::Measured => "peak in use",
    }
}

fn peak_bytes(timeline: &Timeline) -> Bytes {
    timeline.peak().categories.total()
}

/// `+3.1 %` if the plan is above the measurement; `None` if nothing was measured.
pub(super) fn error_percent(planned: Bytes, measured: Bytes) -> Option<String> {
    let measured = measured.get() as f64;
    let percent = (planned.get() as f64 - measured) / measured * 100.0;
    if !percent.is_finite() {
        return None;
    }
    let text = format!("{percent:+.1} %").replace('-', "−");
    // Zero has no sign.
    Some(if text == "+0.0 %" || text == "−0.0 %" { "0.0 %".into() } else { text })
}

/// `12 %` of the limit.
fn share_percent(part: Bytes, whole: Bytes) -> Option<String> {
    let percent = part.get() as f64 / whole.get() as f64 * 100.0;
    percent.is_finite().then(|| format!("{percent:.0} %"))
}

/// Title, figures and notes.
pub(super) fn header(page: &Page<'_>, out: &mut dyn Write) -> io::Result<()> {
    let PageDevice { timeline, overlay } = page.devices[0];
    let verb = match timeline.origin {
        Origin::Planned => "planned",
        Origin::Measured => "measured",
    };
    writeln!(out, "<div class=\"headline\"><h1>{}</h1>", Text(&timeline.title))?;
    let names: Vec<_> = page.devices.iter().map(|device| device.timeline.device.as_str()).collect();
    writeln!(out, "<p><span class=\"tag\">{verb}</span> {}</p></div>", Text(&names.join(", ")))?;
    match page.devices.len() == 1 {
        true => figures(timeline, overlay, out)?,
        false => devices_table(page, out)?,
    }
    if timeline.lost_events > 0 {
        let lost = timeline.lost_events;
        let says =
            "older events were overwritten: blocks allocated by them appear as present from the start.";
        writeln!(out, "<p class=\"note warning\">{lost} {says}</p>")?;
    }
    note(timeline, overlay).map_or(Ok(()), |note| writeln!(out, "<p class=\"note\">{note}</p>"))
}

fn figures(timeline: &Timeline, overlay: Option<&Timeline>, out: &mut dyn Write) -> io::Result<()> {
    let peak = peak_bytes(timeline);
    writeln!(out, "<dl>")?;
    let mut figure = |name: &str, value: &str, aside: &str| {
        let (name, value, aside) = (Text(name), Text(value), Text(aside));
        writeln!(out, "<div><dt>{name}</dt><dd>{value} <small>{aside}</small></dd></div>")
    };
    let of_limit = timeline.limit_bytes.and_then(|limit| share_percent(peak, limit));
    let aside = of_limit.map(|share| format!("{share} of the limit")).unwrap_or_default();
    figure(peak_name(timeline.origin), &peak.to_string(), &aside)?;
    if let Some(reserved) = timeline.reserved_peak() {
        figure("planned reserved", &reserved.to_string(), "by the GPU's memory pools")?;
    }
    if let Some(overlay) = overlay {
        let planned = peak_bytes(overlay);
        figure(peak_name(overlay.origin), &planned.to_string(), "")?;
        let is_plan = (overlay.origin, timeline.origin) == (Origin::Planned, Origin::Measured);
        if let Some(error) = error_percent(planned, peak).filter(|_| is_plan) {
            figure("error of the plan", &error, "at the peak")?;
        }
    }
    if let Some(limit) = timeline.limit_bytes {
        let over = peak.get().checked_sub(limit.get()).filter(|&over| over > 0);
        let aside = over.map(|over| format!("exceeded by {}", Bytes::new(over))).unwrap_or_default();
        figure("limit", &limit.to_string(), &aside)?;
    }
    writeln!(out, "</dl>")
}

/// The figures of several devices, one row each.
fn devices_table(page: &Page<'_>, out: &mut dyn Write) -> io::Result<()> {
    let has_tracks = page.devices.iter().any(|device| device.timeline.track_times().is_some());
    let peak = peak_name(page.devices[0].timeline.origin);
    let overlaid = page.devices.iter().find_map(|device| device.overlay).map(|plan| peak_name(plan.origin));
    let track_names: &[&str] = if has_tracks { &["busy", "communication", "idle"] } else { &[] };
    let names = ["device", peak].into_iter().chain(overlaid).chain(track_names.iter().copied());
    write!(out, "<div class=\"scroll\"><table class=\"figures-table\"><thead><tr>")?;
    names.into_iter().try_for_each(|name| write!(out, "<th scope=\"col\">{name}</th>"))?;
    writeln!(out, "</tr></thead><tbody>")?;
    for &PageDevice { timeline, overlay } in &page.devices {
        write!(out, "<tr><th scope=\"row\">{}</th>", Text(&timeline.device))?;
        write!(out, "<td>{}</td>", peak_bytes(timeline))?;
        if overlaid.is_some() {
            let planned = overlay.map(peak_bytes);
            let error = planned.and_then(|planned| error_percent(planned, peak_bytes(timeline)));
            let planned = planned.map(|bytes| bytes.to_string()).unwrap_or_default();
            write!(out, "<td>{planned} <small>{}</small></td>", error.unwrap_or_default())?;
        }
        if has_tracks {
            let times = timeline.track_times().unwrap_or_default();
            for share in [times.busy, times.communication, times.idle].map(|time| times.share(time)) {
                write!(out, "<td>{:.1} %</td>", share * 100.0)?;
            }
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

/// The meaning of the horizontal axis, if it is not plain time.
fn note(timeline: &Timeline, overlay: Option<&Timeline>) -> Option<&'static str> {
    if timeline.clock == Clock::Operations {
        return Some("A plan has no time: the horizontal axis counts tensor operations.");
    }
    overlay.filter(|overlay| overlay.clock == Clock::Operations).map(|_| {
        "The dashed line is the plan. Its operations are stretched so that steps, phases and stages match the measured ones."
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::sample;

    fn text(timeline: &Timeline, overlay: Option<&Timeline>) -> String {
        let mut out = Vec::new();
        let page = Page::new(timeline);
        header(&overlay.map_or(page.clone(), |plan| page.with_overlay(plan)), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_plan_and_a_measurement_never_share_a_name() {
        let (planned, measured) = (sample::step(Origin::Planned), sample::step(Origin::Measured));
        let plan = text(&planned, None);
        assert!(plan.contains("planned peak") && !plan.contains("peak in use"), "{plan}");
        let measurement = text(&measured, None);
        assert!(
            measurement.contains("peak in use") && !measurement.contains("planned peak"),
            "{measurement}"
        );
        let both = text(&measured, Some(&planned));
        assert!(
            both.contains("planned peak") && both.contains("peak in use") && both.contains("0.0 %"),
            "{both}"
        );
    }

    #[test]
    fn lost_events_and_an_exceeded_limit_are_reported() {
        let mut timeline = sample::step(Origin::Measured);
        timeline.lost_events = 17;
        timeline.limit_bytes = Some(Bytes::new(1024));
        let text = text(&timeline, None);
        assert!(text.contains("17 older events") && text.contains("exceeded by 2.50 KiB"), "{text}");
    }

    #[test]
    fn an_error_has_a_sign_and_needs_a_measurement() {
        assert_eq!(error_percent(Bytes::new(103), Bytes::new(100)).as_deref(), Some("+3.0 %"));
        assert_eq!(error_percent(Bytes::new(90), Bytes::new(100)).as_deref(), Some("−10.0 %"));
        assert_eq!(error_percent(Bytes::new(100_000), Bytes::new(100_001)).as_deref(), Some("0.0 %"));
        assert_eq!(error_percent(Bytes::new(0), Bytes::new(0)), None);
    }
}
