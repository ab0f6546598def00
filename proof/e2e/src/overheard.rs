//! Requests that a tap heard on the wire of a cluster without keys.

use crate::tap::Tap;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::codec::decode_request;
use wire::envelope::ENVELOPE_BYTES;
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::message::{Op, Request};

const ETHERNET_BYTES: usize = 14;
const TYPE_IPV4: [u8; 2] = [8, 0];
const PROTOCOL_TCP: u8 = 6;

/// One request.
pub struct Overheard {
    /// What it asks.
    pub request: Request,
    /// Bytes of its frame.
    pub bytes: usize,
}

impl Overheard {
    /// Names of its operations on files; none: it is about the session, or the cluster.
    pub fn operations(&self) -> Vec<&'static str> {
        let name = |op: &Op| match op {
            Op::Mds(op) => Some(op.row().name),
            Op::Ost(op) => Some(op.row().name),
            _ => None,
        };
        self.request.ops.iter().filter_map(name).collect()
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    /// Number of the next byte; `None`: nothing was heard.
    next: Option<u32>,
    /// What came too early.
    early: BTreeMap<u32, Vec<u8>>,
    bytes: Vec<u8>,
}

impl Flow {
    fn take(&mut self, number: u32, payload: &[u8]) {
        let next = *self.next.get_or_insert(number);
        // A packet that comes again has a number behind the next one by less than half of all.
        let known = next.wrapping_sub(number);
        if known > u32::MAX / 2 {
            self.early.insert(number, payload.to_vec());
            return;
        }
        if let Some(new) = payload.get(known as usize..) {
            self.bytes.extend_from_slice(new);
            self.next = Some(next.wrapping_add(new.len() as u32));
        }
        let due = self.next.expect("it was set");
        if let Some(payload) = self.early.remove(&due) {
            self.take(due, &payload);
        }
    }

    /// The requests in it. It may begin within a frame, and end within one.
    fn requests(&self) -> Vec<Overheard> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(head) = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk()) {
            let Ok(Header { kind, body_bytes, bulk_bytes, .. }) = Header::decode(head) else {
                at += 1;
                continue;
            };
            let body = at + HEADER_BYTES;
            let bulk = body + body_bytes as usize;
            let end = bulk + bulk_bytes as usize;
            if end > self.bytes.len() {
                break;
            }
            let part = |from: usize, to: usize| Bytes::copy_from_slice(&self.bytes[from..to]);
            if kind == FrameKind::Request {
                let request = decode_request(part(body + ENVELOPE_BYTES, bulk), part(bulk, end));
                let request = request.expect("a request");
                found.push(Overheard { request, bytes: end - at });
            }
            at = end;
        }
        found
    }
}

/// The requests about files that came from this address, connection by connection.
pub fn requests(tap: Tap, from: Ipv4Addr) -> Vec<Overheard> {
    let mut flows = BTreeMap::<Vec<u8>, Flow>::new();
    for packet in tap.packets() {
        let Some((head, ip)) = packet.split_at_checked(ETHERNET_BYTES) else { continue };
        if head[12..] != TYPE_IPV4 || ip.len() < 40 || ip[9] != PROTOCOL_TCP {
            continue;
        }
        let (ip_bytes, total) = (usize::from(ip[0] & 15) * 4, u16::from_be_bytes([ip[2], ip[3]]));
        // 0: longer than the field can say.
        let total = if total == 0 { ip.len() } else { usize::from(total) };
        let tcp = &ip[ip_bytes..total.min(ip.len())];
        let payload = &tcp[usize::from(tcp[12] >> 4) * 4..];
        if ip[12..16] != from.octets() || payload.is_empty() {
            continue;
        }
        let number = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        // Both addresses, both ports.
        let flow = [&ip[12..20], &tcp[..4]].concat();
        flows.entry(flow).or_default().take(number, payload);
    }
    let all = flows.values().flat_map(Flow::requests);
    all.filter(|overheard| !overheard.operations().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_put_together_in_order() {
        let mut flow = Flow::default();
        flow.take(u32::MAX - 1, b"abcd");
        flow.take(6, b"ij");
        flow.take(0, b"cd");
        flow.take(0, b"cdef");
        flow.take(4, b"gh");
        assert_eq!(flow.bytes, b"abcdefghij");
        assert_eq!(flow.next, Some(8));
    }
}
