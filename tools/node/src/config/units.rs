//! Sizes and durations as people write them: `64M`, `1.5G`, `5s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Bytes; written with K, M, G, T, P (powers of 1024), optionally followed by `B` or `iB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// The text is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no size; write a number of bytes or a number with K, M, G, T or P, for example 64M"
)]
pub struct BadSize(String);

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(s: &str) -> Result<Size, BadSize> {
        let bad = || BadSize(s.to_owned());
        let digits = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
        let (number, unit) = s.split_at(digits);
        let unit = unit.trim_start();
        let letter = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B')).unwrap_or(unit);
        let shift = match letter {
            "" if !unit.ends_with("iB") => 0,
            "K" | "k" => 10,
            "M" | "m" => 20,
            "G" | "g" => 30,
            "T" | "t" => 40,
            "P" | "p" => 50,
            _ => return Err(bad()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(Size).ok_or_else(bad);
        }
        let (whole, fraction) = number.split_once('.').ok_or_else(bad)?;
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        if fraction.is_empty() || fraction.len() > 9 || shift == 0 {
            return Err(bad());
        }
        let parts: u64 = fraction.parse().map_err(|_| bad())?;
        let rest = (u128::from(parts) << shift) / 10u128.pow(fraction.len() as u32);
        whole
            .checked_mul(1 << shift)
            .and_then(|w| w.checked_add(rest as u64))
            .map(Size)
            .ok_or_else(bad)
    }
}

impl fmt::Display for Size {
    /// Three significant digits and the unit: `0 B`, `1023 B`, `1.50 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64;
        let mut unit = 0;
        // 999.5 would round to four digits.
        while value >= 999.5 && unit < 6 {
            value /= 1024.0;
            unit += 1;
        }
        let decimals = if value < 9.995 {
            2
        } else if value < 99.95 {
            1
        } else {
            0
        };
        write!(f, "{value:.decimals$} {}", ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit])
    }
}

/// A time span; written with ms, s, m or h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

/// The text is no time span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time span; write a whole number with ms, s, m or h, for example 5s")]
pub struct BadSpan(String);

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(s: &str) -> Result<Span, BadSpan> {
        let bad = || BadSpan(s.to_owned());
        let digits = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        let (number, unit) = s.split_at(digits);
        let number: u64 = number.parse().map_err(|_| bad())?;
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(bad()),
        };
        number.checked_mul(unit_ms).map(|ms| Span(Duration::from_millis(ms))).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64M", 64 << 20),
            ("64MiB", 64 << 20),
            ("64 MB", 64 << 20),
            ("1.5G", 3 << 29),
            ("2k", 2048),
            ("7B", 7),
            ("15P", 15 << 50),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in ["", "M", "-1", "1X", "1.5", "1.G", "1iB", "99999999P", "1.5.5G", "1e3", "0x10"]
        {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_with_their_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (3 << 29, "1.50 GiB"),
            (1000 << 20, "0.98 GiB"),
            (999 << 20, "999 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    #[test]
    fn spans_are_read() {
        for (text, ms) in
            [("5s", 5000), ("250ms", 250), ("2m", 120_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(ms))), "{text}");
        }
        for bad in
            ["", "5", "s", "-5s", "1.5s", "5d", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }
}
