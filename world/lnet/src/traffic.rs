//! What went over links: messages and bytes, by the address of this process.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use types::nid::{Nid, PORT_DEFAULT};

/// Messages and bytes, as the frames of this process count them: without what TCP, IP and the seal
/// add.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Frames sent.
    pub sent: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
    /// Frames received.
    pub received: u64,
    /// Bytes of them.
    pub received_bytes: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Traffic) {
        self.sent += more.sent;
        self.sent_bytes += more.sent_bytes;
        self.received += more.received;
        self.received_bytes += more.received_bytes;
    }
}

/// Counts of one link.
#[derive(Default)]
pub(crate) struct Meter {
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    received: AtomicU64,
    received_bytes: AtomicU64,
    /// Its counts are among the totals.
    over: AtomicBool,
}

impl Meter {
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(1, Ordering::Relaxed);
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            sent: self.sent.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
        }
    }
}

/// Counts of links that ended, by the address of this process. Bound: its addresses.
#[derive(Default)]
pub(crate) struct Totals(Mutex<BTreeMap<Nid, Traffic>>);

impl Totals {
    /// A link of this address ended.
    pub(crate) fn ended(&self, source: Nid, meter: &Meter) {
        let mut totals = self.0.lock();
        if !meter.over.swap(true, Ordering::AcqRel) {
            *totals.entry(address(source)).or_default() += meter.traffic();
        }
    }

    /// Those of these links, and of those before them.
    pub(crate) fn with<'a>(
        &self,
        live: impl Iterator<Item = (Nid, &'a Meter)>,
    ) -> BTreeMap<Nid, Traffic> {
        let totals = self.0.lock();
        let mut all = totals.clone();
        for (source, meter) in live.filter(|(_, meter)| !meter.over.load(Ordering::Acquire)) {
            *all.entry(address(source)).or_default() += meter.traffic();
        }
        all
    }
}

/// A NID without the port that a connection happens to have.
pub fn address(nid: Nid) -> Nid {
    match (nid.net(), nid.address()) {
        (Some(net), Some(address)) => Nid::new(net, SocketAddr::new(address.ip(), PORT_DEFAULT)),
        _ => nid,
    }
}
