/// A number rounded to so many significant digits, at least one: 507.222 to 507 with three. Infinities and NaN stay.
///
/// ```
/// # use oomph_core::significant;
/// assert_eq!(significant(507.222, 3), 507.0);
/// assert_eq!(significant(0.1 / 10.0, 2), 0.01);
/// ```
pub fn significant(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}
