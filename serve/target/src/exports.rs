//! Clients of a target, each with what the service keeps for it.
//!
//! Bound: `limits::CLIENTS_MAX`. A client that connects again keeps its entry.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use types::errno::Errno;
use types::limits;
use types::session::ClientUuid;

/// What a service keeps per client.
pub struct Exports<T> {
    clients: RwLock<HashMap<ClientUuid, Arc<T>>>,
    max: usize,
}

impl<T> Default for Exports<T> {
    fn default() -> Exports<T> {
        Exports::new(limits::CLIENTS_MAX)
    }
}

impl<T> Exports<T> {
    /// Room for `max` clients.
    pub fn new(max: usize) -> Exports<T> {
        Exports { clients: RwLock::default(), max }
    }

    /// The client's entry, made if it is new.
    ///
    /// # Errors
    /// EBUSY: there are too many clients.
    pub fn get_or_add(&self, client: ClientUuid, make: impl FnOnce() -> T) -> Result<Arc<T>, Errno> {
        let mut clients = self.clients.write();
        if let Some(entry) = clients.get(&client) {
            return Ok(entry.clone());
        }
        if clients.len() >= self.max {
            return Err(Errno::EBUSY);
        }
        let entry = Arc::new(make());
        clients.insert(client, entry.clone());
        Ok(entry)
    }

    /// The client's entry.
    pub fn get(&self, client: ClientUuid) -> Option<Arc<T>> {
        self.clients.read().get(&client).cloned()
    }

    /// Takes the client out.
    pub fn remove(&self, client: ClientUuid) -> Option<Arc<T>> {
        self.clients.write().remove(&client)
    }

    /// All clients, in no order.
    pub fn all(&self) -> Vec<(ClientUuid, Arc<T>)> {
        self.clients.read().iter().map(|(uuid, entry)| (*uuid, entry.clone())).collect()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.clients.read().len()
    }

    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_bounded_and_keep_their_entry() {
        let exports = Exports::new(1);
        let first = exports.get_or_add(ClientUuid(1), || 10).unwrap();
        assert!(Arc::ptr_eq(&first, &exports.get_or_add(ClientUuid(1), || 11).unwrap()));
        assert_eq!(exports.get_or_add(ClientUuid(2), || 20), Err(Errno::EBUSY));
        assert_eq!(exports.remove(ClientUuid(1)).as_deref(), Some(&10));
        assert!(exports.is_empty() && exports.get(ClientUuid(1)).is_none());
        assert!(exports.get_or_add(ClientUuid(2), || 20).is_ok());
    }
}
