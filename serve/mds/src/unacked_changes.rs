//! Authors whose own mount may not know yet what they changed.
//!
//! The author of a change keeps its locks and learns of the change from the reply. From the change
//! until its kernel has read the reply, the author's other threads see the state before, while
//! every other client could see the one after. So each change stays here until its author has
//! surely read the answer.
//!
//! `Records` notes what an operation reads. An operation that looks at such a change gets its
//! answer only when the author was called back: the lock bits that cover the change are revoked, as
//! from any other holder. Usually no client looks, and then this costs one entry per change.
//!
//! The author's LOOKUP and UPDATE of an inode that it removed for good stay until then, too: they
//! may be all that covers the name and the attributes at its mount.
//!
//! A change is known to its author in two steps: a later request (a ping, too) says that all
//! requests up to it were answered (`xid_known`), and then its kernel gets some time
//! (`author_grace`). A client that is alone is not noted at all.

use foldhash::{HashMap, HashSet};
use namespace::view::Change;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::{ClientUuid, Xid};

/// Changes of one client that are kept. Beyond it the oldest go: a client with this many unanswered
/// changes, or this many in so short a time, is long past the first of them.
const CHANGES_MAX: usize = 65_536;

/// The inodes and bits that the author may still cover with its locks: all parts of one operation.
pub(crate) type Changed = Arc<[(Fid, InodeBits)]>;

/// The part of an inode that an operation looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look<'a> {
    /// One name of a directory.
    Name(&'a [u8]),
    /// The names of a directory.
    Names,
    /// An inode, without the parts that change in a directory with each of its names.
    Inode,
    /// All attributes.
    Attr,
    /// Extended attributes.
    Xattr,
}

/// One inode of one change.
struct Part {
    number: u64,
    client: ClientUuid,
    bits: InodeBits,
    names: SmallVec<[Box<[u8]>; 2]>,
    changed: Changed,
}

impl Part {
    fn shows(&self, look: Look<'_>) -> bool {
        match look {
            Look::Name(name) => self.names.iter().any(|changed| **changed == *name),
            Look::Names => !self.names.is_empty(),
            Look::Inode => self.names.is_empty(),
            Look::Attr => self.bits.contains(InodeBits::UPDATE),
            Look::Xattr => self.bits.contains(InodeBits::XATTR),
        }
    }
}

/// Parts of changes that their authors may not know yet.
#[derive(Default)]
struct Parts {
    of: HashMap<Fid, Vec<Part>>,
    /// Inodes that were destroyed and have parts.
    destroyed: HashSet<Fid>,
    /// Destroyed inodes of which no author shows a name any more.
    over: Vec<Fid>,
}

impl Parts {
    fn drop_change(&mut self, number: u64, changed: &Changed) {
        changed.iter().for_each(|(fid, _)| self.retain(*fid, |part| part.number != number));
    }

    fn retain(&mut self, fid: Fid, keep: impl Fn(&Part) -> bool) {
        let Some(of) = self.of.get_mut(&fid) else { return };
        of.retain(keep);
        if of.is_empty() {
            self.of.remove(&fid);
            if self.destroyed.remove(&fid) {
                self.over.push(fid);
            }
        }
    }
}

/// Changes of one client, oldest first.
#[derive(Default)]
struct Author {
    unanswered: VecDeque<(Xid, u64, Changed)>,
    /// Since when the reply is there.
    answered: VecDeque<(Duration, u64, Changed)>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct UnackedChanges {
    last: u64,
    grace: Duration,
    parts: Parts,
    authors: HashMap<ClientUuid, Author>,
    /// The changes that the running operation has seen; drained when it is over.
    seen: RefCell<BTreeMap<u64, (ClientUuid, Changed)>>,
}

impl UnackedChanges {
    /// An empty table. The client's kernel reads an arrived reply within `grace`.
    pub(crate) fn new(grace: Duration) -> UnackedChanges {
        UnackedChanges { grace, ..UnackedChanges::default() }
    }

    /// A request of `client` changes this.
    pub(crate) fn note(&mut self, client: ClientUuid, xid: Xid, changes: &[Change<'_>]) {
        self.last += 1;
        // Handles of removed files are handled elsewhere, and so is data.
        let attributes = InodeBits::UPDATE.union(InodeBits::PERM).union(InodeBits::XATTR);
        let mask = attributes.union(InodeBits::LOOKUP).union(InodeBits::LAYOUT);
        // The mount of a writer shows what it wrote; anything else it may hide under WRITE too.
        let bits_of = |change: &Change<'_>| match change.bits.intersection(mask) {
            bits if !change.shown && bits.contains(InodeBits::UPDATE) => bits.union(InodeBits::WRITE),
            bits => bits,
        };
        let changed: Changed = changes.iter().map(|change| (change.fid, bits_of(change))).collect();
        for change in changes {
            let names = change.names.iter().flatten().map(|name| Box::from(*name)).collect();
            let bits = bits_of(change);
            let part = Part { number: self.last, client, bits, names, changed: changed.clone() };
            self.parts.of.entry(change.fid).or_default().push(part);
        }
        let author = self.authors.entry(client).or_default();
        author.unanswered.push_back((xid, self.last, changed));
        let surplus = (author.unanswered.len() + author.answered.len()).saturating_sub(CHANGES_MAX);
        for _ in 0..surplus {
            let answered = author.answered.pop_front().map(|(_, number, changed)| (number, changed));
            let oldest =
                answered.or_else(|| author.unanswered.pop_front().map(|(_, number, changed)| (number, changed)));
            if let Some((number, changed)) = oldest {
                self.parts.drop_change(number, &changed);
            }
        }
    }

    /// A request of `client` came: it has the answers to all below `known`.
    pub(crate) fn known(&mut self, client: ClientUuid, known: Xid, now: Duration) {
        if self.parts.of.is_empty() {
            return;
        }
        let Some(author) = self.authors.get_mut(&client) else { return };
        while let Some((xid, ..)) = author.unanswered.front()
            && *xid < known
            && let Some((_, number, changed)) = author.unanswered.pop_front()
        {
            author.answered.push_back((now, number, changed));
        }
        while let Some((at, ..)) = author.answered.front()
            && now.saturating_sub(*at) >= self.grace
            && let Some((_, number, changed)) = author.answered.pop_front()
        {
            self.parts.drop_change(number, &changed);
        }
    }

    /// `client` looks at something.
    pub(crate) fn look(&self, client: ClientUuid, fid: Fid, look: Look<'_>) {
        if self.parts.of.is_empty() || client == ClientUuid::default() {
            return;
        }
        let parts = self.parts.of.get(&fid).into_iter().flatten();
        let mut seen = self.seen.borrow_mut();
        for part in parts.filter(|part| part.client != client && part.shows(look)) {
            seen.entry(part.number).or_insert_with(|| (part.client, part.changed.clone()));
        }
    }

    /// Names of a directory that others changed, and may still show as they were.
    pub(crate) fn names(&self, client: ClientUuid, dir: Fid) -> impl Iterator<Item = &[u8]> {
        let parts = self.parts.of.get(&dir).into_iter().flatten();
        parts.filter(move |part| part.client != client).flat_map(|part| &part.names).map(|name| &**name)
    }

    /// The changes that were looked at since the last call, with their authors.
    pub(crate) fn take_seen(&mut self) -> Vec<(ClientUuid, Changed)> {
        match self.seen.get_mut() {
            none if none.is_empty() => Vec::new(),
            seen => std::mem::take(seen).into_values().collect(),
        }
    }

    /// Number of the newest change.
    pub(crate) fn newest(&self) -> u64 {
        self.last
    }

    /// The author was asked to drop these bits, and has. Its changes up to `newest` are over if all
    /// their bits were among them: its mount now shows them as they are.
    pub(crate) fn settled(&mut self, client: ClientUuid, newest: u64, asked: &BTreeMap<Fid, InodeBits>) {
        let was_asked = |(fid, bits): &(Fid, InodeBits)| asked.get(fid).is_some_and(|asked| asked.contains(*bits));
        for fid in asked.keys() {
            self.parts.retain(*fid, |part| {
                part.client != client || part.number > newest || !part.changed.iter().all(was_asked)
            });
        }
    }

    /// An inode is destroyed. Returns the clients that may still show a name of it. If there are
    /// any, [`UnackedChanges::take_over`] returns the inode when none is left.
    pub(crate) fn destroyed(&mut self, fid: Fid) -> SmallVec<[ClientUuid; 1]> {
        let parts = self.parts.of.get(&fid).into_iter().flatten();
        let shown: SmallVec<_> = parts.map(|part| part.client).collect();
        if !shown.is_empty() {
            self.parts.destroyed.insert(fid);
        }
        shown
    }

    /// Takes the destroyed inodes of which no client shows a name any more: their locks are over.
    pub(crate) fn take_over(&mut self) -> Vec<Fid> {
        std::mem::take(&mut self.parts.over)
    }

    /// The session is over, and its locks with it.
    pub(crate) fn gone(&mut self, client: ClientUuid) {
        let Some(author) = self.authors.remove(&client) else { return };
        let unanswered = author.unanswered.into_iter().map(|(_, number, changed)| (number, changed));
        let answered = author.answered.into_iter().map(|(_, number, changed)| (number, changed));
        for (number, changed) in unanswered.chain(answered) {
            self.parts.drop_change(number, &changed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHOR: ClientUuid = ClientUuid(1);
    const OTHER: ClientUuid = ClientUuid(2);
    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const FILE: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 2, ver: 0 };

    fn unlinked() -> UnackedChanges {
        let mut unacked = UnackedChanges::new(Duration::from_millis(500));
        unacked.note(AUTHOR, Xid(7), &[Change::name(DIR, b"a"), Change::named(FILE, false)]);
        unacked
    }

    fn asked(fids: &[Fid]) -> BTreeMap<Fid, InodeBits> {
        fids.iter().map(|fid| (*fid, InodeBits::ALL)).collect()
    }

    fn sees(unacked: &mut UnackedChanges, who: ClientUuid, fid: Fid, look: Look<'_>) -> bool {
        unacked.look(who, fid, look);
        let seen = unacked.take_seen();
        let update = InodeBits::UPDATE.union(InodeBits::WRITE);
        let all = [(DIR, update), (FILE, InodeBits::LOOKUP.union(update))];
        assert!(seen.iter().all(|(client, changed)| *client == AUTHOR && **changed == all));
        !seen.is_empty()
    }

    #[test]
    fn who_looks_at_what_was_changed_sees_the_author() {
        let mut unacked = unlinked();
        assert!(sees(&mut unacked, OTHER, DIR, Look::Name(b"a")));
        assert!(!sees(&mut unacked, OTHER, DIR, Look::Name(b"b")), "another name");
        assert!(!sees(&mut unacked, OTHER, DIR, Look::Inode), "only its names changed");
        assert!(sees(&mut unacked, OTHER, DIR, Look::Attr));
        assert!(sees(&mut unacked, OTHER, DIR, Look::Names));
        assert!(sees(&mut unacked, OTHER, FILE, Look::Inode));
        assert!(!sees(&mut unacked, OTHER, FILE, Look::Xattr));
        assert!(!sees(&mut unacked, AUTHOR, DIR, Look::Names), "its own");
        assert!(!sees(&mut unacked, ClientUuid::default(), DIR, Look::Names), "the target itself");
    }

    #[test]
    fn it_is_over_some_time_after_the_author_has_the_answer() {
        let mut unacked = unlinked();
        let at = Duration::from_secs;
        unacked.known(AUTHOR, Xid(7), at(10));
        unacked.known(AUTHOR, Xid(7), at(20));
        assert!(sees(&mut unacked, OTHER, DIR, Look::Names), "7 itself is not answered");
        unacked.known(AUTHOR, Xid(8), at(30));
        assert!(sees(&mut unacked, OTHER, DIR, Look::Names), "a moment for its kernel");
        unacked.known(AUTHOR, Xid(8), at(31));
        assert!(!sees(&mut unacked, OTHER, DIR, Look::Names));
        assert!(unacked.parts.of.is_empty());
    }

    #[test]
    fn a_callback_settles_what_was_changed_before_it() {
        let mut unacked = unlinked();
        let newest = unacked.newest();
        unacked.note(AUTHOR, Xid(8), &[Change::name(DIR, b"b")]);
        unacked.settled(AUTHOR, newest, &asked(&[DIR, FILE]));
        unacked.look(OTHER, DIR, Look::Name(b"a"));
        assert!(unacked.take_seen().is_empty());
        unacked.look(OTHER, DIR, Look::Name(b"b"));
        assert_eq!(unacked.take_seen().len(), 1, "changed after the question");
        unacked.gone(AUTHOR);
        assert!(unacked.parts.of.is_empty() && unacked.authors.is_empty());
    }

    #[test]
    fn a_callback_of_a_part_settles_no_change_that_has_more() {
        let mut unacked = unlinked();
        let newest = unacked.newest();
        unacked.settled(AUTHOR, newest, &asked(&[DIR]));
        assert!(sees(&mut unacked, OTHER, DIR, Look::Names), "its mount still shows the file");
    }

    #[test]
    fn what_was_destroyed_is_over_when_its_authors_know() {
        let mut unacked = unlinked();
        assert_eq!(unacked.destroyed(FILE)[..], [AUTHOR]);
        assert!(unacked.destroyed(Fid { oid: 9, ..DIR }).is_empty(), "nobody removed its name a moment ago");
        assert_eq!(unacked.take_over(), []);
        let newest = unacked.newest();
        unacked.settled(AUTHOR, newest, &asked(&[DIR, FILE]));
        assert_eq!((unacked.take_over(), unacked.take_over()), (vec![FILE], vec![]));
        let mut unacked = unlinked();
        unacked.destroyed(FILE);
        unacked.gone(AUTHOR);
        assert_eq!(unacked.take_over(), [FILE]);
        assert!(unacked.parts.destroyed.is_empty());
    }

    #[test]
    fn changes_are_bounded() {
        let mut unacked = UnackedChanges::default();
        for xid in 0..=CHANGES_MAX as u64 {
            unacked.note(AUTHOR, Xid(xid), &[Change::of(Fid { oid: xid as u32, ..DIR }, InodeBits::UPDATE)]);
        }
        assert_eq!(unacked.parts.of.len(), CHANGES_MAX);
        unacked.look(OTHER, Fid { oid: 0, ..DIR }, Look::Attr);
        assert!(unacked.take_seen().is_empty(), "the oldest went");
    }
}
