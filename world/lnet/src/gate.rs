//! The rule for what a connection may receive next, without effects.

use types::limits::{FRAME_BYTES_BEFORE_SESSION_MAX, FRAME_BYTES_SMALL, MESSAGE_BYTES_MAX};
use wire::frame::{FrameKind, Header};

/// The side of a connection that this process is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// It connected: the other side is a server that it chose.
    Dialled,
    /// It accepted, and the other side has no session (yet).
    Stranger,
    /// It accepted, and the other side's process has a session.
    Known,
}

/// What to do about a frame whose header was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    /// Read it.
    Pass,
    /// Read it once there is room for this many bytes.
    Room(usize),
    /// Do not read it for now: too much is at work.
    Hold,
    /// The frame is longer than allowed here, bytes.
    TooLong(usize),
}

/// Judges a header. `may_work`: one more request may be at work.
///
/// Replies are always read: the other side may wait for that before it reads on, and their cost is
/// bounded by this side's requests.
pub(crate) fn judge(side: Side, header: &Header, may_work: bool) -> Gate {
    let bytes = header.body_bytes as usize + header.bulk_bytes as usize;
    let reply = header.kind == FrameKind::Reply;
    let max = match side {
        Side::Stranger => FRAME_BYTES_BEFORE_SESSION_MAX,
        Side::Known if reply => FRAME_BYTES_SMALL,
        Side::Known | Side::Dialled => MESSAGE_BYTES_MAX,
    };
    match () {
        () if bytes > max => Gate::TooLong(max),
        () if header.kind != FrameKind::Request => Gate::Pass,
        () if !may_work => Gate::Hold,
        () if side == Side::Known && bytes > FRAME_BYTES_SMALL => Gate::Room(bytes),
        () => Gate::Pass,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::nid::Nid;
    use types::session::ClusterId;

    fn header(kind: FrameKind, bytes: usize) -> Header {
        Header {
            version: 1,
            kind,
            tag: 1,
            body_bytes: 32,
            bulk_bytes: (bytes - 32) as u32,
            body_crc: None,
            bulk_crc: None,
            cluster: ClusterId(1),
            source: Nid::Loopback,
            target: Nid::Loopback,
        }
    }

    #[test]
    fn requests() {
        use Side::{Dialled, Known, Stranger};
        let (small, large) = (FRAME_BYTES_SMALL, FRAME_BYTES_SMALL + 1);
        let (first, max) = (FRAME_BYTES_BEFORE_SESSION_MAX, MESSAGE_BYTES_MAX);
        for (side, bytes, may_work, expected) in [
            (Stranger, first, true, Gate::Pass),
            (Stranger, first, false, Gate::Hold),
            (Stranger, first + 1, true, Gate::TooLong(first)),
            (Stranger, first + 1, false, Gate::TooLong(first)),
            (Known, small, true, Gate::Pass),
            (Known, small, false, Gate::Hold),
            (Known, large, true, Gate::Room(large)),
            (Known, large, false, Gate::Hold),
            (Known, max, true, Gate::Room(max)),
            (Known, max + 1, true, Gate::TooLong(max)),
            (Dialled, max, true, Gate::Pass),
            (Dialled, max + 1, true, Gate::TooLong(max)),
        ] {
            assert_eq!(
                judge(side, &header(FrameKind::Request, bytes), may_work),
                expected,
                "{side:?} {bytes}"
            );
        }
    }

    #[test]
    fn replies_are_never_held_back() {
        use Side::{Dialled, Known, Stranger};
        for (side, max) in [
            (Stranger, FRAME_BYTES_BEFORE_SESSION_MAX),
            (Known, FRAME_BYTES_SMALL),
            (Dialled, MESSAGE_BYTES_MAX),
        ] {
            for may_work in [false, true] {
                assert_eq!(
                    judge(side, &header(FrameKind::Reply, max), may_work),
                    Gate::Pass,
                    "{side:?}"
                );
                assert_eq!(
                    judge(side, &header(FrameKind::Reply, max + 1), may_work),
                    Gate::TooLong(max),
                    "{side:?}"
                );
                assert_eq!(
                    judge(side, &header(FrameKind::Goodbye, 32), may_work),
                    Gate::Pass,
                    "{side:?}"
                );
            }
        }
    }
}
