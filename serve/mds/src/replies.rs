//! Replies that a client may not have seen: a request that is resent after a lost connection gets
//! the same answer, and changes nothing twice.
//!
//! Kept for changing requests of clients on the network, per client by request number, until the
//! client says that it has seen them (`xid_known`) or its session ends. Bound:
//! REQUESTS_IN_FLIGHT_MAX per client; further ones are answered EBUSY. In memory only: the replies
//! that outlive a restart are in the reply slots.

use env::watch;
use foldhash::HashMap;
use std::collections::BTreeMap;
use types::limits::REQUESTS_IN_FLIGHT_MAX;
use types::session::{ClientUuid, Xid};
use wire::message::Reply;

type Slot = watch::Receiver<Option<Reply>>;

/// Replies of all clients.
#[derive(Default)]
pub struct Replies {
    clients: HashMap<ClientUuid, BTreeMap<Xid, Slot>>,
}

/// What to do with a request.
pub enum Begin {
    /// It is new: run it, and fill the slot.
    Run(watch::Sender<Option<Reply>>),
    /// It came before: the answer is here, or will be. If the sender goes without an answer, it was
    /// never finished.
    Again(Slot),
    /// The client has too many unanswered requests.
    Full,
}

impl Replies {
    /// A changing request came.
    pub fn begin(&mut self, client: ClientUuid, xid: Xid, known: Xid) -> Begin {
        let slots = self.clients.entry(client).or_default();
        while slots.first_key_value().is_some_and(|(seen, _)| *seen < known) {
            slots.pop_first();
        }
        if let Some(slot) = slots.get(&xid) {
            return Begin::Again(slot.clone());
        }
        if slots.len() >= REQUESTS_IN_FLIGHT_MAX {
            return Begin::Full;
        }
        let (sender, slot) = watch::channel(None);
        slots.insert(xid, slot);
        Begin::Run(sender)
    }

    /// A request was dropped before it was finished: it may come again and run then.
    pub fn forget(&mut self, client: ClientUuid, xid: Xid) {
        if let Some(slots) = self.clients.get_mut(&client) {
            slots.remove(&xid);
        }
    }

    /// The session ended.
    pub fn release_client(&mut self, client: ClientUuid) {
        self.clients.remove(&client);
    }
}
