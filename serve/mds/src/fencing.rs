//! The fence: OSTs do nothing for a client that this MDT has evicted, until the client is heard of
//! in a new session (docs/security.md, "The fence").
//!
//! [`Evicted`] decides: which clients these are, and what each OST is still to be told. An OST is
//! told all of them at once, under a number, so a message that is lost, repeated or overtaken does
//! no harm. What an earlier life of this MDT told an OST, the OST says when it is asked first.
//!
//! [`background::fence`](crate::background::fence) tells them.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use types::limits::FENCED_MAX;
use types::session::ClientUuid;
use types::target::TargetIndex;

/// The clients that an MDT has evicted, and what OSTs know of it.
#[derive(Default)]
pub(crate) struct Fencing {
    /// False: there is no such client.
    any: AtomicBool,
    /// False: none of them has a new session.
    any_connected: AtomicBool,
    evicted: Mutex<Evicted>,
}

/// See the module. The newest [`FENCED_MAX`] are kept.
#[derive(Default)]
pub(crate) struct Evicted {
    /// Number of the newest list; 0: no client was ever evicted, as far as is known.
    number: u64,
    /// With the number of the list on which each stood first.
    clients: BTreeMap<ClientUuid, u64>,
    /// Those of them that have a new session, in which they have said nothing yet.
    connected: BTreeSet<ClientUuid>,
    /// Boot number of each OST that was asked, and the newest list that it has; 0: none.
    told: BTreeMap<TargetIndex, (u64, u64)>,
}

impl Evicted {
    /// What to send to an OST of this boot number: the number of a list (0: a question) and the
    /// list. `None`: it knows all.
    pub(crate) fn next(&self, ost: TargetIndex, boot: u64) -> Option<(u64, Vec<ClientUuid>)> {
        match self.told.get(&ost) {
            Some((known, number)) if *known == boot => {
                let all = || self.clients.keys().copied().collect();
                (*number < self.number).then(|| (self.number, all()))
            }
            _ => Some((0, Vec::new())),
        }
    }

    fn add(&mut self, clients: impl IntoIterator<Item = ClientUuid>) {
        let next = self.number + 1;
        for client in clients {
            self.clients.entry(client).or_insert(next);
            self.number = next;
        }
        while self.clients.len() > FENCED_MAX {
            let oldest = self.clients.iter().min_by_key(|(_, since)| **since);
            let Some(oldest) = oldest.map(|(client, _)| *client) else { return };
            self.clients.remove(&oldest);
        }
    }

    /// A session began (`begins`), or ended.
    fn session(&mut self, client: ClientUuid, begins: bool) {
        if begins && self.clients.contains_key(&client) {
            self.connected.insert(client);
        } else {
            self.connected.remove(&client);
        }
    }

    /// A client is heard of in its session. `true`: it was evicted before.
    pub(crate) fn returned(&mut self, client: ClientUuid) -> bool {
        let was = self.connected.remove(&client) && self.clients.remove(&client).is_some();
        self.number += u64::from(was);
        was
    }

    /// An OST of this boot number has answered the message of this number with the clients that it
    /// refuses.
    pub(crate) fn answered(
        &mut self,
        (ost, boot, number): (TargetIndex, u64, u64),
        refused: &[ClientUuid],
        is_there: impl Fn(ClientUuid) -> bool,
    ) {
        let known = self.told.entry(ost).or_default();
        *known = if known.0 == boot { (boot, known.1.max(number)) } else { (boot, number) };
        if number == 0 {
            // By word of an earlier life: each stays refused until it is heard of.
            let new = |client: &ClientUuid| !self.clients.contains_key(client);
            let absent: Vec<_> =
                refused.iter().copied().filter(new).filter(|client| !is_there(*client)).collect();
            self.add(absent);
            // The list itself is of that life.
            self.number = self.number.max(u64::from(!refused.is_empty()));
        }
    }
}

impl Fencing {
    /// Works with what is known.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Evicted) -> R) -> R {
        let mut evicted = self.evicted.lock();
        let result = f(&mut evicted);
        self.any.store(!evicted.clients.is_empty(), Ordering::SeqCst);
        self.any_connected.store(!evicted.connected.is_empty(), Ordering::SeqCst);
        result
    }

    /// True if one of them has a new session, and said nothing yet.
    pub(crate) fn any_connected(&self) -> bool {
        self.any_connected.load(Ordering::SeqCst)
    }

    /// True if an evicted client has not come back.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// A session began (`begins`), or ended.
    pub(crate) fn session(&self, client: ClientUuid, begins: bool) {
        if self.any() {
            self.with(|evicted| evicted.session(client, begins));
        }
    }

    /// These are evicted. OSTs are to be told.
    pub(crate) fn add(&self, clients: &[ClientUuid]) {
        self.with(|evicted| evicted.add(clients.iter().copied()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);
    const OST: TargetIndex = TargetIndex(0);

    fn nobody(_: ClientUuid) -> bool {
        false
    }

    #[test]
    fn an_ost_is_asked_first_and_then_told_the_newest_list() {
        let mut evicted = Evicted::default();
        assert_eq!(evicted.next(OST, 7), Some((0, vec![])));
        evicted.answered((OST, 7, 0), &[], nobody);
        assert_eq!(evicted.next(OST, 7), None, "there is nothing to tell");
        evicted.add([A]);
        evicted.add([B]);
        assert_eq!(evicted.next(OST, 7), Some((2, vec![A, B])));
        assert!(!evicted.returned(A), "a word of the old session");
        evicted.session(A, true);
        assert!(evicted.returned(A));
        evicted.answered((OST, 7, 2), &[A, B], nobody);
        assert_eq!(evicted.next(OST, 7), Some((3, vec![B])), "it changed meanwhile");
        evicted.answered((OST, 7, 3), &[B], nobody);
        evicted.answered((OST, 7, 2), &[B], nobody);
        assert_eq!(evicted.next(OST, 7), None, "an older answer came later");
        assert!(!evicted.returned(A), "it is back already");
        assert_eq!(evicted.next(OST, 8), Some((0, vec![])), "the OST has forgotten all");
        evicted.answered((OST, 8, 0), &[], nobody);
        assert_eq!(evicted.next(OST, 8), Some((3, vec![B])));
    }

    #[test]
    fn what_an_earlier_life_said_holds_until_the_client_is_heard_of() {
        let mut evicted = Evicted::default();
        evicted.answered((OST, 7, 0), &[A, B], |client| client == B);
        assert_eq!(evicted.next(OST, 7), Some((1, vec![A])), "B is there");
        evicted.answered((OST, 7, 1), &[A], nobody);
        evicted.session(A, true);
        evicted.session(A, false);
        assert!(!evicted.returned(A));
        evicted.session(A, true);
        assert!(evicted.returned(A));
        assert_eq!(evicted.next(OST, 7), Some((2, vec![])));
        let mut evicted = Evicted::default();
        evicted.answered((OST, 7, 0), &[A], |_| true);
        assert_eq!(evicted.next(OST, 7), Some((1, vec![])), "the OST must be told");
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut evicted = Evicted::default();
        let client = |n: usize| ClientUuid(FENCED_MAX as u128 + 10 - n as u128);
        (0..FENCED_MAX + 2).for_each(|n| evicted.add([client(n)]));
        assert_eq!(evicted.clients.len(), FENCED_MAX);
        let mut is_known = |n| {
            evicted.session(client(n), true);
            evicted.returned(client(n))
        };
        assert!(!is_known(1) && is_known(2));
    }
}
