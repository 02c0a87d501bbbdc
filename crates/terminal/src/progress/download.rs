use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;
use oomph_core::{Bytes, grouped, printable};
use oomph_data::OpenEvent;

use super::{Style, bars::bar_style};
use crate::notices::Notices;

/// The progress of downloads and of encoding texts: a bar on a terminal, else a line at the start and at the end.
pub struct DownloadBar {
    style: Style,
    /// The URL of the current download, and its bar.
    current: Mutex<Option<(String, ProgressBar)>>,
}

impl DownloadBar {
    /// Nothing is drawn yet.
    pub fn new(style: Style) -> Self {
        Self { style, current: Mutex::default() }
    }

    /// Shows an event of the opening of data.
    pub fn show(&self, event: &OpenEvent<'_>) {
        if !self.style.is_verbose() {
            return;
        }
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match *event {
            OpenEvent::Downloading { url, done, total } => {
                if current.as_ref().is_none_or(|(known, _)| known != url) {
                    Self::clear(&mut current);
                    *current = Some((url.to_owned(), self.start(url, done, total)));
                }
                if let Some((_, bar)) = &*current {
                    bar.set_position(done);
                }
            }
            OpenEvent::Downloaded { bytes, path, .. } => {
                Self::clear(&mut current);
                Notices::default().line(format!(
                    "downloaded {} to {}",
                    Bytes::new(bytes),
                    printable(path.display())
                ));
            }
            OpenEvent::Unpacking { archive } => {
                Self::clear(&mut current);
                Notices::default().line(format!("unpacking {}", printable(archive.display())));
            }
            OpenEvent::Encoding { text, bytes } => {
                let (text, bytes) = (printable(text.display()), Bytes::new(bytes));
                Notices::default().line(format!("encoding {text} ({bytes}) to tokens"));
            }
            OpenEvent::Encoded { tokens, path } => {
                let (tokens, path) = (grouped(tokens), printable(path.display()));
                Notices::default().line(format!("encoded {tokens} tokens, kept in {path}"));
            }
        }
    }

    /// Draws a bar; or writes a line and returns a hidden bar.
    fn start(&self, url: &str, done: u64, total: u64) -> ProgressBar {
        if self.style == Style::Bars {
            let bar = ProgressBar::new(total).with_position(done).with_style(bar_style(BAR));
            bar.reset_eta();
            return bar.with_prefix(printable(url.rsplit('/').next().unwrap_or(url)));
        }
        let rest = match done {
            0 => String::new(),
            done => format!(", {} already downloaded", Bytes::new(done)),
        };
        Notices::default().line(format!("downloading {} ({}{rest})", printable(url), Bytes::new(total)));
        ProgressBar::hidden()
    }

    fn clear(current: &mut Option<(String, ProgressBar)>) {
        if let Some((_, bar)) = current.take() {
            bar.finish_and_clear();
        }
    }
}

/// Erases the bar, also after an error.
impl Drop for DownloadBar {
    fn drop(&mut self) {
        Self::clear(self.current.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

const BAR: &str =
    "{prefix:.bold} {wide_bar:.cyan/dim} {bytes:>10}/{total_bytes}  {binary_bytes_per_sec}  {eta} left";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use indicatif::ProgressStyle;

    use super::*;

    #[test]
    fn the_template_is_understood() {
        assert!(ProgressStyle::with_template(BAR).is_ok());
    }

    #[test]
    fn a_bar_lasts_from_the_first_to_the_last_byte() {
        for style in [Style::Bars, Style::Lines] {
            let shown = DownloadBar::new(style);
            let length = || shown.current.lock().expect("no panic").as_ref().map(|(url, _)| url.len());
            for (url, done) in [("http://x/a", 0), ("http://x/a", 7), ("http://x/other", 3)] {
                shown.show(&OpenEvent::Downloading { url, done, total: 10 });
                assert_eq!(length(), Some(url.len()));
            }
            shown.show(&OpenEvent::Downloaded { url: "http://x/other", bytes: 10, path: Path::new("other") });
            assert_eq!(length(), None);
        }
    }

    #[test]
    fn quiet_and_json_show_no_downloads() {
        for style in [Style::Json, Style::QuietJson, Style::Quiet] {
            let shown = DownloadBar::new(style);
            shown.show(&OpenEvent::Downloading { url: "http://x/a", done: 0, total: 10 });
            assert!(shown.current.lock().expect("no panic").is_none());
        }
    }
}
