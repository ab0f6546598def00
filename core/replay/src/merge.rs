//! A restarted OST: the clients that it waits for, and the order in which it redoes their writes.
//!
//! Clients may bring more than memory holds, so changes are redone while they come. Each client
//! brings its changes in batches, by ascending transno, the next one when the last is done. As soon
//! as every client has either a batch here or nothing more, all changes are done that no later
//! batch can precede. A client that brings nothing for a whole window, while all others wait for
//! it, is late.
//!
//! **Invariant:** changes are redone by ascending transno, whichever client brought them. Bound:
//! one batch per client.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::session::{ClientUuid, Transno};

/// A change that a client brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Brought<T> {
    /// The transno that it had.
    pub transno: Transno,
    /// The client that brought it.
    pub client: ClientUuid,
    /// The change.
    pub change: T,
}

/// What the caller must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step<T> {
    /// Nothing before [`Merge::deadline`] or the next event.
    Wait,
    /// Do these, in this order.
    Apply(Vec<Brought<T>>),
    /// All is done; these clients did not come.
    End {
        /// Ascending.
        late: Vec<ClientUuid>,
    },
}

/// The sender is not waited for, or brings something that it must not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfOrder;

#[derive(Debug)]
struct Stream<T> {
    came: bool,
    done: bool,
    batch: VecDeque<(Transno, T)>,
}

/// See the module.
#[derive(Debug)]
pub struct Merge<T> {
    clients: BTreeMap<ClientUuid, Stream<T>>,
    late: Vec<ClientUuid>,
    /// Everything up to here is done.
    position: Transno,
    window: Duration,
    /// On the owner's clock.
    deadline: Duration,
}

impl<T> Merge<T> {
    /// An OST that starts at `now` with all changes up to `durable`, and waits for these clients.
    pub fn new(
        expected: impl IntoIterator<Item = ClientUuid>,
        durable: Transno,
        now: Duration,
        window: Duration,
    ) -> Merge<T> {
        let stream = |client| (client, Stream { came: false, done: false, batch: VecDeque::new() });
        let clients = expected.into_iter().map(stream).collect();
        Merge { clients, late: Vec::new(), position: durable, window, deadline: now + window }
    }

    /// Number of clients that are waited for, and how many of them have come.
    pub fn clients(&self) -> (usize, usize) {
        (self.clients.len(), self.clients.values().filter(|stream| stream.came).count())
    }

    /// The time at which [`Merge::next`] must be asked even if nothing happens.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// A client connects and begins (again); `false`: it is not waited for.
    pub fn connected(&mut self, client: ClientUuid) -> bool {
        let Some(stream) = self.clients.get_mut(&client) else { return false };
        *stream = Stream { came: true, done: false, batch: VecDeque::new() };
        true
    }

    /// A client brings a batch. Changes that were done before are passed over.
    ///
    /// # Errors
    /// [`OutOfOrder`]: not waited for, its last batch is not done, or not in order.
    pub fn bring(
        &mut self,
        client: ClientUuid,
        batch: Vec<(Transno, T)>,
    ) -> Result<(), OutOfOrder> {
        let position = self.position;
        let stream = self.clients.get_mut(&client).filter(|stream| stream.came && !stream.done);
        let stream = stream.filter(|stream| stream.batch.is_empty()).ok_or(OutOfOrder)?;
        if !batch.is_sorted_by(|one, next| one.0 < next.0) {
            return Err(OutOfOrder);
        }
        stream.batch = batch.into_iter().filter(|(transno, _)| *transno > position).collect();
        Ok(())
    }

    /// A client has brought everything. `false`: it is not waited for.
    pub fn done(&mut self, client: ClientUuid) -> bool {
        let stream = self.clients.get_mut(&client).filter(|stream| stream.came);
        stream.map(|stream| stream.done = true).is_some()
    }

    /// True if all that this client brought is done. `None` if it is not waited for (any more).
    pub fn is_taken(&self, client: ClientUuid) -> Option<bool> {
        self.clients.get(&client).map(|stream| stream.batch.is_empty())
    }

    /// Stops waiting for this client: it went, or its changes cannot be done.
    pub fn gone(&mut self, client: ClientUuid) {
        self.clients.remove(&client);
    }

    /// The clients that have come, ascending.
    pub fn came(&self) -> impl Iterator<Item = ClientUuid> {
        self.clients.iter().filter(|(_, stream)| stream.came).map(|(client, _)| *client)
    }

    /// What the caller must do now.
    pub fn next(&mut self, now: Duration) -> Step<T> {
        let waits_for = |stream: &Stream<T>| !stream.done && stream.batch.is_empty();
        if now >= self.deadline {
            let late: Vec<ClientUuid> =
                self.clients.iter().filter(|(_, s)| waits_for(s)).map(|(c, _)| *c).collect();
            late.iter().for_each(|client| drop(self.clients.remove(client)));
            self.late.extend(late);
        }
        if self.clients.values().any(waits_for) {
            return Step::Wait;
        }
        let more = self.clients.values().filter(|stream| !stream.done);
        let safe = more.filter_map(|stream| stream.batch.back().map(|(transno, _)| *transno)).min();
        let mut changes = Vec::new();
        for (client, stream) in &mut self.clients {
            let count = stream
                .batch
                .partition_point(|(transno, _)| safe.is_none_or(|safe| *transno <= safe));
            let ready = stream.batch.drain(..count);
            changes.extend(ready.map(|(transno, change)| Brought {
                transno,
                client: *client,
                change,
            }));
        }
        changes.sort_by_key(|brought| brought.transno);
        let Some(last) = changes.last() else {
            self.late.sort_unstable();
            return Step::End { late: std::mem::take(&mut self.late) };
        };
        self.position = last.transno;
        self.deadline = now + self.window;
        Step::Apply(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);
    const START: Duration = Duration::from_secs(100);
    const WINDOW: Duration = Duration::from_secs(25);

    fn fresh() -> Merge<u64> {
        Merge::new([A, B], Transno(10), START, WINDOW)
    }

    fn batch(transnos: &[u64]) -> Vec<(Transno, u64)> {
        transnos.iter().map(|n| (Transno(*n), *n)).collect()
    }

    fn applied(step: Step<u64>) -> Vec<u64> {
        match step {
            Step::Apply(changes) => changes.into_iter().map(|brought| brought.change).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_done_before_all_have_come_and_then_in_order() {
        let mut merge = fresh();
        assert!(merge.connected(A));
        merge.bring(A, batch(&[9, 12, 15])).unwrap();
        assert_eq!((merge.next(START), merge.clients()), (Step::Wait, (2, 1)));
        assert!(merge.connected(B));
        merge.bring(B, batch(&[11, 13])).unwrap();
        assert_eq!(applied(merge.next(START)), [11, 12, 13], "B may bring 14");
        assert_eq!((merge.is_taken(A), merge.is_taken(B)), (Some(false), Some(true)));
        assert_eq!(merge.bring(A, batch(&[16])), Err(OutOfOrder), "the last one is not done");
        assert_eq!(merge.next(START), Step::Wait);
        assert!(merge.done(B));
        assert_eq!(applied(merge.next(START)), [15]);
        assert!(merge.done(A));
        assert_eq!(merge.next(START), Step::End { late: vec![] });
    }

    #[test]
    fn who_does_not_come_or_go_on_is_late() {
        let mut merge = fresh();
        merge.connected(A);
        merge.bring(A, batch(&[12])).unwrap();
        assert_eq!(merge.next(START + WINDOW - Duration::from_nanos(1)), Step::Wait);
        assert_eq!(applied(merge.next(START + WINDOW)), [12]);
        assert!(!merge.connected(B), "too late");
        assert_eq!(merge.next(START + WINDOW), Step::Wait, "A did not say that this was all");
        assert_eq!(merge.deadline(), START + 2 * WINDOW);
        assert_eq!(merge.next(START + 2 * WINDOW), Step::End { late: vec![A, B] });
    }

    #[test]
    fn who_comes_again_begins_again_and_nothing_is_done_twice() {
        let mut merge = fresh();
        merge.connected(A);
        merge.connected(B);
        merge.bring(A, batch(&[11, 14])).unwrap();
        merge.bring(B, batch(&[12])).unwrap();
        assert_eq!(applied(merge.next(START)), [11, 12]);
        assert!(merge.connected(A));
        merge.done(B);
        assert_eq!(merge.next(START), Step::Wait);
        merge.bring(A, batch(&[11, 14])).unwrap();
        merge.done(A);
        assert_eq!(applied(merge.next(START)), [14]);
        assert_eq!(merge.next(START), Step::End { late: vec![] });
    }

    #[test]
    fn strangers_and_disorder_are_refused_and_nobody_is_nobody() {
        let mut merge = fresh();
        assert_eq!(merge.bring(A, batch(&[11])), Err(OutOfOrder), "not connected");
        merge.connected(A);
        assert_eq!(merge.bring(A, batch(&[12, 11])), Err(OutOfOrder));
        assert!(!merge.connected(ClientUuid(9)) && !merge.done(ClientUuid(9)));
        merge.gone(A);
        merge.gone(B);
        assert_eq!(merge.is_taken(A), None);
        assert_eq!(merge.next(START), Step::End { late: vec![] });
    }

    proptest! {
        /// However the changes are dealt out and cut into batches, all of them are done, in order.
        #[test]
        fn all_in_order(owners in prop::collection::vec(0..3u128, 0..60), size in 1..9usize) {
            let clients = [ClientUuid(0), ClientUuid(1), ClientUuid(2)];
            let mut merge = Merge::new(clients, Transno(0), START, WINDOW);
            let mut left: BTreeMap<ClientUuid, Vec<u64>> = clients.into_iter().map(|c| (c, vec![])).collect();
            for (at, owner) in owners.iter().enumerate() {
                left.get_mut(&ClientUuid(*owner)).unwrap().push(at as u64 + 1);
            }
            clients.into_iter().for_each(|client| assert!(merge.connected(client)));
            let mut seen = Vec::new();
            loop {
                match merge.next(START) {
                    Step::Apply(changes) => seen.extend(changes.into_iter().map(|brought| brought.change)),
                    Step::End { late } => {
                        prop_assert_eq!(late, []);
                        break;
                    }
                    Step::Wait => {
                        let (client, mine) = left.iter_mut().find(|(c, _)| merge.is_taken(**c) == Some(true)
                            && !merge.clients[*c].done).expect("somebody is waited for");
                        let next: Vec<u64> = mine.drain(..size.min(mine.len())).collect();
                        if next.is_empty() {
                            merge.done(*client);
                        } else {
                            merge.bring(*client, batch(&next)).unwrap();
                        }
                    }
                }
            }
            prop_assert_eq!(seen, (1..=owners.len() as u64).collect::<Vec<_>>());
        }
    }
}
