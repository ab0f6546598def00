//! The result: findings and what was done about them, as text and as JSON, and the exit status of
//! fsck(8).

use check::check::Counts;
use check::finding::Finding;
use serde::Serialize;
use std::io::{self, Write};

/// Nothing is wrong.
pub const CLEAN: u8 = 0;
/// Something was wrong and is right now.
pub const REPAIRED: u8 = 1;
/// Something is wrong.
pub const LEFT: u8 = 4;
/// Something could not be looked at, or not be done.
pub const OPERATIONAL: u8 = 8;

/// What was done about a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The finding remains.
    Left {
        /// What an administrator can do.
        advice: &'static str,
    },
    /// It was repaired.
    Repaired {
        /// The repair that was made.
        what: &'static str,
    },
}

/// One confirmed finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The finding.
    pub finding: Finding,
    /// And then.
    pub outcome: Outcome,
}

/// Something wrong with the records of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFinding {
    /// Its kind; stable.
    pub kind: &'static str,
    /// A sentence.
    pub text: String,
    /// What an administrator can do.
    pub advice: &'static str,
    /// The repair that was made.
    pub done: Option<&'static str>,
}

/// A whole run.
#[derive(Debug, Default)]
pub struct Report {
    /// The checked file system.
    pub what: String,
    /// Findings in the order in which they were settled.
    pub told: Vec<Told>,
    /// Findings about volumes.
    pub volumes: Vec<VolumeFinding>,
    /// How much was looked at, in the last round.
    pub counts: Counts,
    /// Suspicions about inodes that changed each time they were looked at.
    pub unsettled: u64,
    /// Parts that could not be looked at, one sentence each.
    pub trouble: Vec<String>,
    /// Times that everything was read.
    pub rounds: u32,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fid: Option<String>,
    text: String,
    state: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonReport<'a> {
    checked: &'a str,
    status: u8,
    inodes: u64,
    directories: u64,
    names: u64,
    objects: u64,
    object_bytes: u64,
    orphans: u64,
    destroying: u64,
    rounds: u32,
    unsettled: u64,
    findings_more: u64,
    findings: Vec<JsonFinding<'a>>,
    trouble: &'a [String],
}

impl Report {
    /// Findings that were repaired.
    pub fn repaired(&self) -> usize {
        let told = self.told.iter();
        told.filter(|told| matches!(told.outcome, Outcome::Repaired { .. })).count()
            + self.volumes.iter().filter(|finding| finding.done.is_some()).count()
    }

    /// Findings that are still so, those that were not kept included.
    pub fn left(&self) -> u64 {
        (self.told.len() + self.volumes.len() - self.repaired()) as u64 + self.counts.findings_more
    }

    /// Exit status: the sum of what applies.
    pub fn status(&self) -> u8 {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        bit(self.repaired() > 0, REPAIRED)
            | bit(self.left() > 0, LEFT)
            | bit(!self.trouble.is_empty(), OPERATIONAL)
    }

    /// For people: a line for each finding, one for what was looked at, one for the end.
    ///
    /// # Errors
    /// The writer refuses.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        for Told { finding, outcome } in &self.told {
            match outcome {
                Outcome::Left { advice } => writeln!(out, "{finding}\n    left; {advice}")?,
                Outcome::Repaired { what } => writeln!(out, "{finding}\n    repaired: {what}")?,
            }
        }
        for VolumeFinding { text, advice, done, .. } in &self.volumes {
            match done {
                None => writeln!(out, "{text}\n    left; {advice}")?,
                Some(what) => writeln!(out, "{text}\n    repaired: {what}")?,
            }
        }
        if self.counts.findings_more > 0 {
            writeln!(out, "and {} findings more", self.counts.findings_more)?;
        }
        for sentence in &self.trouble {
            writeln!(out, "not looked at: {sentence}")?;
        }
        if self.unsettled > 0 {
            writeln!(
                out,
                "{} inodes changed each time they were looked at and may be wrong; run it again when they are quiet",
                self.unsettled
            )?;
        }
        let Counts {
            inodes, directories, names, objects, object_bytes, orphans, destroying, ..
        } = self.counts;
        writeln!(
            out,
            "{}: {inodes} inodes ({directories} directories, {orphans} removed but open), {names} names, {objects} \
             objects with {object_bytes} bytes, {destroying} removals under way",
            self.what
        )?;
        let (repaired, left) = (self.repaired(), self.left());
        match (repaired, left, self.trouble.is_empty()) {
            (0, 0, true) => writeln!(out, "clean"),
            (0, 0, false) => writeln!(out, "nothing wrong in what was looked at"),
            _ => writeln!(out, "{repaired} repaired, {left} left"),
        }
    }

    /// For programs; keys and kinds are stable.
    ///
    /// # Errors
    /// The writer refuses.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let finding = |told: &'_ Told| {
            let (state, done) = match told.outcome {
                Outcome::Left { .. } => ("left", None),
                Outcome::Repaired { what } => ("repaired", Some(what)),
            };
            let (kind, fid) = (told.finding.kind(), told.finding.fid().map(|fid| fid.to_string()));
            JsonFinding { kind, fid, text: told.finding.to_string(), state, done }
        };
        let of_volume = |finding: &VolumeFinding| JsonFinding {
            kind: finding.kind,
            fid: None,
            text: finding.text.clone(),
            state: if finding.done.is_some() { "repaired" } else { "left" },
            done: finding.done,
        };
        let report = JsonReport {
            checked: &self.what,
            status: self.status(),
            inodes: self.counts.inodes,
            directories: self.counts.directories,
            names: self.counts.names,
            objects: self.counts.objects,
            object_bytes: self.counts.object_bytes,
            orphans: self.counts.orphans,
            destroying: self.counts.destroying,
            rounds: self.rounds,
            unsettled: self.unsettled,
            findings_more: self.counts.findings_more,
            findings: self
                .told
                .iter()
                .map(finding)
                .chain(self.volumes.iter().map(of_volume))
                .collect(),
            trouble: &self.trouble,
        };
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)
    }
}
