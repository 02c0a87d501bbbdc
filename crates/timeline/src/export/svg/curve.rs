use std::fmt::Write;

use crate::{category::Category, split::Split, timeline::Timeline};

/// The most columns of a curve. A path of as many steps has about 8 KiB.
const MOST_COLUMNS: usize = 560;

/// Bytes in use over the width of the picture, by category.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// From each horizontal position on, the bytes in use.
    steps: Vec<(f64, Split)>,
}

impl Curve {
    /// The levels of `timeline`. `x` maps a time to a position between `left` and `right`.
    ///
    /// If there are more events than columns, each column shows its highest level, so no peak is lost.
    pub(super) fn new(timeline: &Timeline, x: impl Fn(u64) -> f64, [left, right]: [f64; 2]) -> Self {
        let levels = timeline.levels();
        let at = timeline.times.iter().map(|&time| x(time));
        if levels.len() <= MOST_COLUMNS {
            return Self { steps: at.zip(levels).collect() };
        }
        let width = (right - left) / MOST_COLUMNS as f64;
        let column = |x: f64| ((x - left) / width).clamp(0.0, MOST_COLUMNS as f64 - 1.0) as usize;
        let columns: Vec<(usize, Split)> = at.map(column).zip(levels).collect();
        let mut steps: Vec<(f64, Split)> = Vec::with_capacity(MOST_COLUMNS);
        let mut after = None;
        for group in columns.chunk_by(|(one, _), (other, _)| one == other) {
            let (column, last) = group[group.len() - 1];
            // Columns without events have the level after the last event.
            if let Some((next, level)) = after.filter(|(next, _)| *next < column) {
                steps.push((left + next as f64 * width, level));
            }
            let highest = group.iter().map(|(_, level)| *level).max_by_key(Split::total).unwrap_or(last);
            steps.push((left + column as f64 * width, highest));
            after = Some((column + 1, last));
        }
        Self { steps }
    }

    /// The area below the sum of all categories up to and including `category`, as a path down to `bottom`. `y` maps
    /// bytes to a position.
    pub(super) fn area(
        &self,
        category: Category,
        y: impl Fn(u64) -> f64,
        [right, bottom]: [f64; 2],
    ) -> String {
        let mut path = String::new();
        let mut before = None;
        for (x, level) in &self.steps {
            let sum: u64 = level.iter().take(category as usize + 1).map(|(_, bytes)| bytes.get()).sum();
            let [x, y] = [*x, y(sum)].map(number);
            if before.as_ref() == Some(&y) {
                continue;
            }
            // Writing to a string cannot fail, here and below.
            let _ = match before {
                None => write!(path, "M{x} {}V{y}", number(bottom)),
                Some(_) => write!(path, "H{x}V{y}"),
            };
            before = Some(y);
        }
        if !path.is_empty() {
            let _ = write!(path, "H{}V{}Z", number(right), number(bottom));
        }
        path
    }
}

/// A coordinate with at most one decimal.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        block::Block,
        timeline::{Clock, Origin},
    };

    /// `events` events; at odd ones a workspace lives, the largest one at event `peak`.
    fn timeline(events: u32, peak: u32) -> Timeline {
        let mut timeline = Timeline::new(Origin::Planned, Clock::Operations);
        timeline.times = (0..u64::from(events)).collect();
        timeline.blocks.push(Block { category: Category::Parameters, ..Block::new(0, 100, 0) });
        for born in (1..events).step_by(2) {
            let bytes = if born == peak { 500 } else { 50 };
            let block =
                Block { category: Category::Workspace, died: Some(born + 1), ..Block::new(1, bytes, born) };
            timeline.blocks.push(block);
        }
        timeline
    }

    fn curve(timeline: &Timeline) -> Curve {
        let last = timeline.times.len() as f64;
        Curve::new(timeline, |time| time as f64 / last * 1000.0, [0.0, 1000.0])
    }

    #[test]
    fn thinning_keeps_the_peak_and_its_sums() {
        for events in [10, 559, 20_000, 20_001] {
            let timeline = timeline(events, 7);
            let curve = curve(&timeline);
            assert!(curve.steps.len() <= 2 * MOST_COLUMNS, "{} steps", curve.steps.len());
            assert!(curve.steps.is_sorted_by_key(|(x, _)| *x));
            let highest = curve.steps.iter().map(|(_, level)| level.total()).max();
            assert_eq!(highest, Some(timeline.peak().categories.total()));
        }
    }

    #[test]
    fn columns_without_events_keep_the_last_level() {
        let mut timeline = timeline(2_000, 3);
        // A long pause after the first half.
        timeline.times[1_000..].iter_mut().for_each(|time| *time += 100_000);
        let curve = Curve::new(&timeline, |time| time as f64 / 102_000.0 * 1000.0, [0.0, 1000.0]);
        let pause = curve.steps.iter().find(|(x, _)| *x > 12.0).unwrap();
        assert_eq!(pause.1.total().get(), 150);
    }

    #[test]
    fn an_area_is_closed_and_skips_equal_levels() {
        let timeline = timeline(10, 7);
        let parameters =
            curve(&timeline).area(Category::Parameters, |bytes| 200.0 - bytes as f64, [1000.0, 200.0]);
        assert_eq!(parameters, "M0 200V100H1000V200Z");
        let nothing = Timeline::new(Origin::Planned, Clock::Operations);
        assert_eq!(curve(&nothing).area(Category::Other, |_| 0.0, [1.0, 1.0]), "");
    }
}
