//! A pipeline's step as a picture for a terminal.

use std::{fmt, ops::Range};

use crate::{
    course::{Course, Span},
    schedule::Work,
};

/// The shortest piece of work has no more columns than these, however much room there is: a picture is for a glance.
const WIDEST: f64 = 6.0;
/// What stands where the middle is left out.
const GAP: &str = " ... ";
/// Below this a picture shows nothing.
const LEAST_COLUMNS: usize = 20;
/// Times of equal pieces of work differ by roundings, which must not cost a column.
const ROUNDING: f64 = 1e-9;

/// A course drawn: one line a device, time from left to right. [`Display`](fmt::Display) writes it with a legend; who
/// has colours writes the pieces.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagram {
    /// The devices in order.
    pub lines: Vec<Line>,
    /// The time that is left out in the middle where the whole does not fit, in seconds.
    pub left_out_seconds: Option<Range<f64>>,
}

/// The line of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The device, with spaces after it up to the longest name.
    pub name: String,
    /// What it does. The texts of every line have as many columns together.
    pub pieces: Vec<Piece>,
}

/// A stretch of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What is drawn there, in ASCII.
    pub text: String,
    /// What it stands for.
    pub drawn: Drawn,
}

/// What a piece of a line stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// The device works.
    Work(Work),
    /// It has nothing to do.
    Idle,
    /// The middle of the course, which does not fit.
    LeftOut,
}

/// Draws a course for a terminal of `width` columns; `names` are those of the devices.
///
/// Where it does not fit with the number of each micro-batch, the middle is left out: a pipeline repeats itself there.
/// What takes much less time than the rest has no number, and what takes less than a column may not be seen at all.
///
/// ```
/// use oomph_parallel::{Course, Schedule, Work, diagram};
///
/// let seconds = |_, work| if matches!(work, Work::Forward(_)) { 1.0 } else { 2.0 };
/// let course = Course::play(Schedule::OneForwardOneBackward, 2, 3, seconds, 0.0);
/// let drawn = diagram(&course, &["cuda:0", "cuda:1"], 34).to_string();
/// assert_eq!(drawn.lines().collect::<Vec<_>>(), [
///     "cuda:0 |0>1>    0<<<2>1<<<  2<<<|",
///     "cuda:1 |  0>0<<<1>1<<<2>2<<<    |",
///     "n> forward and n< backward of micro-batch n",
/// ]);
/// ```
pub fn diagram(course: &Course, names: &[impl AsRef<str>], width: usize) -> Diagram {
    let longest = names.iter().map(|name| name.as_ref().chars().count()).max().unwrap_or(0);
    // A space after the name, and a bar on either side.
    let columns = width.saturating_sub(longest + 3).max(LEAST_COLUMNS);
    let view = View::new(course, columns);
    let lines = course.devices.iter().enumerate().map(|(device, spans)| {
        let name = names.get(device).map_or("", AsRef::as_ref);
        Line { name: format!("{name:longest$}"), pieces: view.pieces(spans) }
    });
    Diagram { lines: lines.collect(), left_out_seconds: view.left_out_seconds() }
}

impl Diagram {
    /// How the lines are read.
    pub fn legend(&self) -> String {
        let gap = match self.left_out_seconds {
            Some(_) => "; ... more of the same",
            None => "",
        };
        format!("n> forward and n< backward of micro-batch n{gap}")
    }
}

impl fmt::Display for Diagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        f.write_str(&self.legend())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} |", self.name)?;
        for piece in &self.pieces {
            f.write_str(&piece.text)?;
        }
        f.write_str("|")
    }
}

/// Which columns of the whole picture are shown.
struct View {
    start_seconds: f64,
    columns_per_second: f64,
    /// All columns, or those before the gap.
    first: Range<usize>,
    /// Those after the gap, where there is one.
    last: Option<Range<usize>>,
}

impl View {
    fn new(course: &Course, columns: usize) -> Self {
        let columns_per_second = scale(course, columns);
        let all = (course.seconds() * columns_per_second).round() as usize;
        let shown = columns - GAP.len();
        let (first, last) = match all <= columns {
            true => (0..all, None),
            false => (0..shown.div_ceil(2), Some(all - shown / 2..all)),
        };
        Self { start_seconds: course.start_seconds(), columns_per_second, first, last }
    }

    fn left_out_seconds(&self) -> Option<Range<f64>> {
        let seconds = |column: usize| self.start_seconds + column as f64 / self.columns_per_second;
        self.last.as_ref().map(|last| seconds(self.first.end)..seconds(last.start))
    }

    fn column(&self, seconds: f64) -> usize {
        ((seconds - self.start_seconds) * self.columns_per_second).round() as usize
    }

    fn pieces(&self, spans: &[Span]) -> Vec<Piece> {
        let mut pieces = self.pieces_within(&self.first, spans);
        if let Some(last) = &self.last {
            pieces.push(Piece { text: GAP.to_owned(), drawn: Drawn::LeftOut });
            pieces.extend(self.pieces_within(last, spans));
        }
        pieces
    }

    fn pieces_within(&self, window: &Range<usize>, spans: &[Span]) -> Vec<Piece> {
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
            pieces.push(Piece { text, drawn: Drawn::Work(span.work) });
            at = shown.end;
        }
        pieces.extend(idle(at..window.end));
        pieces
    }
}

fn idle(columns: Range<usize>) -> Option<Piece> {
    (!columns.is_empty()).then(|| Piece { text: " ".repeat(columns.len()), drawn: Drawn::Idle })
}

/// The number of the micro-batch and the direction; the direction alone where there is no room for both, or where the
/// beginning is not seen.
fn text(work: Work, columns: usize, is_beginning: bool) -> String {
    let (index, direction) = match work {
        Work::Forward(index) => (index, ">"),
        Work::Backward(index) => (index, "<"),
    };
    let number = Some(index.to_string()).filter(|number| is_beginning && number.len() < columns);
    let number = number.unwrap_or_default();
    format!("{number}{}", direction.repeat(columns - number.len()))
}

/// The columns of a second: the whole course in `columns` if the number of a micro-batch and its direction have room in
/// what the busiest device does, otherwise so many that they have.
fn scale(course: &Course, columns: usize) -> f64 {
    let shortest = durations(course.spans()).into_iter().reduce(f64::min);
    let busiest = course.devices.iter().map(durations).max_by(|one, other| {
        let seconds = |durations: &Vec<f64>| durations.iter().sum::<f64>();
        seconds(one).total_cmp(&seconds(other))
    });
    // Of forwards and backwards in equal numbers, the shorter ones.
    let common = busiest.and_then(|mut durations| {
        durations.sort_by(f64::total_cmp);
        durations.get(durations.len().saturating_sub(1) / 2).copied()
    });
    let (Some(shortest), Some(common)) = (shortest, common) else { return 0.0 };
    let largest = course.spans().map(|span| span.work.micro_batch()).max().unwrap_or(0);
    let needed = (largest.to_string().len() + 1) as f64;
    let to_fit = columns as f64 / course.seconds();
    // Where each piece of work has a whole number of columns, equal ones look equal.
    let even = (shortest * to_fit + ROUNDING).floor();
    if even >= needed {
        even.min(WIDEST) / shortest
    } else if common * to_fit + ROUNDING >= needed {
        to_fit
    } else {
        needed / common
    }
}

/// How long each piece of work takes, but those that take no time.
fn durations<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Vec<f64> {
    let durations = spans.into_iter().map(|span| span.end_seconds - span.start_seconds);
    durations.filter(|duration| *duration > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::schedule::Schedule;

    const NAMES: [&str; 4] = ["cuda:0", "cuda:1", "cuda:2", "cuda:3"];

    fn drawn(schedule: Schedule, devices: usize, micro_batches: usize, width: usize) -> Diagram {
        let seconds = |_, work| if matches!(work, Work::Forward(_)) { 1.0 } else { 2.0 };
        let course = Course::play(schedule, devices, micro_batches, seconds, 0.0);
        diagram(&course, &NAMES[..devices], width)
    }

    fn check(diagram: &Diagram, expected: &[&str]) {
        let written = diagram.to_string();
        assert_eq!(written.lines().collect::<Vec<_>>(), expected, "\n{written}\n");
    }

    #[test]
    fn one_forward_one_backward_looks_as_in_the_paper() {
        // Figure 4 of Narayanan et al. 2021, with the micro-batches counted from 0.
        check(
            &drawn(Schedule::OneForwardOneBackward, 4, 8, 80),
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
            &drawn(Schedule::GPipe, 3, 4, 70),
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
            &drawn(Schedule::Sequential, 3, 2, 50),
            &[
                "cuda:0 |0>            0<<<1>            1<<<|",
                "cuda:1 |  0>      0<<<      1>      1<<<    |",
                "cuda:2 |    0>0<<<            1>1<<<        |",
                "n> forward and n< backward of micro-batch n",
            ],
        );
    }

    #[test]
    fn what_does_not_fit_is_left_out_in_the_middle() {
        let drawn = drawn(Schedule::OneForwardOneBackward, 4, 64, 80);
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
            &drawn(Schedule::OneForwardOneBackward, 2, 1, 200),
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
        let course = Course::play(Schedule::OneForwardOneBackward, 2, 4, seconds, 0.05);
        check(
            &diagram(&course, &["cpu", "cuda:0"], 80),
            &[
                "cpu    |>                 <>                <                <                <|",
                "cuda:0 | 0>>>>0<<<<<<<<<<<1>>>>>1<<<<<<<<<<2>>>>>2<<<<<<<<<<<3>>>>3<<<<<<<<<<< |",
                "n> forward and n< backward of micro-batch n",
            ],
        );
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let drawn = diagram(&Course { devices: vec![Vec::new(); 2] }, &["cpu"], 80);
        check(&drawn, &["cpu ||", "    ||", "n> forward and n< backward of micro-batch n"]);
    }

    fn any_course() -> impl Strategy<Value = Course> {
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
        vec(device, 0..5).prop_map(|devices| Course { devices })
    }

    proptest! {
        #[test]
        fn all_lines_are_as_long_as_each_other_and_within_the_width(course in any_course(), width in 40usize..200) {
            let drawn = diagram(&course, &NAMES, width);
            let lines: Vec<_> = drawn.lines.iter().map(Line::to_string).collect();
            prop_assert!(lines.iter().all(|line| line.len() <= width && line.len() == lines[0].len()), "{drawn}");
            prop_assert!(lines.iter().all(|line| line.is_ascii()));
        }
    }
}
