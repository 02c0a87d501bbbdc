//! The head of the page: plain markup, readable without scripts.

use std::io::{self, Write};

use oomph_timeline::export::{
    document::Text,
    figures::{counted, duration, number},
};

use crate::study::{Goal, StudyPage, TrialStatus};

/// Title and figures.
pub(crate) fn head(page: &StudyPage, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<div class=\"headline\"><h1>{}</h1>", Text(&page.name))?;
    let goal = match page.goal {
        Goal::Minimize => "minimizes",
        Goal::Maximize => "maximizes",
    };
    let parameters = counted(page.parameters.len(), "parameter", "parameters");
    let made = if page.made.is_empty() { String::new() } else { format!(" · made {}", page.made) };
    let [metric, made] = [Text(&page.metric), Text(&made)];
    writeln!(out, "<p><span class=\"tag\">{goal}</span> <b>{metric}</b> over {parameters}{made}</p></div>")?;
    writeln!(out, "<dl>")?;
    let mut figure = |name: &str, value: &str, aside: &str| {
        let (name, value, aside) = (Text(name), Text(value), Text(aside));
        writeln!(out, "<div><dt>{name}</dt><dd>{value} <small>{aside}</small></dd></div>")
    };
    let best = page.best().and_then(|index| page.trials.get(index));
    if let Some((trial, value)) = best.and_then(|trial| Some((trial, trial.value?))) {
        figure(&format!("best {}", page.metric), &number(value), &format!("trial {}", trial.number))?;
    }
    let complete = page.count(TrialStatus::Complete);
    figure("trials", &page.trials.len().to_string(), &format!("{complete} complete"))?;
    let seconds: f64 = page.trials.iter().filter_map(|trial| trial.seconds).filter(|it| it.is_finite()).sum();
    if seconds > 0.0 {
        figure("time of all trials", &duration(seconds), "")?;
    }
    if let Some(limit) = page.limit_bytes {
        figure("limit", &limit.to_string(), "per trial")?;
    }
    writeln!(out, "</dl>")
}

/// A button for each status that occurs.
pub(crate) fn statuses(page: &StudyPage, out: &mut dyn Write) -> io::Result<()> {
    for status in TrialStatus::ALL {
        let (count, name) = (page.count(status), status.name());
        if count > 0 {
            write!(
                out,
                "<button type=\"button\" class=\"chip\" aria-pressed=\"true\" data-status=\"{}\">",
                status.index()
            )?;
            writeln!(out, "<i class=\"swatch s-{name}\"></i><b>{count}</b> {name}</button>")?;
        }
    }
    Ok(())
}
