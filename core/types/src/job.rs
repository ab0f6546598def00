//! The job that a request belongs to: a short word that the mount makes for the program
//! (`jobid_var`, docs/parameters.md).
//!
//! It decides nothing; targets count by it (`job_stats`). It is printable ASCII without blanks,
//! quotes and backslashes, so it can stand in any line of text as it is.

use std::fmt;

/// Longest job id, bytes (LUSTRE_JOBID_SIZE is 32, its end included).
pub const JOB_ID_BYTES_MAX: usize = 31;

/// A job, or none. As wide as on the wire: text, then zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct JobId([u8; JOB_ID_BYTES_MAX + 1]);

fn may_stand(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\')
}

impl JobId {
    /// No job.
    pub const NONE: JobId = JobId([0; JOB_ID_BYTES_MAX + 1]);

    /// From any text: characters that are not allowed become `_`, and the rest is cut off at the
    /// maximum.
    pub fn new(text: &[u8]) -> JobId {
        let mut job = JobId::NONE;
        for (place, byte) in job.0[..JOB_ID_BYTES_MAX].iter_mut().zip(text) {
            *place = if may_stand(*byte) { *byte } else { b'_' };
        }
        job
    }

    /// From the wire; `None`: no such text.
    pub fn from_bytes(bytes: [u8; JOB_ID_BYTES_MAX + 1]) -> Option<JobId> {
        let len = bytes.iter().position(|byte| *byte == 0)?;
        let (text, rest) = bytes.split_at(len);
        (text.iter().all(|byte| may_stand(*byte)) && rest.iter().all(|byte| *byte == 0))
            .then_some(JobId(bytes))
    }

    /// For the wire.
    pub const fn to_bytes(self) -> [u8; JOB_ID_BYTES_MAX + 1] {
        self.0
    }

    /// True if there is no job.
    pub fn is_none(&self) -> bool {
        self.0[0] == 0
    }

    /// Text of the job; empty if there is none.
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(JOB_ID_BYTES_MAX);
        std::str::from_utf8(&self.0[..len]).unwrap_or_default()
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({})", self.as_str())
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_one_word() {
        assert_eq!(JobId::new(b"dd.0").as_str(), "dd.0");
        assert_eq!(JobId::new("a b\"c\\\u{e9}\n".as_bytes()).as_str(), "a_b_c____");
        assert_eq!(JobId::new(&[b'x'; 100]).as_str(), "x".repeat(JOB_ID_BYTES_MAX));
        assert!(
            JobId::new(b"").is_none()
                && JobId::NONE.as_str().is_empty()
                && !JobId::new(b"a").is_none()
        );
    }

    #[test]
    fn the_wire_is_not_believed() {
        for text in ["", "dd.0", &"x".repeat(JOB_ID_BYTES_MAX)] {
            let job = JobId::new(text.as_bytes());
            assert_eq!(JobId::from_bytes(job.to_bytes()), Some(job));
        }
        let mut bytes = JobId::new(b"ab").to_bytes();
        bytes[3] = b'c';
        assert_eq!(JobId::from_bytes(bytes), None, "something behind the end");
        assert_eq!(JobId::from_bytes([b'x'; JOB_ID_BYTES_MAX + 1]), None, "no end");
        let mut bytes = JobId::new(b"ab").to_bytes();
        bytes[1] = b' ';
        assert_eq!(JobId::from_bytes(bytes), None, "not one word");
    }
}
