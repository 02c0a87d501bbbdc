//! The curve of a learning-rate range test, as an SVG picture.

use std::fmt::Write as _;

use oomph_trainer::lr_range::LrPoint;

use crate::numbers::decimal;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = HEIGHT - 52.0;

/// The loss over the learning rate, on a logarithmic scale, with the suggested rate marked.
pub fn lr_chart(points: &[LrPoint], suggested: Option<f64>) -> String {
    let axes = Axes::of(points);
    let line = |of: fn(&LrPoint) -> f64| {
        let at = |point: &LrPoint| format!("{:.1},{:.1}", axes.x(point.lr), axes.y(of(point)));
        points.iter().map(at).collect::<Vec<_>>().join(" ")
    };
    let [loss, smoothed] = [line(|point| point.loss), line(|point| point.smoothed)];
    let mark = suggested.map(|lr| axes.mark(lr)).unwrap_or_default();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\" font-weight=\"600\">Loss over learning rate</text>\n\
         {}<polyline points=\"{loss}\" fill=\"none\" stroke=\"#b8cce4\"/>\n\
         <polyline points=\"{smoothed}\" fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\"/>\n{mark}\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">learning rate</text>\n</svg>\n",
        axes.grid(),
        (LEFT + RIGHT) / 2.0,
        HEIGHT - 12.0
    )
}

/// The ranges of both axes.
struct Axes {
    /// Powers of ten of the rates.
    powers: [f64; 2],
    losses: [f64; 2],
}

impl Axes {
    fn of(points: &[LrPoint]) -> Self {
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], it| [low.min(it), high.max(it)])
        };
        let [least, most] = range(&mut points.iter().flat_map(|point| [point.loss, point.smoothed]));
        // The end of a test diverges, and would flatten all that comes before.
        let start = points.first().map_or(1.0, |point| point.smoothed);
        let shown = least + 1.6 * (start - least).max(start * 0.1);
        Self {
            powers: range(&mut points.iter().map(|point| point.lr.log10())),
            losses: [least, most.min(shown)],
        }
    }

    fn x(&self, lr: f64) -> f64 {
        let [low, high] = self.powers;
        LEFT + (lr.log10() - low) / (high - low).max(1e-9) * (RIGHT - LEFT)
    }

    fn y(&self, loss: f64) -> f64 {
        let [low, high] = self.losses;
        BOTTOM - ((loss - low) / (high - low).max(1e-12)).clamp(0.0, 1.0) * (BOTTOM - TOP)
    }

    /// Lines at powers of ten and at five losses.
    fn grid(&self) -> String {
        let mut svg = String::new();
        let [low, high] = self.powers;
        for power in low.ceil() as i32..=high.floor() as i32 {
            let at = self.x(10f64.powi(power));
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{BOTTOM}\" stroke=\"#e5e5e5\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">1e{power}</text>",
                BOTTOM + 18.0
            );
        }
        let [least, most] = self.losses;
        for step in 0..=4 {
            let loss = least + (most - least) * f64::from(step) / 4.0;
            let at = self.y(loss);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" stroke=\"#f0f0f0\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                decimal(loss)
            );
        }
        svg
    }

    /// The suggested rate.
    fn mark(&self, lr: f64) -> String {
        let at = self.x(lr);
        format!(
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{BOTTOM}\" stroke=\"#c0392b\" stroke-dasharray=\"5 3\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#c0392b\">suggested {lr:.1e}</text>\n",
            TOP - 6.0
        )
    }
}
