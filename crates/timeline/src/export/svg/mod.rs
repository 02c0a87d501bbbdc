//! A timeline as a picture: stacked areas by category.

mod colors;
mod curve;
mod scale;

use std::io::{self, BufWriter, Write};

use oomph_core::Bytes;

use self::{
    colors::style,
    curve::{Curve, number},
    scale::Scale,
};
use super::{columns::end_time, document::Text, header::peak_name};
use crate::{
    category::Category,
    span::{Span, SpanKind},
    timeline::{Clock, Peak, Timeline},
};

const WIDTH: f64 = 960.0;
/// The edges of the plot.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 932.0;
const TOP: f64 = 78.0;
const BOTTOM: f64 = 352.0;
/// The height of a row of steps or phases below the plot.
const ROW: f64 = 20.0;
/// The height of a row of the legend.
const LEGEND_ROW: f64 = 22.0;
/// The width of the words before the legend.
const AT_THE_PEAK: f64 = 92.0;
/// A limit is drawn if it is at most this multiple of the peak; a higher one would flatten the areas.
const LIMIT_IN_VIEW: f64 = 1.6;

/// The phases that are drawn in colours of their own, each with the class of its label.
const COLORED_PHASES: [(&str, &str); 6] = [
    ("init", "ink"),
    ("data", "on-light"),
    ("forward", "on-light"),
    ("backward", "on-dark"),
    ("step", "on-dark"),
    ("eval", "on-light"),
];

/// Writes an SVG picture of a timeline by category: stacked areas over time, or over the operations of a plan.
///
/// The peak is marked with its value, the limit is a dashed line if it is near the peak, and the phases are labelled below
/// the areas. The picture needs no other file and no script, has its own background, follows a dark colour scheme, and
/// stays below 100 KiB: a column with several events shows the highest level.
///
/// ```
/// # use oomph_timeline::{Clock, Origin, Timeline, export};
/// # let timeline = Timeline { times: vec![0], ..Timeline::new(Origin::Planned, Clock::Operations) };
/// let mut picture = Vec::new();
/// export::svg(&timeline, &mut picture)?;
/// assert!(picture.starts_with(b"<svg "));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of `out`.
pub fn svg(timeline: &Timeline, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    Picture::new(timeline).write(&mut out)?;
    out.flush()
}

struct Picture<'a> {
    timeline: &'a Timeline,
    peak: Peak,
    limit: Option<Bytes>,
    bytes: Scale,
    times: Scale,
    /// The categories in use, with their bytes at the peak.
    legend: Vec<(Category, Bytes)>,
}

impl<'a> Picture<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        let peak = timeline.peak();
        let total = peak.categories.total().get();
        let in_view = |limit: &Bytes| limit.get() as f64 <= total as f64 * LIMIT_IN_VIEW;
        let limit = timeline.limit_bytes.filter(in_view);
        let used = |category: &Category| timeline.blocks.iter().any(|block| block.category == *category);
        Self {
            timeline,
            limit,
            bytes: Scale::of_bytes(total.max(limit.map_or(0, Bytes::get))),
            times: Scale::of_times(end_time(timeline), timeline.clock),
            legend: Category::ALL
                .into_iter()
                .filter(used)
                .map(|category| (category, peak.categories.of(category)))
                .collect(),
            peak,
        }
    }

    fn x(&self, time: u64) -> f64 {
        LEFT + (time as f64 / self.times.end).min(1.0) * (RIGHT - LEFT)
    }

    fn y(&self, bytes: u64) -> f64 {
        BOTTOM - bytes as f64 / self.bytes.end * (BOTTOM - TOP)
    }

    /// The position of an event; that of the end for events after the last.
    fn x_of(&self, event: u32) -> f64 {
        self.timeline.times.get(event as usize).map_or(RIGHT, |&time| self.x(time))
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let legend = self.legend_rows();
        let rows = self.rows();
        let ticks = BOTTOM + 6.0 + rows.len() as f64 * (ROW + 3.0) + 16.0;
        let height = ticks + 18.0 + legend.len() as f64 * LEGEND_ROW + 10.0;
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"t d\">"
        )?;
        writeln!(out, "<title id=\"t\">{}</title>", Text(&self.timeline.title))?;
        writeln!(out, "<desc id=\"d\">{}</desc>", Text(&self.summary()))?;
        writeln!(out, "<style>{}</style>", style())?;
        let (width, inner) = (WIDTH - 1.0, height - 1.0);
        writeln!(
            out,
            "<rect class=\"card\" x=\".5\" y=\".5\" width=\"{width}\" height=\"{inner}\" rx=\"12\"/>"
        )?;
        self.head(out)?;
        self.grid(ticks, out)?;
        self.areas(out)?;
        for (index, row) in rows.iter().enumerate() {
            self.spans(row, BOTTOM + 6.0 + index as f64 * (ROW + 3.0), out)?;
        }
        self.marks(out)?;
        if !legend.is_empty() {
            text("soft", 24.0, ticks + 32.0, "at the peak:", out)?;
        }
        for (row, keys) in legend.iter().enumerate() {
            self.keys(keys, ticks + 32.0 + row as f64 * LEGEND_ROW, out)?;
        }
        writeln!(out, "</svg>")
    }

    /// `cpu · planned peak 1.07 GiB · 45 % of the limit of 2.40 GiB`.
    fn summary(&self) -> String {
        let peak = self.peak.categories.total();
        let about = format!("{} · {} {peak}", self.timeline.device, peak_name(self.timeline.origin));
        match self.timeline.limit_bytes.filter(|limit| limit.get() > 0) {
            Some(limit) => {
                let share = peak.get() as f64 / limit.get() as f64 * 100.0;
                format!("{about} · {share:.0} % of the limit of {limit}")
            }
            None => about,
        }
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let title = if self.timeline.title.is_empty() { "memory in use" } else { &self.timeline.title };
        text("title ink", 24.0, 34.0, title, out)?;
        text("soft", 24.0, 55.0, &self.summary(), out)
    }

    /// The grid lines with their labels, and the labels of the horizontal axis at `ticks`.
    fn grid(&self, ticks: f64, out: &mut dyn Write) -> io::Result<()> {
        for (value, label) in &self.bytes.ticks {
            let y = self.y(*value as u64);
            writeln!(out, "<path class=\"grid\" d=\"M{LEFT} {}H{RIGHT}\"/>", number(y))?;
            text("soft small end", LEFT - 10.0, y + 4.0, label, out)?;
        }
        let unit = match self.timeline.clock {
            Clock::Operations => "operations",
            Clock::Nanoseconds => "time",
        };
        text("soft small end", LEFT - 10.0, ticks, unit, out)?;
        for (value, label) in &self.times.ticks {
            let x = LEFT + value / self.times.end * (RIGHT - LEFT);
            let class = if x > RIGHT - 12.0 { "soft small end" } else { "soft small middle" };
            text(class, x, ticks, label, out)?;
        }
        Ok(())
    }

    /// Sums are drawn from the highest down to the first category, each over the one before.
    fn areas(&self, out: &mut dyn Write) -> io::Result<()> {
        let curve = Curve::new(self.timeline, |time| self.x(time), [LEFT, RIGHT]);
        for (category, _) in self.legend.iter().rev() {
            let path = curve.area(*category, |bytes| self.y(bytes), [RIGHT, BOTTOM]);
            if !path.is_empty() {
                let class = format!("c{}", *category as usize);
                writeln!(out, "<path class=\"{class}\" d=\"{path}\"><title>{category}</title></path>")?;
            }
        }
        Ok(())
    }

    /// The rows below the plot: steps, if there are several, and phases.
    fn rows(&self) -> Vec<Vec<&Span>> {
        let steps: Vec<&Span> = self.timeline.spans_of(SpanKind::Step).collect();
        let phases: Vec<&Span> = self.timeline.spans_of(SpanKind::Phase).collect();
        let is_shown = |(row, least): (Vec<_>, usize)| (row.len() >= least).then_some(row);
        [(steps, 2), (phases, 1)].into_iter().filter_map(is_shown).collect()
    }

    /// Spans as boxes, with their names if these fit.
    fn spans(&self, spans: &[&Span], top: f64, out: &mut dyn Write) -> io::Result<()> {
        for span in spans {
            let (start, end) = (self.x_of(span.start), self.x_of(span.end));
            let width = end - start - 1.0;
            if width < 0.4 {
                continue;
            }
            let name = self.timeline.names.text(span.name);
            let mut colored = COLORED_PHASES.into_iter().filter(|_| span.kind == SpanKind::Phase);
            let (class, ink) = colored.find(|(phase, _)| *phase == name).unwrap_or(("band", "ink"));
            let (x, y) = (number(start), number(top));
            writeln!(
                out,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{ROW}\" rx=\"3\"><title>{}</title></rect>",
                number(width),
                Text(name)
            )?;
            if text_width(name, 12.0) + 8.0 <= width {
                let (x, y) = (start + width / 2.0, top + ROW / 2.0 + 4.0);
                text(&format!("small middle {ink}"), x, y, name, out)?;
            }
        }
        Ok(())
    }

    /// The limit and the peak.
    fn marks(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(limit) = self.limit {
            let y = self.y(limit.get());
            writeln!(out, "<path class=\"limit\" d=\"M{LEFT} {0}H{RIGHT}\"/>", number(y))?;
            let label = format!("limit {limit}");
            text("limit-text bold small halo end", RIGHT - 4.0, y - 6.0, &label, out)?;
        }
        let peak = self.peak.categories.total();
        if peak.get() == 0 {
            return Ok(());
        }
        let (x, y) = (self.x_of(self.peak.event), self.y(peak.get()));
        let (x_text, y_text) = (number(x), number(y));
        writeln!(out, "<path class=\"mark\" d=\"M{x_text} {y_text}V{BOTTOM}\"/>")?;
        writeln!(out, "<circle class=\"mark dot\" cx=\"{x_text}\" cy=\"{y_text}\" r=\"4\"/>")?;
        let label = format!("{} {peak}", peak_name(self.timeline.origin));
        let is_right = x + 10.0 + text_width(&label, 13.0) > RIGHT;
        let (class, x) =
            if is_right { ("ink bold halo end", x - 10.0) } else { ("ink bold halo ", x + 10.0) };
        // The label of the limit may be there.
        text(class, x, (y - 8.0).max(TOP - 6.0), &label, out)
    }

    /// The keys of the legend in rows that fit the width: each with its position.
    fn legend_rows(&self) -> Vec<Vec<(f64, Category, Bytes)>> {
        let mut rows: Vec<Vec<(f64, Category, Bytes)>> = Vec::new();
        let mut x = f64::INFINITY;
        for &(category, bytes) in &self.legend {
            let width = text_width(&format!("{category} {bytes}"), 13.0) + 46.0;
            if x + width > WIDTH - 12.0 {
                rows.push(Vec::new());
                x = 24.0 + if rows.len() == 1 { AT_THE_PEAK } else { 0.0 };
            }
            // A row was pushed for the first key.
            rows.extend(rows.is_empty().then(Vec::new));
            if let Some(row) = rows.last_mut() {
                row.push((x, category, bytes));
            }
            x += width;
        }
        rows
    }

    fn keys(&self, keys: &[(f64, Category, Bytes)], y: f64, out: &mut dyn Write) -> io::Result<()> {
        for (x, category, bytes) in keys {
            let (left, top) = (number(*x), number(y - 10.0));
            let class = *category as usize;
            writeln!(
                out,
                "<rect class=\"c{class}\" x=\"{left}\" y=\"{top}\" width=\"12\" height=\"12\" rx=\"3\"/>"
            )?;
            let (left, y) = (number(x + 18.0), number(y));
            writeln!(
                out,
                "<text x=\"{left}\" y=\"{y}\"><tspan class=\"ink\">{category}</tspan> <tspan class=\"soft\">{bytes}</tspan></text>"
            )?;
        }
        Ok(())
    }
}

fn text(class: &str, x: f64, y: f64, label: &str, out: &mut dyn Write) -> io::Result<()> {
    let (x, y) = (number(x), number(y));
    writeln!(out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", Text(label))
}

/// The approximate width of a text in pixels.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{export::tests::sample, timeline::Origin};

    fn picture(timeline: &Timeline) -> String {
        let mut out = Vec::new();
        svg(timeline, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Panics unless elements nest, attributes are quoted, and `<` and `&` occur only as markup.
    fn check_well_formed(text: &str) {
        let mut open = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('<') {
            assert!(!before.contains('>') || open.last() == Some(&"style"), "{before}");
            let (tag, behind) = after.split_once('>').expect("a tag ends");
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            assert!(tag.matches('"').count() % 2 == 0 && !tag.contains('<'), "{tag}");
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => assert_eq!(open.pop(), Some(name)),
                (false, true) => {}
                (false, false) => open.push(name),
            }
            for entity in before.split('&').skip(1) {
                assert!(entity.split(';').next().unwrap().len() < 6, "{entity}");
            }
            rest = behind;
        }
        assert_eq!((open.len(), rest.trim()), (0, ""));
    }

    #[test]
    fn a_picture_is_well_formed_and_loads_nothing() {
        for origin in [Origin::Planned, Origin::Measured] {
            for timeline in [sample::step(origin), sample::empty(origin)] {
                let text = picture(&timeline);
                check_well_formed(&text);
                let outside = text.replace("http://www.w3.org/2000/svg", "");
                for forbidden in ["http", "url(", "<script", "href", "@import", "NaN", "inf"] {
                    assert!(!outside.contains(forbidden), "{forbidden}");
                }
            }
        }
    }

    #[test]
    fn peak_phases_and_legend_are_labelled() {
        let text = picture(&sample::step(Origin::Planned));
        for label in [">planned peak 3.50 KiB<", ">forward<", ">backward<", ">activations<", ">512 B<"] {
            assert!(text.contains(label), "{label}\n{text}");
        }
        assert!(!text.contains(">inputs<"), "unused categories have no key");
        assert!(picture(&sample::step(Origin::Measured)).contains(">peak in use 3.50 KiB<"));
    }

    #[test]
    fn a_limit_near_the_peak_is_drawn_and_a_far_one_is_named() {
        let mut timeline = sample::step(Origin::Planned);
        timeline.limit_bytes = Some(Bytes::new(4096));
        let near = picture(&timeline);
        assert!(
            near.contains(">limit 4.00 KiB<") && near.contains("88 % of the limit of 4.00 KiB"),
            "{near}"
        );
        timeline.limit_bytes = Some(Bytes::mib(1));
        let far = picture(&timeline);
        assert!(!far.contains(">limit ") && far.contains("% of the limit of 1.00 MiB"), "{far}");
    }

    #[test]
    fn the_areas_stack_up_to_the_peak() {
        let timeline = sample::step(Origin::Planned);
        let made = Picture::new(&timeline);
        let text = picture(&timeline);
        let top = number(made.y(timeline.peak().categories.total().get()));
        let last = timeline.blocks.iter().map(|block| block.category as usize).max().unwrap();
        let (_, path) = text.split_once(&format!("<path class=\"c{last}\" d=\"")).unwrap();
        let path = path.split('"').next().unwrap();
        let highest =
            path.split(['M', 'H', 'V', 'Z']).filter_map(|it| it.split(' ').next()?.parse::<f64>().ok());
        assert!(path.contains(&format!("V{top}H")), "{path}");
        assert!(highest.clone().count() > 3);
    }

    #[test]
    fn hostile_names_stay_text() {
        let mut timeline = sample::step(Origin::Measured);
        timeline.title = "</svg><script>alert(1)</script> & \"'".into();
        timeline.device = "<b onload=\"x\">".into();
        let name = timeline.names.of("\"><script>");
        timeline.spans[1].name = name;
        let text = picture(&timeline);
        check_well_formed(&text);
        assert!(!text.contains("<script") && !text.contains("<b"), "{text}");
    }
}
