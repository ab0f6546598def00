//! The cluster that a log was made for, and what a host compares before it uses the log.

use super::{SharedLog, head_of, number, put};
use crate::error::StoreError;
use crate::kv::{Compare, Txn};
use crate::log::Position;
use std::sync::atomic::Ordering;
use types::session::ClusterId;

impl SharedLog {
    /// With the NIDs at which the MGS of this host's cluster is found, with spaces between; empty:
    /// they are not known.
    pub fn for_mgs(self, mgs: &str) -> SharedLog {
        SharedLog { mgs: mgs.to_owned(), ..self }
    }

    /// What the log was made with, or what [`SharedLog::join`] or [`SharedLog::note_identity`]
    /// noted; empty: nothing.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn identity(&self) -> Result<String, StoreError> {
        let found = self.kv.get(&[self.key("identity")]).map_err(|e| self.error(e))?;
        self.text_of(found.into_iter().next().flatten(), "identity")
    }

    /// Succeeds if the log is that of this cluster; to be asked before anything of it is copied,
    /// applied or claimed. A log without an entry that has no cluster yet is this one's from now
    /// on. Returns the identity: it begins with the cluster, a space may stand behind it. Empty:
    /// the log has entries and tells no cluster, as those of earlier versions that no owner
    /// completed.
    ///
    /// # Errors
    /// It is that of another cluster; or the keys cannot be read or written.
    pub fn join(&self, cluster: ClusterId) -> Result<String, StoreError> {
        let ours = format!("{:032x}", cluster.0);
        let mut found = self.identity()?;
        if found.is_empty() {
            let untouched = Compare::Is(self.key("head"), head_of(Position::default()));
            self.note(&ours, &untouched, &[""])?;
            // Another host may have been first.
            found = self.identity()?;
        }
        match found.split(' ').next() {
            Some(theirs) if !theirs.is_empty() && theirs != ours => {
                let theirs = u128::from_str_radix(theirs, 16).map(ClusterId);
                let theirs = theirs.map_err(|_| self.damaged("its identity is none".into()))?;
                Err(self.of_another(format!("cluster {theirs}"), format!("cluster {cluster}")))
            }
            _ => Ok(found),
        }
    }

    /// The owner notes what other hosts need before they serve the target, and where its MGS is. A
    /// log that has another identity keeps that: it may lack one, or all but the cluster. Does
    /// nothing for a process that is not the owner.
    ///
    /// # Errors
    /// The keys cannot be written.
    pub fn note_identity(&self, identity: &str) -> Result<(), StoreError> {
        let owned = self.owned.load(Ordering::Acquire);
        if owned == 0 {
            return Ok(());
        }
        let owned = Compare::Is(self.key("epoch"), number(owned));
        let cluster = identity.split(' ').next().unwrap_or_default();
        self.note(identity, &owned, &["", cluster])?;
        if self.mgs.is_empty() {
            return Ok(());
        }
        let mgs = put(self.key("mgs"), self.mgs.as_bytes().to_vec());
        let mgs = Txn { compare: vec![owned], then: vec![mgs], otherwise: Vec::new() };
        self.kv.txn(&mgs).map(drop).map_err(|e| self.error(e))
    }

    /// Sets the identity if the condition holds and it is one of `before` now. Empty: it has none.
    fn note(&self, identity: &str, and: &Compare, before: &[&str]) -> Result<(), StoreError> {
        let key = self.key("identity");
        let mut known: Vec<Compare> =
            before.iter().map(|text| Compare::Is(key.clone(), text.as_bytes().to_vec())).collect();
        if before.contains(&"") {
            // A log of a version that had no such key.
            known.push(Compare::Absent(key.clone()));
        }
        for known in known {
            let note = put(key.clone(), identity.as_bytes().to_vec());
            let compare = vec![known, and.clone()];
            let note = Txn { compare, then: vec![note], otherwise: Vec::new() };
            self.kv.txn(&note).map_err(|e| self.error(e))?;
        }
        Ok(())
    }

    /// A host that is made for an MGS elsewhere is none of this target. Without a word of one of
    /// both nothing is said; but a host of the MGS must name one (`is_mgs`), for nothing else tells
    /// two of them apart.
    pub(super) fn check_mgs(&self, value: Option<Vec<u8>>, is_mgs: bool) -> Result<(), StoreError> {
        let theirs = self.text_of(value, "mgs")?;
        let is_ours = |nid: &str| self.mgs.split(' ').any(|our| our == nid);
        let unnamed = self.mgs.is_empty() && !is_mgs;
        if theirs.is_empty() || unnamed || theirs.split(' ').any(is_ours) {
            return Ok(());
        }
        let named = |nids: &str| match nids {
            "" => "an MGS whose hosts --servicenode does not name".to_owned(),
            nids => format!("the MGS at {}", nids.replace(' ', ", ")),
        };
        Err(self.of_another(named(&theirs), named(&self.mgs)))
    }

    fn of_another(&self, theirs: String, ours: String) -> StoreError {
        StoreError::OtherCluster {
            log: self.name().into(),
            theirs: theirs.into(),
            ours: ours.into(),
        }
    }

    pub(super) fn text_of(&self, value: Option<Vec<u8>>, what: &str) -> Result<String, StoreError> {
        String::from_utf8(value.unwrap_or_default())
            .map_err(|_| self.damaged(format!("its {what} is no text")))
    }
}
