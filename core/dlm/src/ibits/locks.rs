//! Storage of locks: one slot each, in a list per client from the least to the most recently
//! granted.
//!
//! Clients have small numbers here, so that a lock is 48 bytes. A number is free again when its
//! client is gone. **Invariant:** a slot is in exactly one list, that of its client, or free.

use foldhash::fast::FixedState;
use std::collections::HashMap;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;

/// No slot, or no client.
pub(super) const NONE: u32 = u32::MAX;

/// One client, one inode, some bits.
pub(super) struct Lock {
    pub(super) fid: Fid,
    pub(super) client: u32,
    pub(super) bits: InodeBits,
    /// Bits that the client was asked to drop, until it answers. It may have given some of them
    /// back meanwhile.
    pub(super) revoking: InodeBits,
    /// How many questions about names of the directory the client has not answered.
    pub(super) changing: u32,
    older: u32,
    newer: u32,
}

impl Lock {
    /// Bits that the client may not be granted before it has answered.
    pub(super) fn asked(&self) -> InodeBits {
        match self.changing {
            0 => self.revoking,
            _ => self.revoking.union(InodeBits::UPDATE),
        }
    }

    /// True if the client holds nothing and owes no answer.
    pub(super) fn is_over(&self) -> bool {
        self.bits.is_empty() && self.asked().is_empty()
    }
}

struct Client {
    uuid: ClientUuid,
    oldest: u32,
    newest: u32,
    count: usize,
}

/// All locks by slot, and the clients that may have locks.
#[derive(Default)]
pub(super) struct Locks {
    slots: Vec<Lock>,
    free_slots: Vec<u32>,
    numbers: HashMap<ClientUuid, u32, FixedState>,
    clients: Vec<Option<Client>>,
    free_numbers: Vec<u32>,
}

impl Locks {
    /// A client that may be granted locks from now on.
    pub(super) fn connect(&mut self, uuid: ClientUuid) {
        if self.numbers.contains_key(&uuid) {
            return;
        }
        let client = Some(Client { uuid, oldest: NONE, newest: NONE, count: 0 });
        let number = match self.free_numbers.pop() {
            Some(number) => {
                self.clients[number as usize] = client;
                number
            }
            None => {
                self.clients.push(client);
                (self.clients.len() - 1) as u32
            }
        };
        self.numbers.insert(uuid, number);
    }

    /// The client loses its locks and gets no more.
    pub(super) fn disconnect(&mut self, uuid: ClientUuid) {
        if let Some(number) = self.numbers.remove(&uuid) {
            self.clients[number as usize] = None;
            self.free_numbers.push(number);
        }
    }

    pub(super) fn number(&self, uuid: ClientUuid) -> Option<u32> {
        self.numbers.get(&uuid).copied()
    }

    fn client(&mut self, number: u32) -> &mut Client {
        self.clients[number as usize].as_mut().expect("a holder is connected")
    }

    pub(super) fn uuid(&self, number: u32) -> ClientUuid {
        self.clients[number as usize].as_ref().expect("a holder is connected").uuid
    }

    /// Locks of a client.
    pub(super) fn count(&self, number: u32) -> usize {
        self.clients[number as usize].as_ref().map_or(0, |client| client.count)
    }

    /// Locks of all.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    /// The client with the most locks.
    pub(super) fn largest(&self) -> Option<u32> {
        let clients = self
            .clients
            .iter()
            .enumerate()
            .filter_map(|(n, c)| c.as_ref().map(|c| (n as u32, c.count)));
        clients.max_by_key(|(_, count)| *count).map(|(number, _)| number)
    }

    pub(super) fn get(&self, slot: u32) -> &Lock {
        &self.slots[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Lock {
        &mut self.slots[slot as usize]
    }

    /// A new lock, the client's newest.
    pub(super) fn add(&mut self, fid: Fid, client: u32, bits: InodeBits) -> u32 {
        let lock = Lock {
            fid,
            client,
            bits,
            revoking: InodeBits::NONE,
            changing: 0,
            older: NONE,
            newer: NONE,
        };
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.slots[slot as usize] = lock;
                slot
            }
            None => {
                self.slots.push(lock);
                (self.slots.len() - 1) as u32
            }
        };
        self.link(slot);
        self.client(client).count += 1;
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        let client = self.get(slot).client;
        self.client(client).count -= 1;
        self.free_slots.push(slot);
    }

    /// The lock was granted again: it is the client's newest now.
    pub(super) fn touch(&mut self, slot: u32) {
        if self.get(slot).newer != NONE {
            self.unlink(slot);
            self.link(slot);
        }
    }

    fn link(&mut self, slot: u32) {
        let client = self.client(self.slots[slot as usize].client);
        let older = std::mem::replace(&mut client.newest, slot);
        if older == NONE {
            client.oldest = slot;
        } else {
            self.slots[older as usize].newer = slot;
        }
        let lock = self.get_mut(slot);
        (lock.older, lock.newer) = (older, NONE);
    }

    fn unlink(&mut self, slot: u32) {
        let Lock { client, older, newer, .. } = *self.get(slot);
        match newer {
            NONE => self.client(client).newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.client(client).oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    /// Locks of a client, oldest first.
    pub(super) fn of(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        let oldest = self.clients[number as usize].as_ref().map_or(NONE, |client| client.oldest);
        let next = |slot: &u32| Some(self.get(*slot).newer).filter(|slot| *slot != NONE);
        std::iter::successors(Some(oldest).filter(|slot| *slot != NONE), next)
    }
}
