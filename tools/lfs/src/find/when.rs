//! Points in time as text, in the caller's time zone.

use std::mem::MaybeUninit;

/// Seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct When {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanos: u32,
}

impl When {
    /// As `%A@` of printf prints it.
    pub fn seconds_text(&self) -> String {
        format!("{}.{:09}0", self.seconds, self.nanos)
    }

    /// As ctime(3), with a fraction: `Sun Nov 22 04:16:02.0000000000 2026`.
    pub fn text(&self) -> String {
        let mut parts = MaybeUninit::<libc::tm>::uninit();
        let seconds: libc::time_t = self.seconds;
        // SAFETY: both pointers are to values that outlive the call; a result of null is asked for
        // below.
        let done = unsafe { libc::localtime_r(&seconds, parts.as_mut_ptr()) };
        if done.is_null() {
            return self.seconds_text();
        }
        // SAFETY: localtime_r succeeded, so it filled `parts` in.
        let tm = unsafe { parts.assume_init() };
        let day = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
            .get(tm.tm_wday as usize)
            .unwrap_or(&"???");
        let months =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let month = months.get(tm.tm_mon as usize).unwrap_or(&"???");
        format!(
            "{day} {month} {:2} {:02}:{:02}:{:02}.{:09}0 {}",
            tm.tm_mday,
            tm.tm_hour,
            tm.tm_min,
            tm.tm_sec,
            self.nanos,
            i64::from(tm.tm_year) + 1900
        )
    }

    /// For `-ls`: month, day, time.
    pub fn short(&self) -> String {
        // "Sun Nov 22 04:16:02..." without day of the week and seconds.
        self.text().get(4..16).map_or_else(|| self.seconds_text(), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_as_text() {
        let when = When { seconds: 1_700_000_000, nanos: 5 };
        assert_eq!(when.seconds_text(), "1700000000.0000000050");
        // The zone is the tester's: minutes and seconds are the same in nearly all.
        let text = when.text();
        assert!(text.contains(":20.0000000050 2023") && text.contains(" Nov 1"), "{text}");
        assert_eq!(when.short().len(), 12);
    }
}
