//! Scrubs of the OSTs of this process, as the control socket tells of them.

use crate::watch::view::View;
use oss::scrub::Scrubbing;
use serde::{Deserialize, Serialize};

/// A bad block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadAnswer {
    /// Of which object, for people.
    pub object: String,
    /// Start of the run, bytes.
    pub offset: u64,
}

/// State of the newest scrub of an OST.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubAnswer {
    /// The OST.
    pub target: String,
    /// It is under way: the rest is not known yet.
    pub running: bool,
    /// Why it could not be finished.
    pub failed: Option<String>,
    /// Objects that were read.
    pub objects: u64,
    /// Blocks that were compared with their checksums.
    pub checked: u64,
    /// Blocks without a checksum that counts.
    pub unchecked: u64,
    /// Bad blocks that are named.
    pub bad: Vec<BadAnswer>,
    /// Further ones.
    pub bad_more: u64,
}

impl ScrubAnswer {
    /// Of a target.
    pub fn new(target: String, scrubbing: Scrubbing) -> ScrubAnswer {
        let this = ScrubAnswer { target, ..ScrubAnswer::default() };
        match scrubbing {
            Scrubbing::Never => this,
            Scrubbing::Running => ScrubAnswer { running: true, ..this },
            Scrubbing::Failed(reason) => ScrubAnswer { failed: Some(reason), ..this },
            Scrubbing::Done(report) => ScrubAnswer {
                objects: report.objects,
                checked: report.checked,
                unchecked: report.unchecked,
                bad: report
                    .bad
                    .iter()
                    .map(|bad| BadAnswer { object: bad.object.to_string(), offset: bad.offset })
                    .collect(),
                bad_more: report.bad_more,
                ..this
            },
        }
    }
}

/// All OSTs of this process; `begin`: they begin to scrub first.
pub fn answer(view: &View, begin: bool) -> Vec<ScrubAnswer> {
    let osts = view.alive().osts();
    let of = |(ost, target): &(std::sync::Arc<oss::ost::Ost>, std::sync::Arc<target::Target>)| {
        if begin {
            ost.begin_scrub();
        }
        let name = target
            .name()
            .map_or_else(|| target.dir().display().to_string(), |name| name.to_string());
        ScrubAnswer::new(name, ost.scrubbing())
    };
    osts.iter().map(of).collect()
}
