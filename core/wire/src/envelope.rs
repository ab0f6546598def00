//! The envelope: the first bytes of every request and reply body, before the message itself.
//!
//! It says to which client's session the message belongs, so that all connections of a process
//! carry the messages of all its sessions, and what a receiver must know before it decodes (or
//! instead of it: a refusal has no message behind it).
//!
//! | at | size | field  | meaning                                                                                      |
//! |----|------|--------|----------------------------------------------------------------------------------------------|
//! |  0 |   16 | client | UUID of the client whose session it is                                                       |
//! | 16 |    2 | flags  | 1: the request may wait for other clients without limit                                      |
//! | 18 |    2 | refusal| why there is no message: see below; 0 none                                                   |
//! | 20 |    4 | value  | with refusal 5: errno; reply without refusal: for how long a question is open, ms; else 0    |
//! | 24 |    8 | clock  | the target's clock, ms: a request is late after it (0 never); a reply was made then (0 no)   |
//!
//! Refusals: 1 no such target, 2 no session, 3 version, 4 cluster, 5 errno, 6 bad request, 7 late,
//! 8 other process.

use types::errno::Errno;
use types::session::ClientUuid;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of an encoded envelope.
pub const ENVELOPE_BYTES: usize = 32;

const FLAG_WAITS: u16 = 1;

/// Why a request as a whole is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The target is not served here.
    NoTarget,
    /// The client has no session with the target (any more).
    NoSession,
    /// No common version.
    Version,
    /// Another cluster.
    Cluster,
    /// The target's own reason for refusing a session.
    Errno(Errno),
    /// The request cannot be understood.
    BadRequest,
    /// It came after its limit: nothing was done.
    Late,
    /// The session, or the target, is that of another process than the one that this connection
    /// leads to.
    OtherProcess,
}

/// What stands before a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Envelope {
    /// Whose session.
    pub client: ClientUuid,
    /// Request: may wait for other clients without limit.
    pub waits: bool,
    /// Reply: for how many milliseconds the client has left a question of the target unanswered; 0
    /// none. Not with a refusal.
    pub open_ms: u32,
    /// Reply: no message follows, this is why.
    pub refusal: Option<Refusal>,
    /// Milliseconds of the target's own clock. Request: the target begins nothing after it (0: no
    /// limit). Reply: when it was made (0: not told).
    pub clock: u64,
}

/// The bytes are no envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadEnvelope {
    /// The body ends too early.
    #[error("body of {found} bytes, at least {ENVELOPE_BYTES} are needed")]
    Short {
        /// Length of the body, bytes.
        found: usize,
    },
    /// A flag or reason of no known meaning.
    #[error("unknown envelope flags {flags:#x} or refusal {refusal}")]
    Unknown {
        /// The flags.
        flags: u16,
        /// The reason.
        refusal: u16,
    },
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    client: U128,
    flags: U16,
    refusal: U16,
    value: U32,
    clock: U64,
}

const _: () = assert!(size_of::<Raw>() == ENVELOPE_BYTES);

impl Envelope {
    /// The bytes.
    pub fn encode(&self) -> [u8; ENVELOPE_BYTES] {
        let (refusal, value) = match self.refusal {
            None => (0, self.open_ms),
            Some(Refusal::NoTarget) => (1, 0),
            Some(Refusal::NoSession) => (2, 0),
            Some(Refusal::Version) => (3, 0),
            Some(Refusal::Cluster) => (4, 0),
            Some(Refusal::Errno(errno)) => (5, errno.0 as u32),
            Some(Refusal::BadRequest) => (6, 0),
            Some(Refusal::Late) => (7, 0),
            Some(Refusal::OtherProcess) => (8, 0),
        };
        let flags = if self.waits { FLAG_WAITS } else { 0 };
        zerocopy::transmute!(Raw {
            client: self.client.0.into(),
            flags: flags.into(),
            refusal: refusal.into(),
            value: value.into(),
            clock: self.clock.into(),
        })
    }

    /// From the start of a body.
    ///
    /// # Errors
    /// Too short, or of no known meaning.
    pub fn decode(body: &[u8]) -> Result<Envelope, BadEnvelope> {
        let (raw, _) =
            Raw::ref_from_prefix(body).map_err(|_| BadEnvelope::Short { found: body.len() })?;
        let (flags, refusal) = (raw.flags.get(), raw.refusal.get());
        let unknown = BadEnvelope::Unknown { flags, refusal };
        let refusal = match refusal {
            0 => None,
            1 => Some(Refusal::NoTarget),
            2 => Some(Refusal::NoSession),
            3 => Some(Refusal::Version),
            4 => Some(Refusal::Cluster),
            // What is no error number becomes EIO.
            5 => {
                let errno = i32::try_from(raw.value.get()).ok().filter(|n| *n > 0);
                Some(Refusal::Errno(errno.map_or(Errno::EIO, Errno)))
            }
            6 => Some(Refusal::BadRequest),
            7 => Some(Refusal::Late),
            8 => Some(Refusal::OtherProcess),
            _ => return Err(unknown),
        };
        if flags & !FLAG_WAITS != 0 {
            return Err(unknown);
        }
        Ok(Envelope {
            client: ClientUuid(raw.client.get()),
            waits: flags & FLAG_WAITS != 0,
            open_ms: if refusal.is_none() { raw.value.get() } else { 0 },
            refusal,
            clock: raw.clock.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Envelope {
        let refusal = Some(Refusal::Errno(Errno::EBUSY));
        Envelope {
            client: ClientUuid(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            waits: true,
            open_ms: 0,
            refusal,
            clock: 0x2122_2324_2526_2728,
        }
    }

    #[test]
    fn bytes_never_change() {
        let text: String = sample().encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(text, "100f0e0d0c0b0a09080706050403020101000500100000002827262524232221");
    }

    #[test]
    fn all_round_trip() {
        use Refusal::{BadRequest, Cluster, Late, NoSession, NoTarget, OtherProcess, Version};
        let errno = Refusal::Errno(Errno::EACCES);
        let refusals =
            [NoTarget, NoSession, Version, Cluster, errno, BadRequest, Late, OtherProcess]
                .map(Some);
        for refusal in refusals.into_iter().chain([None]) {
            for waits in [false, true] {
                let open_ms = if refusal.is_none() { 0x3132_3334 } else { 0 };
                let envelope = Envelope { refusal, waits, open_ms, ..sample() };
                let mut bytes = envelope.encode().to_vec();
                bytes.push(7);
                assert_eq!(Envelope::decode(&bytes), Ok(envelope), "what follows is not looked at");
            }
        }
    }

    #[test]
    fn strange_ones_are_refused() {
        assert_eq!(Envelope::decode(&[0; 31]), Err(BadEnvelope::Short { found: 31 }));
        let with = |at: usize, value: u8| {
            let mut bytes = Envelope::default().encode();
            bytes[at] = value;
            Envelope::decode(&bytes)
        };
        assert_eq!(with(16, 4), Err(BadEnvelope::Unknown { flags: 4, refusal: 0 }));
        assert_eq!(with(18, 9), Err(BadEnvelope::Unknown { flags: 0, refusal: 9 }));
        assert_eq!(with(18, 5).unwrap().refusal, Some(Refusal::Errno(Errno::EIO)), "0 is no errno");
    }
}
