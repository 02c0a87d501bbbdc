//! Figures as text, as the scripts of pages write them too.

/// Four significant digits: `0.1234`, `12.5`, `3.12e-5`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if !value.is_finite() => return "not finite".into(),
        0.0 => "0".into(),
        _ if !(1e-4..1e6).contains(&size) => {
            let text = format!("{value:.2e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{}e{exponent}", trimmed(digits))
        }
        _ => {
            let decimals = (3.0 - size.log10().floor()).clamp(0.0, 8.0) as usize;
            trimmed(&format!("{value:.decimals$}")).to_owned()
        }
    };
    text.replace('-', "−")
}

/// Without zeros behind the decimal point.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// `42 s`, `3.5 min`, `2.1 h`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        long if long >= 2.0 * 86_400.0 => format!("{:.1} days", long / 86_400.0),
        long if long >= 5_400.0 => format!("{:.1} h", long / 3_600.0),
        long if long >= 90.0 => format!("{:.1} min", long / 60.0),
        short => format!("{short:.0} s"),
    }
}

/// `12 %`, `1.4 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if (0.05..9.95).contains(&percent) { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// `1 trial`, `2 trials`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_no_zeros_behind_them() {
        let expected = [
            (0.0, "0"),
            (0.123_456, "0.1235"),
            (12.5, "12.5"),
            (1_234.56, "1235"),
            (0.000_031_2, "3.12e−5"),
            (-0.5, "−0.5"),
            (2e9, "2e9"),
            (100.0, "100"),
        ];
        for (value, text) in expected {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(f64::NAN), "not finite");
    }

    #[test]
    fn durations_and_shares_have_a_unit() {
        assert_eq!([5.2, 240.0, 7_200.0, 200_000.0].map(duration), ["5 s", "4.0 min", "2.0 h", "2.3 days"]);
        assert_eq!([0.0, 0.0141, 0.5].map(percent), ["0 %", "1.4 %", "50 %"]);
    }
}
