//! The frames that stand before the greeting of a connection that goes through a router.
//!
//! The side that connects sends `Route` to the router; the header's target is the NID that it means
//! in the end. The router connects to it, or to the next router, and answers `Routed`. If that says
//! yes, everything that follows is copied both ways, byte for byte. Both frames have the form of a
//! greeting ([`crate::frame`]), which never changes.
//!
//! | at | size | `Route`                            | `Routed`                                  |
//! |----|------|------------------------------------|-------------------------------------------|
//! |  0 |    2 | routers that it may go through yet | 0 yes, 1 no router, 2 not allowed, 3 no way, 4 too many routers, 5 no room, 6 no answer |
//! |  2 |    6 | zero                               | zero                                      |

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the body of either frame; a longer one of a later version is accepted.
pub const ROUTE_BYTES: usize = 8;

/// A wish for a way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Routers that it may go through, this one included.
    pub hops: u16,
}

/// Answer of a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, thiserror::Error)]
#[repr(u16)]
pub enum Routed {
    /// The way is open.
    #[error("the way is open")]
    Yes = 0,
    /// The process forwards nothing.
    #[error("it is no router")]
    NoRouter = 1,
    /// It forwards only to servers of the file systems that it was given, and never to itself.
    #[error("it forwards to no such address: only to servers of its file systems")]
    NotAllowed = 2,
    /// It is not on that network, and knows no router to it.
    #[error("it knows no way to that network")]
    NoWay = 3,
    /// Too many routers on the way: perhaps in a circle.
    #[error("there are too many routers on the way")]
    TooFar = 4,
    /// It forwards as much as it may.
    #[error("it has no room for a further connection")]
    NoRoom = 5,
    /// What it was to connect to does not answer. Also what an answer of a later version is taken
    /// for.
    #[error("it gets no answer from there")]
    NoAnswer = 6,
}

/// The body is shorter than every version's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{found} bytes about a way, at least {ROUTE_BYTES} are needed")]
pub struct ShortRoute {
    /// Bytes there were.
    pub found: usize,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    value: U16,
    zero: [u8; 6],
}

const _: () = assert!(size_of::<Raw>() == ROUTE_BYTES);

fn encode(value: u16) -> [u8; ROUTE_BYTES] {
    zerocopy::transmute!(Raw { value: value.into(), zero: [0; 6] })
}

fn decode(body: &[u8]) -> Result<u16, ShortRoute> {
    let raw = Raw::ref_from_prefix(body).map_err(|_| ShortRoute { found: body.len() })?;
    Ok(raw.0.value.get())
}

impl Route {
    /// The bytes.
    pub fn encode(self) -> [u8; ROUTE_BYTES] {
        encode(self.hops)
    }

    /// Decodes.
    ///
    /// # Errors
    /// The body is too short.
    pub fn decode(body: &[u8]) -> Result<Route, ShortRoute> {
        Ok(Route { hops: decode(body)? })
    }
}

impl Routed {
    /// The bytes.
    pub fn encode(self) -> [u8; ROUTE_BYTES] {
        encode(self as u16)
    }

    /// Decodes.
    ///
    /// # Errors
    /// The body is too short.
    pub fn decode(body: &[u8]) -> Result<Routed, ShortRoute> {
        Ok(match decode(body)? {
            0 => Routed::Yes,
            1 => Routed::NoRouter,
            2 => Routed::NotAllowed,
            3 => Routed::NoWay,
            4 => Routed::TooFar,
            5 => Routed::NoRoom,
            _ => Routed::NoAnswer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_round_trip_and_longer_ones_are_read() {
        let route = Route { hops: 4 };
        assert_eq!(Route::decode(&route.encode()), Ok(route));
        for routed in [
            Routed::Yes,
            Routed::NoRouter,
            Routed::NotAllowed,
            Routed::NoWay,
            Routed::TooFar,
            Routed::NoRoom,
            Routed::NoAnswer,
        ] {
            let longer = [&routed.encode()[..], &[9; 8]].concat();
            assert_eq!(Routed::decode(&longer), Ok(routed));
        }
        assert_eq!(Routed::decode(&[0xff; 8]), Ok(Routed::NoAnswer));
        for short in 0..ROUTE_BYTES {
            assert_eq!(Route::decode(&[0; 8][..short]), Err(ShortRoute { found: short }));
        }
    }

    #[test]
    fn the_bytes_are_these() {
        assert_eq!(Route { hops: 0x0201 }.encode(), [1, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Routed::NoRoom.encode(), [5, 0, 0, 0, 0, 0, 0, 0]);
    }
}
