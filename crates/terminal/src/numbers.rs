//! Formats numbers for people.

use oomph_core::Bytes;

/// `11181642` as `11,181,642`.
pub fn grouped(count: usize) -> String {
    oomph_core::grouped(count as u64)
}

/// A count with three digits and a decimal unit: `1.81 G`, `592 M`, `640`.
pub fn scaled(count: u64) -> String {
    const UNITS: [&str; 6] = ["", " k", " M", " G", " T", " P"];
    let mut value = count as f64;
    let mut unit = 0;
    // 999.5 rounds to 1000.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{}", UNITS[unit])
}

/// A share as `97.3 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A share with its sign: `+0.3 %`, `−20.0 %`; zero has none.
pub fn signed_share(share: f64) -> String {
    let tenths = (share * 1000.0).round();
    match tenths {
        0.0 => "0.0 %".to_owned(),
        less if less < 0.0 => format!("−{:.1} %", -less / 10.0),
        more => format!("+{:.1} %", more / 10.0),
    }
}

/// A loss or a learning rate with four decimals; in scientific notation if it is very small or large.
pub fn decimal(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e5).contains(&size) { format!("{value:.4}") } else { format!("{value:.2e}") }
}

/// A setting with four digits: `0.01`, `0.3995`, `1.592e-5`. Enough to tell two trials apart.
pub fn setting(value: f64) -> String {
    let magnitude = value.abs().log10().floor();
    if value != 0.0 && !(-4.0..6.0).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let digits = if value == 0.0 { 0.0 } else { (3.0 - magnitude).clamp(0.0, 7.0) };
    let text = format!("{value:.*}", digits as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A loss scale: `65,536`; below 1 and from 10,000,000 on as a power, `2^-3` and `2^30`.
pub fn power_of_two(value: f32) -> String {
    if (1.0..1e7).contains(&value) {
        return grouped(value as usize);
    }
    format!("2^{}", value.log2().round())
}

/// A rate per second: `1,243`; below 100 with one decimal, `4.7`.
pub fn rate(per_second: f64) -> String {
    if per_second < 99.95 { format!("{per_second:.1}") } else { grouped(per_second.round() as usize) }
}

/// `200 samples/s`, and of tokens `200 samples/s (51,200 tokens/s)`.
pub fn speed(samples_per_second: f64, tokens_per_second: Option<f64>) -> String {
    let tokens = tokens_per_second.map(|tokens| format!(" ({} tokens/s)", rate(tokens)));
    format!("{} samples/s{}", rate(samples_per_second), tokens.unwrap_or_default())
}

/// A duration as `0:41`, `12:05` or `1:02:03`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// An elapsed time: `3.2 s`; from one minute on as [`duration`].
pub fn elapsed(seconds: f64) -> String {
    if seconds < 59.95 { format!("{seconds:.1} s") } else { duration(seconds) }
}

/// A step time with three digits.
pub fn step_time(seconds: f64) -> String {
    match seconds {
        long if long >= 100.0 => format!("{long:.0} s"),
        long if long >= 9.995 => format!("{long:.1} s"),
        long if long >= 0.9995 => format!("{long:.2} s"),
        short if short >= 0.0995 => format!("{:.0} ms", short * 1e3),
        short if short >= 0.009_95 => format!("{:.1} ms", short * 1e3),
        short => format!("{:.2} ms", short * 1e3),
    }
}

/// A UTC time as `2026-11-21 10:39`. UTC needs no time zone table.
pub fn date(unix_seconds: u64) -> String {
    let (days, minutes) = (unix_seconds / 86_400, unix_seconds / 60 % 1440);
    // Years that start in March end with the leap day, and any 400 of them have equally many days
    // (<https://howardhinnant.github.io/date_algorithms.html>, `civil_from_days`).
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day_of_month:02} {:02}:{:02}", minutes / 60, minutes % 60)
}

/// Measured bytes of a device; `not measured` without a meter in the allocator.
pub fn measured(bytes: Bytes) -> String {
    if oomph_memory::is_installed() { bytes.to_string() } else { "not measured".into() }
}

/// The first and the last stage: `stem … layer2`; one name if they are the same.
pub fn stage_range(stages: &[String; 2]) -> String {
    let [first, last] = stages;
    if first == last { first.clone() } else { format!("{first} … {last}") }
}

/// `1 epoch`, `15 epochs`.
pub fn plural(count: usize, word: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {word}{ending}", grouped(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign_and_zero_has_none() {
        assert_eq!([0.0311, -0.2, -1e-9].map(signed_share), ["+3.1 %", "−20.0 %", "0.0 %"].map(String::from));
    }

    #[test]
    fn settings_have_four_digits() {
        for (value, text) in
            [(0.0, "0"), (0.01, "0.01"), (0.39954, "0.3995"), (96.0, "96"), (1234.56, "1235")]
        {
            assert_eq!(setting(value), text);
        }
        for (value, text) in [(1.592151e-5, "1.592e-5"), (-0.5, "-0.5"), (3e7, "3.000e7"), (1e-4, "0.0001")] {
            assert_eq!(setting(value), text);
        }
    }

    #[test]
    fn counts_are_grouped_by_three() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (11_181_642, "11,181,642")] {
            assert_eq!(grouped(count), text);
        }
    }

    #[test]
    fn large_counts_keep_three_digits() {
        for (count, text) in [
            (0, "0"),
            (640, "640"),
            (999, "999"),
            (1000, "1.00 k"),
            (12_345, "12.3 k"),
            (999_400, "999 k"),
            (999_600, "1.00 M"),
            (1_814_073_344, "1.81 G"),
            (u64::MAX, "18447 P"),
        ] {
            assert_eq!(scaled(count), text);
        }
    }

    #[test]
    fn losses_keep_what_they_say() {
        for (value, text) in [
            (1.234_567, "1.2346"),
            (0.0, "0.0000"),
            (0.000_123, "1.23e-4"),
            (-1.5, "-1.5000"),
            (1e30, "1.00e30"),
        ] {
            assert_eq!(decimal(value), text);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_827_696, "2000-02-29 12:34"),
            (951_868_800, "2000-03-01 00:00"),
            (1_798_761_599, "2026-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    #[test]
    fn loss_scales_are_powers_of_two() {
        for (scale, text) in [
            (65_536.0, "65,536"),
            (1.0, "1"),
            (0.5, "2^-1"),
            (1.0 / 16_384.0, "2^-14"),
            (16_777_216.0, "2^24"),
        ] {
            assert_eq!(power_of_two(scale), text);
        }
    }

    #[test]
    fn step_times_have_three_digits() {
        let texts = [123.4, 12.34, 1.234, 0.1234, 0.01234, 0.001234].map(step_time);
        assert_eq!(texts, ["123 s", "12.3 s", "1.23 s", "123 ms", "12.3 ms", "1.23 ms"]);
    }

    #[test]
    fn rates_times_and_shares_are_written() {
        assert_eq!((rate(4.66), rate(99.96), rate(1243.4)), ("4.7".into(), "100".into(), "1,243".into()));
        assert_eq!(
            (duration(41.2), duration(725.0), duration(3723.0)),
            ("0:41".into(), "12:05".into(), "1:02:03".into())
        );
        assert_eq!((elapsed(0.04), elapsed(59.97)), ("0.0 s".into(), "1:00".into()));
        assert_eq!(percent(0.9734), "97.3 %");
        assert_eq!((plural(1, "epoch"), plural(1500, "step")), ("1 epoch".into(), "1,500 steps".into()));
    }
}
