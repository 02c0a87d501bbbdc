//! A drawing of a pipeline's step for a terminal.

use std::{fmt, ops::Range};

use crate::{
    pipeline_order::Work,
    pipeline_trace::{PipelineTrace, Span},
};

/// The most columns of the shortest piece of work, however wide the terminal is.
const WIDEST: f64 = 6.0;
/// The text in place of the omitted middle.
const GAP: &str = " ... ";
/// The fewest columns in which a drawing is readable.
const LEAST_COLUMNS: usize = 20;
/// Times of equal pieces of work differ by roundings; this tolerance keeps their columns equal.
const ROUNDING: f64 = 1e-9;

/// The drawing of a trace: one line per device, time from left to right. [`Display`](fmt::Display) writes it with a
/// legend; a caller with colours writes the pieces itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagram {
    /// The devices in order.
    pub lines: Vec<DiagramLine>,
    /// The omitted time in the middle, in seconds; `None` if the whole trace fits.
    pub left_out_seconds: Option<Range<f64>>,
}

/// The line of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct DiagramLine {
    /// The device, padded to the longest name.
    pub name: String,
    /// Its work. The texts of every line together have the same number of columns.
    pub pieces: Vec<DiagramPiece>,
}

/// One piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagramPiece {
    /// Its text, in ASCII.
    pub text: String,
    /// Its meaning.
    pub drawn: DrawnAs,
}

/// The meaning of a piece of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawnAs {
    /// The device works.
    Work(Work),
    /// The device is idle.
    Idle,
    /// The middle of the trace is omitted.
    LeftOut,
}

/// Draws a trace for a terminal of `width` columns; `names` are the names of the devices.
///
/// A trace that does not fit with the numbers of its micro-batches loses its middle, where a pipeline repeats itself.
/// Work that is much shorter than the rest has no number; work shorter than a column may be invisible.
///
/// ```
/// use oomph_parallel::{PipelineTrace, PipelineOrder, Work, diagram};
///
/// let seconds = |_, work| if matches!(work, Work::Forward(_)) { 1.0 } else { 2.0 };
/// let trace = PipelineTrace::play(PipelineOrder::OneForwardOneBackward, 2, 3, seconds, 0.0);
/// let drawn = diagram(&trace, &["cuda:0", "cuda:1"], 34).to_string();
/// assert_eq!(drawn.lines().collect::<Vec<_>>(), [
///     "cuda:0 |0>1>    0<<<2>1<<<  2<<<|",
///     "cuda:1 |  0>0<<<1>1<<<2>2<<<    |",
///     "n> forward and n< backward of micro-batch n",
/// ]);
/// ```
pub fn diagram(trace: &PipelineTrace, names: &[impl AsRef<str>], width: usize) -> Diagram {
    let longest = names.iter().map(|name| name.as_ref().chars().count()).max().unwrap_or(0);
    // The name is followed by a space, and the line stands between two bars.
    let columns = width.saturating_sub(longest + 3).max(LEAST_COLUMNS);
    let view = View::new(trace, columns);
    let lines = trace.devices.iter().enumerate().map(|(device, spans)| {
        let name = names.get(device).map_or("", AsRef::as_ref);
        DiagramLine { name: format!("{name:longest$}"), pieces: view.pieces(spans) }
    });
    Diagram { lines: lines.collect(), left_out_seconds: view.left_out_seconds() }
}

impl Diagram {
    /// The legend of the signs.
    pub fn legend(&self) -> String {
        let gap = if self.left_out_seconds.is_some() { "; ... more of the same" } else { "" };
        format!("n> forward and n< backward of micro-batch n{gap}")
    }
}

impl fmt::Display for Diagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        f.write_str(&self.legend())
    }
}

impl fmt::Display for DiagramLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} |", self.name)?;
        self.pieces.iter().try_for_each(|piece| f.write_str(&piece.text))?;
        f.write_str("|")
    }
}

/// The visible columns of the whole drawing.
struct View {
    start_seconds: f64,
    columns_per_second: f64,
    /// All columns, or those before the gap.
    first: Range<usize>,
    /// The columns after the gap, if there is one.
    last: Option<Range<usize>>,
}

impl View {
    fn new(trace: &PipelineTrace, columns: usize) -> Self {
        let columns_per_second = scale(trace, columns);
        let all = (trace.seconds() * columns_per_second).round() as usize;
        let shown = columns - GAP.len();
        let (first, last) = match all <= columns {
            true => (0..all, None),
            false => (0..shown.div_ceil(2), Some(all - shown / 2..all)),
        };
        Self { start_seconds: trace.start_seconds(), columns_per_second, first, last }
    }

    fn left_out_seconds(&self) -> Option<Range<f64>> {
        let seconds = |column: usize| self.start_seconds + column as f64 / self.columns_per_second;
        self.last.as_ref().map(|last| seconds(self.first.end)..seconds(last.start))
    }

    fn column(&self, seconds: f64) -> usize {
        ((seconds - self.start_seconds) * self.columns_per_second).round() as usize
    }

    fn pieces(&self, spans: &[Span]) -> Vec<DiagramPiece> {
        let mut pieces = self.pieces_within(&self.first, spans);
        if let Some(last) = &self.last {
            pieces.push(DiagramPiece { text: GAP.to_owned(), drawn: DrawnAs::LeftOut });
            pieces.extend(self.pieces_within(last, spans));
        }
        pieces
    }

    fn pieces_within(&self, window: &Range<usize>, spans: &[Span]) -> Vec<DiagramPiece> {
        let mut pieces = Vec::new();
        let mut at = window.start;
        for span in spans {
            let columns = self.column(span.start_seconds)..self.column(span.end_seconds);
            let shown = columns.start.max(at)..columns.end.min(window.end);
            if shown.is_empty() {
                continue;
            }
            pieces.extend(idle(at..shown.start));
            let text = text(span.work, shown.len(), shown.start == columns.start);
            pieces.push(DiagramPiece { text, drawn: DrawnAs::Work(span.work) });
            at = shown.end;
        }
        pieces.extend(idle(at..window.end));
        pieces
    }
}

fn idle(columns: Range<usize>) -> Option<DiagramPiece> {
    (!columns.is_empty()).then(|| DiagramPiece { text: " ".repeat(columns.len()), drawn: DrawnAs::Idle })
}

/// The number of the micro-batch and the direction; the direction alone where both do not fit, or where the beginning is
/// hidden.
fn text(work: Work, columns: usize, is_beginning: bool) -> String {
    let (index, direction) = match work {
        Work::Forward(index) => (index, ">"),
        Work::Backward(index) => (index, "<"),
    };
    let number = Some(index.to_string()).filter(|number| is_beginning && number.len() < columns);
    let number = number.unwrap_or_default();
    format!("{number}{}", direction.repeat(columns - number.len()))
}

/// The columns per second. The whole trace gets `columns` if the work of the busiest device then has room for a number
/// and a direction; otherwise the scale gives it that room.
fn scale(trace: &PipelineTrace, columns: usize) -> f64 {
    let shortest = durations(trace.spans()).into_iter().reduce(f64::min);
    let busiest = trace.devices.iter().map(durations).max_by(|one, other| {
        let seconds = |durations: &Vec<f64>| durations.iter().sum::<f64>();
        seconds(one).total_cmp(&seconds(other))
    });
    // Forwards and backwards are equally many, so this is the shorter kind.
    let common = busiest.and_then(|mut durations| {
        durations.sort_by(f64::total_cmp);
        durations.get(durations.len().saturating_sub(1) / 2).copied()
    });
    let (Some(shortest), Some(common)) = (shortest, common) else { return 0.0 };
    let largest = trace.spans().map(|span| span.work.micro_batch()).max().unwrap_or(0);
    let needed = (largest.to_string().len() + 1) as f64;
    let to_fit = columns as f64 / trace.seconds();
    // With a whole number of columns for each piece of work, equal ones look equal.
    let even = (shortest * to_fit + ROUNDING).floor();
    if even >= needed {
        even.min(WIDEST) / shortest
    } else if common * to_fit + ROUNDING >= needed {
        to_fit
    } else {
        needed / common
    }
}

/// The durations of the pieces of work that take time.
fn durations<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Vec<f64> {
    let durations = spans.into_iter().map(|span| span.end_seconds - span.start_seconds);
    durations.filter(|duration| *duration > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::pipeline_order::PipelineOrder;

    const NAMES: [&str; 4] = ["cuda:0", "cuda:1", "cuda:2", "cuda:3"];

    fn drawn(order: PipelineOrder, devices: usize, micro_batches: usize, width: usize) -> Diagram {
        let seconds = |_, work| if matches!(work, Work::Forward(_)) { 1.0 } else { 2.0 };
        let trace = PipelineTrace::play(order, devices, micro_batches, seconds, 0.0);
        diagram(&trace, &NAMES[..devices], width)
    }

    fn check(diagram: &Diagram, expected: &[&str]) {
        let written = diagram.to_string();
        assert_eq!(written.lines().collect::<Vec<_>>(), expected, "\n{written}\n");
    }

    #[test]
    fn one_forward_one_backward_looks_as_in_the_paper() {
        // Figure 4 of Narayanan et al. 2021, with the micro-batches counted from 0.
        check(
            &drawn(PipelineOrder::OneForwardOneBackward, 4, 8, 80),
            &[
                "cuda:0 |0>1>2>3>            0<<<4>1<<<5>2<<<6>3<<<7>4<<<  5<<<  6<<<  7<<<|",
                "cuda:1 |  0>1>2>        0<<<3>1<<<4>2<<<5>3<<<6>4<<<7>5<<<  6<<<  7<<<    |",
                "cuda:2 |    0>1>    0<<<2>1<<<3>2<<<4>3<<<5>4<<<6>5<<<7>6<<<  7<<<        |",
                "cuda:3 |      0>0<<<1>1<<<2>2<<<3>3<<<4>4<<<5>5<<<6>6<<<7>7<<<            |",
                "n> forward and n< backward of micro-batch n",
            ],
        );
    }

    #[test]
    fn gpipe_turns_round_once() {
        check(
            &drawn(PipelineOrder::GPipe, 3, 4, 70),
            &[
                "cuda:0 |0>>1>>2>>3>>                  0<<<<<1<<<<<2<<<<<3<<<<<|",
                "cuda:1 |   0>>1>>2>>3>>         0<<<<<1<<<<<2<<<<<3<<<<<      |",
                "cuda:2 |      0>>1>>2>>3>>0<<<<<1<<<<<2<<<<<3<<<<<            |",
                "n> forward and n< backward of micro-batch n",
            ],
        );
    }

    #[test]
    fn one_device_at_a_time_is_mostly_idle() {
        check(
            &drawn(PipelineOrder::Sequential, 3, 2, 50),
            &[
                "cuda:0 |0>            0<<<1>            1<<<|",
                "cuda:1 |  0>      0<<<      1>      1<<<    |",
                "cuda:2 |    0>0<<<            1>1<<<        |",
                "n> forward and n< backward of micro-batch n",
            ],
        );
    }

    #[test]
    fn a_long_trace_loses_its_middle() {
        let drawn = drawn(PipelineOrder::OneForwardOneBackward, 4, 64, 80);
        check(
            &drawn,
            &[
                "cuda:0 |0>>1>>2>>3>>                  0<< ... 60<<<<   61<<<<   62<<<<   63<<<<|",
                "cuda:1 |   0>>1>>2>>            0<<<<<3>> ... 63>61<<<<   62<<<<   63<<<<      |",
                "cuda:2 |      0>>1>>      0<<<<<2>>1<<<<< ... <<<63>62<<<<   63<<<<            |",
                "cuda:3 |         0>>0<<<<<1>>1<<<<<2>>2<< ... 62<<<<63>63<<<<                  |",
                "n> forward and n< backward of micro-batch n; ... more of the same",
            ],
        );
        assert_eq!(drawn.left_out_seconds, Some(11.0..190.0));
    }

    #[test]
    fn a_short_course_does_not_fill_a_wide_terminal() {
        check(
            &drawn(PipelineOrder::OneForwardOneBackward, 2, 1, 200),
            &[
                "cuda:0 |0>>>>>                  0<<<<<<<<<<<|",
                "cuda:1 |      0>>>>>0<<<<<<<<<<<            |",
                "n> forward and n< backward of micro-batch n",
            ],
        );
    }

    #[test]
    fn a_device_that_is_much_faster_has_marks_without_numbers() {
        let seconds = |device, work| match (device, work) {
            (0, Work::Forward(_)) => 0.11,
            (0, Work::Backward(_)) => 0.19,
            (_, Work::Forward(_)) => 1.02,
            (_, Work::Backward(_)) => 2.2,
        };
        let trace = PipelineTrace::play(PipelineOrder::OneForwardOneBackward, 2, 4, seconds, 0.05);
        check(
            &diagram(&trace, &["cpu", "cuda:0"], 80),
            &[
                "cpu    |>                 <>                <                <                <|",
                "cuda:0 | 0>>>>0<<<<<<<<<<<1>>>>>1<<<<<<<<<<2>>>>>2<<<<<<<<<<<3>>>>3<<<<<<<<<<< |",
                "n> forward and n< backward of micro-batch n",
            ],
        );
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let drawn = diagram(&PipelineTrace { devices: vec![Vec::new(); 2] }, &["cpu"], 80);
        check(&drawn, &["cpu ||", "    ||", "n> forward and n< backward of micro-batch n"]);
    }

    fn any_trace() -> impl Strategy<Value = PipelineTrace> {
        let span = (any::<bool>(), 0usize..2000, 0.0..3.0f64, 0.0..9.0f64);
        let device = vec(span, 0..40).prop_map(|spans| {
            let mut at = 0.0;
            let span = |(forward, index, pause, length): (bool, usize, f64, f64)| {
                let work = if forward { Work::Forward(index) } else { Work::Backward(index) };
                let start_seconds = at + pause;
                at = start_seconds + length;
                Span { work, start_seconds, end_seconds: at }
            };
            spans.into_iter().map(span).collect()
        });
        vec(device, 0..5).prop_map(|devices| PipelineTrace { devices })
    }

    proptest! {
        #[test]
        fn all_lines_are_as_long_as_each_other_and_within_the_width(trace in any_trace(), width in 40usize..200) {
            let drawn = diagram(&trace, &NAMES, width);
            let lines: Vec<_> = drawn.lines.iter().map(DiagramLine::to_string).collect();
            prop_assert!(lines.iter().all(|line| line.len() <= width && line.len() == lines[0].len()), "{drawn}");
            prop_assert!(lines.iter().all(|line| line.is_ascii()));
        }
    }
}
