//! `[+-]N` with a unit: more than, less than, or as much as.

use std::cmp::Ordering;

/// A number that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compare {
    sign: Sign,
    /// In ones, not units.
    limit: u64,
    /// A number without sign means all values that round up to it in this unit.
    unit: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    More,
    Less,
    Same,
}

impl Compare {
    /// A plain number, `-1` (without a sign before it) being `minus_one`, if that means something.
    ///
    /// # Errors
    /// One sentence.
    pub fn number(text: &str) -> Result<Compare, String> {
        Compare::with(text, 1, &[])
    }

    /// Bytes, with `b` (512), `c` or a letter of KMGTPE.
    ///
    /// # Errors
    /// One sentence.
    pub fn bytes(text: &str) -> Result<Compare, String> {
        let units = [
            ("c", 1),
            ("b", 512),
            ("k", 1 << 10),
            ("K", 1 << 10),
            ("M", 1 << 20),
            ("G", 1 << 30),
            ("T", 1 << 40),
            ("P", 1 << 50),
            ("E", 1 << 60),
        ];
        Compare::with(text, 1, &units)
    }

    /// Seconds of an age: days, or with s, m, h, d, w, y.
    ///
    /// # Errors
    /// One sentence.
    pub fn age(text: &str) -> Result<Compare, String> {
        const DAY: u64 = 24 * 3600;
        Compare::with(
            text,
            DAY,
            &[("s", 1), ("m", 60), ("h", 3600), ("d", DAY), ("w", 7 * DAY), ("y", 365 * DAY)],
        )
    }

    fn with(text: &str, default: u64, units: &[(&str, u64)]) -> Result<Compare, String> {
        let bad = || {
            format!(
                "{text:?} is no number that can be compared; write N, +N or -N, perhaps with a unit"
            )
        };
        let (sign, rest) = match text.as_bytes().first() {
            Some(b'+') => (Sign::More, &text[1..]),
            Some(b'-') => (Sign::Less, &text[1..]),
            _ => (Sign::Same, text),
        };
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[digits..] {
            "" => default,
            word => units
                .iter()
                .find(|(name, _)| *name == word)
                .map(|(_, unit)| *unit)
                .ok_or_else(bad)?,
        };
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        Ok(Compare { sign, limit: number.checked_mul(unit).ok_or_else(bad)?, unit })
    }

    /// A size or count: N means what rounds up to N units.
    pub fn size(&self, value: u64) -> bool {
        match self.sign {
            Sign::More => value > self.limit,
            Sign::Less => value.div_ceil(self.unit) < self.limit / self.unit,
            Sign::Same => value.div_ceil(self.unit) == self.limit / self.unit,
        }
    }

    /// An age in seconds: N means from N to less than N + 1 units.
    pub fn older(&self, age: i64) -> bool {
        let limit = i128::from(self.limit);
        let age = i128::from(age);
        match self.sign {
            Sign::More => age > limit,
            Sign::Less => age < limit,
            Sign::Same => age >= limit && age < limit + i128::from(self.unit),
        }
    }

    /// A number that may be negative (`-1`: no such).
    pub fn exactly(&self, value: i64) -> bool {
        let order = i128::from(value).cmp(&i128::from(self.limit));
        match self.sign {
            Sign::More => order == Ordering::Greater,
            Sign::Less => order == Ordering::Less,
            Sign::Same => order == Ordering::Equal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_to_their_unit() {
        let size = |text: &str, value| Compare::bytes(text).unwrap().size(value);
        assert!(size("10", 10) && !size("10", 11) && !size("10", 9));
        assert!(
            size("1M", 1) && size("1M", 1 << 20) && !size("1M", 0) && !size("1M", (1 << 20) + 1)
        );
        assert!(size("+1M", (1 << 20) + 1) && !size("+1M", 1 << 20));
        assert!(size("-2M", 1 << 20) && !size("-2M", (1 << 20) + 1) && size("-1", 0));
        assert!(size("2b", 513) && size("0", 0));
        assert!(size("+15E", u64::MAX));
    }

    #[test]
    fn ages_have_days_unless_they_say_otherwise() {
        let older = |text: &str, age| Compare::age(text).unwrap().older(age);
        assert!(older("+1", 86_401) && !older("+1", 86_400));
        assert!(older("-1", 86_399) && !older("-1", 86_400));
        assert!(older("1", 86_400) && older("1", 2 * 86_400 - 1) && !older("1", 2 * 86_400));
        assert!(older("-10m", 599) && older("+2s", 3) && older("0", 0) && older("-1", -5));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in ["", "+", "x", "1Q", "--1", "1MM", "99999999999999999999", "99999999999E"] {
            assert!(Compare::bytes(bad).is_err(), "{bad}");
        }
        assert!(Compare::number("3K").is_err());
        assert!(Compare::number("-3").unwrap().exactly(-1));
    }
}
