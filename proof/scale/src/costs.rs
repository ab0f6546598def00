//! What messages cost an MDT, and how many there were.

use parking_lot::Mutex;
use simenv::network::cpu::{Cost, Passing};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use types::nid::Nid;
use wire::frame::{FrameKind, HEADER_BYTES, Header};

/// What the CPU of an MDT is charged.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// For each frame that is sent, and for each that is received.
    pub frame: Duration,
    /// For each KiB of them.
    pub kib: Duration,
    /// For each record that is committed.
    pub record: Duration,
}

/// Requests that reached the MDTs, by their senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// From machines of clients.
    pub of_clients: u64,
    /// From machines of other MDTs.
    pub of_mdts: u64,
}

/// The requests of a run so far.
pub type Counted = Arc<Mutex<Requests>>;

/// Where one direction of a connection is between frames.
#[derive(Default)]
struct Frames {
    head: Vec<u8>,
    /// Bytes of the frame that are still to come.
    rest: usize,
}

impl Frames {
    /// Headers of the frames that begin in these bytes.
    fn take(&mut self, mut bytes: &[u8]) -> Vec<Header> {
        let mut headers = Vec::new();
        while !bytes.is_empty() {
            let skipped = self.rest.min(bytes.len());
            self.rest -= skipped;
            bytes = &bytes[skipped..];
            let part = (HEADER_BYTES - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if let Ok(head) = <&[u8; HEADER_BYTES]>::try_from(&self.head[..]) {
                let header = Header::decode(head).expect("a frame of this build");
                self.rest = (header.body_bytes + header.bulk_bytes) as usize;
                self.head.clear();
                headers.push(header);
            }
        }
        headers
    }
}

/// The costs of a machine that others reach as `mdts` or as clients.
pub fn of_machine(costs: Costs, mdts: Arc<[IpAddr]>, counted: Counted) -> Cost {
    let mut frames: BTreeMap<(u64, usize, bool), Frames> = BTreeMap::new();
    Box::new(move |Passing { connection, side, sent, bytes }| {
        let headers = frames.entry((connection, side, sent)).or_default().take(bytes);
        for header in headers.iter().filter(|header| !sent && header.kind == FrameKind::Request) {
            let of_mdt = matches!(header.source, Nid::Tcp(addr) if mdts.contains(&addr.ip()));
            let mut counted = counted.lock();
            match of_mdt {
                true => counted.of_mdts += 1,
                false => counted.of_clients += 1,
            }
        }
        costs.frame * headers.len() as u32
            + Duration::from_nanos(costs.kib.as_nanos() as u64 * bytes.len() as u64 / 1024)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::session::ClusterId;

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let header = Header {
            version: wire::message::VERSION_MAX,
            kind: FrameKind::Request,
            tag: 1,
            body_bytes: 300,
            bulk_bytes: 7,
            body_crc: None,
            bulk_crc: None,
            cluster: ClusterId(1),
            source: Nid::Loopback,
            target: Nid::Loopback,
        };
        let mut one = header.encode().to_vec();
        one.resize(HEADER_BYTES + 307, 0);
        let three = one.repeat(3);
        for size in [1, 50, 103, 104, 105, 411, 412, 10_000] {
            let mut frames = Frames::default();
            let count: usize = three.chunks(size).map(|bytes| frames.take(bytes).len()).sum();
            assert_eq!((count, frames.rest, frames.head.len()), (3, 0, 0), "{size}");
        }
    }
}
