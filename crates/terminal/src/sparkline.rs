//! A curve in one line of text.

/// From the lowest to the highest value.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The finite values as a curve of at most `width` block characters, from the lowest value to the highest. More values
/// are averaged in groups of equal size. Empty without values.
pub fn sparkline(values: impl IntoIterator<Item = f64>, width: usize) -> String {
    let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    let columns = width.min(values.len());
    let group =
        |column: usize| &values[column * values.len() / columns..(column + 1) * values.len() / columns];
    let means: Vec<f64> = (0..columns).map(group).map(mean).collect();
    let [low, high] = means
        .iter()
        .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], it| [low.min(*it), high.max(*it)]);
    let level = |value: &f64| {
        // Equal values are a line at the bottom.
        let share = if high > low { (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.0 };
        LEVELS[(share * (LEVELS.len() - 1) as f64).round() as usize]
    };
    means.iter().map(level).collect()
}

/// The mean of a group that is not empty.
fn mean(group: &[f64]) -> f64 {
    // Divided first: a sum of the largest losses would be infinite.
    group.iter().map(|value| value / group.len() as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_span_the_values() {
        assert_eq!(sparkline([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 12), "█▇▆▅▄▃▂▁");
        assert_eq!(sparkline([1.0, f64::NAN, 3.0, f64::INFINITY, 2.0], 12), "▁█▅");
        assert_eq!(sparkline([-f64::MAX, f64::MAX], 12), "▁█");
    }

    #[test]
    fn many_values_are_averaged_to_the_width() {
        let values = (0..1_000).map(|step| if step % 2 == 0 { 0.0 } else { 2.0 * f64::from(step) });
        assert_eq!(sparkline(values, 4), "▁▃▆█");
        assert_eq!(sparkline((0..13).map(f64::from), 12).chars().count(), 12);
    }

    #[test]
    fn equal_values_are_a_line_and_none_are_nothing() {
        assert_eq!(sparkline([0.5; 3], 12), "▁▁▁");
        assert_eq!(sparkline([f64::NAN], 12), "");
        assert_eq!(sparkline([1.0], 0), "");
    }
}
