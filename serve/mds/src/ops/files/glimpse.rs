//! Size and times of files that other clients are writing: the writers are asked, and the reply
//! shows their answers.
//!
//! One callback per writer for all inodes of a reply. Afterwards the records are read again. An
//! answer counts only if its writer has held WRITE all the time and reported nothing to the MDT
//! meanwhile; otherwise everything is asked once more.
//!
//! A writer that is idle (it has reported everything, and no program has the file open for writing)
//! gives WRITE back. The reply then grants the asking client what it would be granted of a file
//! without writers. So files that one client made and closed cost the others one question, not one
//! with each look.
//!
//! A client may also ask for files that its program is about to look at, one after the other
//! (`GetattrMany`, `pause`). Then writers that are not idle give WRITE back, too, and the reply
//! grants what it can. A writer that goes on at once asks for WRITE again, and so calls back what
//! was granted; the asking client may let it wait for a moment.
//!
//! If several clients write a file (docs/locks/protocol.md, "Shared-write files"), all are asked
//! until two rounds agree. Each of them knows only its own writes; without the second round the
//! answer might have one client's write but not an earlier one of another. Size and times of such
//! an answer belong to the moment at which the writer answered, everything else to the moment of
//! the operation, as the names in the same answer do.

use crate::acks::unacked::Look;
use crate::locks::context::OF_WRITERS;
use crate::mds::{Mds, RequestContext};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use types::attr::Attr;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::REVOKES_PER_CALLBACK_MAX;
use types::lock::InodeBits;
use types::session::ClientUuid;
use wire::client::{ClientOp, ClientReply, Glimpsed};
use wire::mds::{Entry, MdsReply};

/// A writer that reports something between every callback and the look at the records is believed
/// at last: its report is not older than the request.
const ROUNDS: usize = 4;

/// Of each file, what its writers say.
type Answers = BTreeMap<Fid, BTreeMap<ClientUuid, Glimpsed>>;

impl Mds {
    /// Completes the attributes that a reply shows of files with other writers. A list leaves out
    /// those of a file that was removed meanwhile: what its record said may be older than what its
    /// writer had been told.
    ///
    /// # Errors
    /// ESTALE: the file was removed; the kernel looks its name up again.
    pub(crate) async fn ask_writers(
        &self,
        request: &mut RequestContext<'_>,
        reply: &mut MdsReply,
    ) -> Result<(), Errno> {
        let gone = self.ask_writers_of(request, reply).await;
        leave_out(reply, &gone)
    }

    /// As [`Mds::ask_writers`]; returns the files that were removed meanwhile.
    async fn ask_writers_of(
        &self,
        request: &mut RequestContext<'_>,
        reply: &mut MdsReply,
    ) -> Vec<Fid> {
        let mut withheld = std::mem::take(&mut request.lock_context.outcome.written_elsewhere);
        let mut entries: BTreeMap<Fid, Vec<&mut Entry>> = BTreeMap::new();
        for entry in entries_of(reply) {
            entries.entry(entry.attr.fid).or_default().push(entry);
        }
        // Also those whose writer has just gone: its report is in the records, not yet in the
        // reply.
        let mut open: BTreeMap<Fid, u64> = entries
            .iter()
            .filter_map(|(fid, shown)| Some((*fid, shown.first()?.attr.version)))
            .collect();
        let (client, stored) = (request.client(), request.lock_context.asked.stored);
        let pause = std::mem::take(&mut request.lock_context.asked.pause);
        let mut gone = Vec::new();
        let mut before = Answers::new();
        for round in 1..=ROUNDS {
            let fids: Vec<Fid> = open.keys().copied().collect();
            let answers = self.glimpse(client, &fids, stored).await;
            if !request.lock_context.outcome.urgent {
                self.call_writers_back(&answers, pause).await;
            }
            // For this client, as the first look was: the author of a change in between may hide
            // it, too.
            let looked = self.show(request, |records| {
                open.retain(|fid, version| {
                    // A damaged record: the reply shows what it showed before.
                    let Ok(looked) = records.entry(*fid) else { return false };
                    let Some(mut fresh) = looked else {
                        gone.push(*fid);
                        return false;
                    };
                    records.look(*fid, Look::Attr);
                    let Some(shown) = entries.get_mut(fid) else { return false };
                    let told = std::mem::replace(version, fresh.attr.version) != fresh.attr.version;
                    let writers = records.state.locks.writers_of(*fid, client);
                    let said = answers
                        .get(fid)
                        .filter(|said| writers.iter().all(|writer| said.contains_key(writer)));
                    let again = match said {
                        _ if writers.is_empty() => {
                            // A grant covers all that is shown. So it must be of one moment: if
                            // another client has changed more than data meanwhile (the link count),
                            // there is none.
                            if shown.iter().all(|entry| differs_in_data_only(entry, &fresh)) {
                                let withheld = withheld.remove(fid).unwrap_or_default();
                                records.grant(*fid, withheld.intersection(OF_WRITERS));
                                shown.iter_mut().for_each(|entry| **entry = fresh.clone());
                            }
                            false
                        }
                        Some(said) => {
                            // A client that no longer writes has reported everything.
                            writers.iter().for_each(|writer| apply(&mut fresh, said[writer]));
                            told || writers.len() > 1 && before.get(fid) != Some(said)
                        }
                        None => true,
                    };
                    shown.iter_mut().for_each(|entry| follow(&mut entry.attr, &fresh.attr));
                    again && round < ROUNDS
                });
                Ok(())
            });
            if looked.is_err() || open.is_empty() {
                break;
            }
            before = answers;
        }
        let refused = &mut request.lock_context.outcome.refused;
        withheld.iter().for_each(|(fid, bits)| refused.note(*fid, bits.intersection(OF_WRITERS)));
        gone
    }

    /// Asks all clients except `client` that write one of these. `store`: they store what they have
    /// written first.
    async fn glimpse(&self, client: ClientUuid, fids: &[Fid], store: bool) -> Answers {
        let writers = self.state.lock().locks.writers(client, fids);
        let questions = writers.iter().flat_map(|(export, fids)| {
            fids.chunks(REVOKES_PER_CALLBACK_MAX).map(move |fids| async move {
                match self.answer(export, ClientOp::Glimpse { fids: fids.to_vec(), store }).await {
                    Some(ClientReply::Glimpses(glimpses)) if glimpses.len() == fids.len() => {
                        let client = export.client();
                        fids.iter()
                            .zip(glimpses)
                            .map(|(fid, glimpsed)| (*fid, client, glimpsed))
                            .collect()
                    }
                    Some(_) => {
                        self.evict(export, "it does not answer a glimpse with sizes");
                        Vec::new()
                    }
                    // Its session is over: only the records remain.
                    None => Vec::new(),
                }
            })
        });
        let mut answers = Answers::new();
        for (fid, client, glimpsed) in join_all(questions).await.into_iter().flatten() {
            answers.entry(fid).or_default().insert(client, glimpsed);
        }
        answers
    }

    /// Calls WRITE back from writers that said that they do not need it; `all`: also from the
    /// others. What a writer has not reported, or has begun to write since, it stores and reports
    /// first.
    async fn call_writers_back(&self, answers: &Answers, all: bool) {
        let mut back: BTreeMap<ClientUuid, BTreeMap<Fid, InodeBits>> = BTreeMap::new();
        for (fid, said) in answers {
            let gives = |said: &Glimpsed| all || *said == Glimpsed::Idle;
            for (writer, _) in said.iter().filter(|(_, said)| gives(said)) {
                back.entry(*writer).or_default().insert(*fid, InodeBits::WRITE);
            }
        }
        if !back.is_empty() {
            // The error means that the target stops, and the answer with it.
            _ = self.call_back_and_wait(&back).await;
        }
    }
}

/// Takes over what data decides.
fn follow(shown: &mut Attr, newer: &Attr) {
    (shown.size, shown.blocks) = (newer.size, newer.blocks);
    (shown.mtime, shown.ctime) = (newer.mtime, newer.ctime);
}

/// True if nothing but size, times of changes and version differs.
fn differs_in_data_only(shown: &Entry, newer: &Entry) -> bool {
    let mut followed = shown.clone();
    follow(&mut followed.attr, &newer.attr);
    followed.attr.version = newer.attr.version;
    followed == *newer
}

/// Adds what the writer knows and the record does not.
fn apply(entry: &mut Entry, glimpsed: Glimpsed) {
    let Glimpsed::Dirty(glimpse) = glimpsed else { return };
    let attr = &mut entry.attr;
    attr.size = attr.size.max(glimpse.size);
    attr.mtime = attr.mtime.max(glimpse.mtime);
    attr.ctime = attr.ctime.max(glimpse.mtime);
}

/// Takes files that are gone out of a list.
fn leave_out(reply: &mut MdsReply, gone: &[Fid]) -> Result<(), Errno> {
    let is_gone = |entry: &Entry| gone.contains(&entry.attr.fid);
    match reply {
        MdsReply::Entry(entry) | MdsReply::Opened { entry, .. } if is_gone(entry) => {
            Err(Errno::ESTALE)
        }
        MdsReply::Attrs(attrs) => {
            for entry in attrs {
                entry.take_if(|entry| is_gone(entry));
            }
            Ok(())
        }
        MdsReply::Entries { entries, .. } => {
            for entry in entries {
                entry.entry.take_if(|entry| is_gone(entry));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Inodes that a reply shows.
fn entries_of(reply: &mut MdsReply) -> Vec<&mut Entry> {
    match reply {
        MdsReply::Entry(entry) | MdsReply::Opened { entry, .. } => vec![&mut **entry],
        MdsReply::Attrs(attrs) => attrs.iter_mut().flatten().collect(),
        MdsReply::Entries { entries, .. } => {
            entries.iter_mut().filter_map(|entry| entry.entry.as_mut()).collect()
        }
        _ => Vec::new(),
    }
}
