//! Object tickets: what an MDT says that a client may do with the objects of a file, so that an OST
//! can believe it without asking (docs/security.md, "Object tickets").
//!
//! A ticket is signed with a key that the servers of the cluster share. It names the client and
//! whose key the client's connections show, so another client that sees it cannot use it. The hash
//! is that of [`crate::proof`]: a client that has tickets cannot make another one.

use crate::fid::Fid;
use crate::principal::Owner;
use crate::proof::{Purpose, ServerKey, keyed};
use crate::session::ClientUuid;
use crate::target::FsName;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

/// Seconds of an epoch. Each has a key of its own.
pub const EPOCH_SECONDS: u64 = 3600;
/// The longest life of a ticket, seconds. It is no longer than an epoch, so a ticket ends in the
/// epoch after its own at the latest.
pub const LIFE_SECONDS_MAX: u64 = EPOCH_SECONDS;
/// By so many seconds the clock of an MDT may be ahead of that of an OST at the change of epochs.
pub const AHEAD_SECONDS: u64 = 300;

/// What may be done with the objects of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Rights(u8);

impl Rights {
    /// Nothing.
    pub const NONE: Rights = Rights(0);
    /// Read them, and learn their sizes.
    pub const READ: Rights = Rights(1);
    /// Write and cut them, and learn their sizes.
    pub const WRITE: Rights = Rights(2);
    /// Both.
    pub const ALL: Rights = Rights(3);

    /// As a number: 0 to 3.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From a number; `None`: it is none of [`Rights::bits`].
    pub const fn from_bits(bits: u8) -> Option<Rights> {
        if bits <= Rights::ALL.0 { Some(Rights(bits)) } else { None }
    }

    /// True if it has all of these.
    pub const fn contains(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of these that `other` has not.
    #[must_use]
    pub const fn without(self, other: Rights) -> Rights {
        Rights(self.0 & !other.0)
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

impl BitOrAssign for Rights {
    fn bitor_assign(&mut self, other: Rights) {
        *self = *self | other;
    }
}

impl BitAnd for Rights {
    type Output = Rights;

    fn bitand(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["none", "read", "write", "read+write"][usize::from(self.0)])
    }
}

/// A ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectTicket {
    /// The file after which the objects are named (`Layout::names`).
    pub fid: Fid,
    /// What may be done with them.
    pub rights: Rights,
    /// Number of the epoch in which it was made.
    pub epoch: u32,
    /// When it ends, seconds since 1970.
    pub expires: u64,
    /// Keyed hash of all that, of the client, and of the file system.
    pub mac: u128,
}

/// The client that a ticket is made for, as the servers see it.
#[derive(Clone, Copy, Debug)]
pub struct Bearer<'a> {
    /// Its UUID.
    pub client: ClientUuid,
    /// Whose key its connections show.
    pub owner: &'a Owner,
}

/// Why a ticket is not good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadTicket {
    /// The servers' key did not make it for this client and file with these rights.
    #[error("it was not made for this client, file and rights")]
    Forged,
    /// Its epoch is neither the present one nor the one before.
    #[error("its epoch is over, or has not begun")]
    Epoch,
    /// Its time is over.
    #[error("its time is over")]
    Expired,
}

/// Makes and checks tickets of one file system.
#[derive(Clone, Copy, Debug)]
pub struct Signer {
    key: ServerKey,
    fsname: FsName,
}

fn epoch_of(now: u64) -> u32 {
    u32::try_from(now / EPOCH_SECONDS).unwrap_or(u32::MAX)
}

impl Signer {
    /// With the key of the servers; `None`: it is not known yet.
    pub fn new(key: ServerKey, fsname: FsName) -> Option<Signer> {
        key.is_known().then_some(Signer { key, fsname })
    }

    /// A ticket for this client that is good for `life` seconds, [`LIFE_SECONDS_MAX`] at most.
    /// `now`: seconds since 1970.
    pub fn make(
        &self,
        bearer: Bearer<'_>,
        (fid, rights): (Fid, Rights),
        now: u64,
        life: u64,
    ) -> ObjectTicket {
        let (epoch, expires) = (epoch_of(now), now + life.min(LIFE_SECONDS_MAX));
        let ticket = ObjectTicket { fid, rights, epoch, expires, mac: 0 };
        ObjectTicket { mac: self.mac(bearer, &ticket), ..ticket }
    }

    /// Succeeds if it was made for this client, and its time is not over.
    ///
    /// # Errors
    /// [`BadTicket`].
    pub fn check(
        &self,
        bearer: Bearer<'_>,
        ticket: &ObjectTicket,
        now: u64,
    ) -> Result<(), BadTicket> {
        self.check_made(bearer, ticket, now)?;
        if now < ticket.expires { Ok(()) } else { Err(BadTicket::Expired) }
    }

    /// As [`Signer::check`], but its time may be over: its epoch is the present one or the one
    /// before.
    ///
    /// # Errors
    /// [`BadTicket`], but not `Expired`.
    pub fn check_made(
        &self,
        bearer: Bearer<'_>,
        ticket: &ObjectTicket,
        now: u64,
    ) -> Result<(), BadTicket> {
        let (oldest, newest) = (epoch_of(now).saturating_sub(1), epoch_of(now + AHEAD_SECONDS));
        if !(oldest..=newest).contains(&ticket.epoch) {
            return Err(BadTicket::Epoch);
        }
        // Of all bits at once: the time that it takes tells nothing of where they differ.
        if self.mac(bearer, ticket) ^ ticket.mac == 0 { Ok(()) } else { Err(BadTicket::Forged) }
    }

    fn mac(&self, bearer: Bearer<'_>, ticket: &ObjectTicket) -> u128 {
        let mut fsname = [0; 8];
        let name = self.fsname.as_str().as_bytes();
        fsname[..name.len()].copy_from_slice(name);
        let epoch = ticket.epoch.to_le_bytes();
        let key = keyed(self.key.0, Purpose::TicketEpoch, &[&fsname, &epoch]);
        let Fid { seq, oid, ver } = ticket.fid;
        let (kind, owner): (u8, &[u8]) = match bearer.owner {
            Owner::Unknown => (0, b""),
            Owner::Open => (1, b""),
            Owner::Key(uri) => (2, uri.as_bytes()),
        };
        // Only the last part has no fixed length.
        keyed(
            key,
            Purpose::Ticket,
            &[
                &bearer.client.0.to_le_bytes(),
                &seq.to_le_bytes(),
                &oid.to_le_bytes(),
                &ver.to_le_bytes(),
                &[ticket.rights.0],
                &epoch,
                &ticket.expires.to_le_bytes(),
                &[kind],
                owner,
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const LIFE: u64 = 1200;
    const CLIENT: ClientUuid = ClientUuid(0x1234);
    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 7, ver: 0 };

    fn signer(key: u128, fsname: &str) -> Signer {
        Signer::new(ServerKey(key), fsname.parse().unwrap()).unwrap()
    }

    fn key(name: &str) -> Owner {
        Owner::Key(format!("spiffe://0/client/{name}"))
    }

    fn bearer(owner: &Owner) -> Bearer<'_> {
        Bearer { client: CLIENT, owner }
    }

    fn ticket(owner: &Owner) -> ObjectTicket {
        signer(5, "sheen").make(bearer(owner), (FID, Rights::READ), NOW, LIFE)
    }

    #[test]
    fn a_ticket_is_good_for_its_client_until_its_time_is_over() {
        for owner in [Owner::Open, key("node7")] {
            let (signer, ticket) = (signer(5, "sheen"), ticket(&owner));
            assert_eq!(
                (ticket.fid, ticket.rights, ticket.expires),
                (FID, Rights::READ, NOW + LIFE)
            );
            for now in [NOW, NOW + LIFE - 1, NOW - AHEAD_SECONDS] {
                assert_eq!(signer.check(bearer(&owner), &ticket, now), Ok(()), "{now}");
            }
            let late = NOW + LIFE;
            assert_eq!(signer.check(bearer(&owner), &ticket, late), Err(BadTicket::Expired));
            assert_eq!(signer.check_made(bearer(&owner), &ticket, late), Ok(()));
        }
    }

    #[test]
    fn no_field_of_it_can_be_another() {
        let owner = key("node7");
        let (signer, good) = (signer(5, "sheen"), ticket(&owner));
        let flipped = (0..128)
            .map(|bit| ObjectTicket { mac: good.mac ^ 1 << bit, ..good })
            .chain((0..64).map(|bit| ObjectTicket { expires: good.expires ^ 1 << bit, ..good }))
            .chain((0..64).map(|bit| {
                let fid = Fid { seq: FID.seq ^ 1 << bit, ..FID };
                ObjectTicket { fid, ..good }
            }))
            .chain((0..32).flat_map(|bit| {
                let fids = [Fid { oid: FID.oid ^ 1 << bit, ..FID }, Fid { ver: 1 << bit, ..FID }];
                fids.map(|fid| ObjectTicket { fid, ..good })
            }))
            .chain(
                [Rights::NONE, Rights::WRITE, Rights::ALL]
                    .map(|rights| ObjectTicket { rights, ..good }),
            );
        let mut count = 0;
        for bad in flipped {
            assert_eq!(signer.check(bearer(&owner), &bad, NOW), Err(BadTicket::Forged), "{bad:?}");
            count += 1;
        }
        assert_eq!(count, 128 + 64 + 64 + 2 * 32 + 3);
        for bit in 0..32 {
            let bad = ObjectTicket { epoch: good.epoch ^ 1 << bit, ..good };
            assert!(signer.check_made(bearer(&owner), &bad, NOW).is_err(), "epoch, bit {bit}");
        }
    }

    #[test]
    fn it_is_of_no_use_to_another_client_owner_file_system_or_key() {
        let owner = key("node7");
        let good = ticket(&owner);
        let other = Bearer { client: ClientUuid(CLIENT.0 ^ 1), owner: &owner };
        assert_eq!(signer(5, "sheen").check(other, &good, NOW), Err(BadTicket::Forged));
        for owner in [key("node8"), key("node"), key("node77"), Owner::Open, Owner::Unknown] {
            let forged = signer(5, "sheen").check(bearer(&owner), &good, NOW);
            assert_eq!(forged, Err(BadTicket::Forged), "{owner:?}");
        }
        for signer in [signer(6, "sheen"), signer(5, "shee"), signer(5, "sheen2")] {
            assert_eq!(signer.check(bearer(&owner), &good, NOW), Err(BadTicket::Forged));
        }
        let fsname = "sheen".parse().unwrap();
        assert!(Signer::new(ServerKey(0), fsname).is_none(), "no key makes no ticket");
    }

    #[test]
    fn the_present_epoch_and_the_one_before_are_accepted() {
        let (owner, signer) = (Owner::Open, signer(5, "sheen"));
        let begins = NOW / EPOCH_SECONDS * EPOCH_SECONDS;
        let made = |now| signer.make(bearer(&owner), (FID, Rights::ALL), now, u64::MAX);
        let last = made(begins + EPOCH_SECONDS - 1);
        assert_eq!(last.expires, begins + 2 * EPOCH_SECONDS - 1, "no longer than the longest life");
        let check = |ticket, now| signer.check_made(bearer(&owner), &ticket, now);
        assert_eq!(signer.check(bearer(&owner), &last, last.expires - 1), Ok(()));
        assert_eq!(check(last, begins + 2 * EPOCH_SECONDS - 1), Ok(()));
        assert_eq!(check(last, begins + 2 * EPOCH_SECONDS), Err(BadTicket::Epoch));
        let first = made(begins);
        assert_ne!(first.epoch, made(begins - 1).epoch);
        assert_eq!(check(first, begins - AHEAD_SECONDS), Ok(()));
        assert_eq!(check(first, begins - AHEAD_SECONDS - 1), Err(BadTicket::Epoch));
        assert_ne!(made(begins - 1).mac, first.mac);
    }

    #[test]
    fn rights_are_two_bits() {
        let all = [Rights::NONE, Rights::READ, Rights::WRITE, Rights::ALL];
        for (bits, rights) in (0..).zip(all) {
            assert_eq!((rights.bits(), Rights::from_bits(bits)), (bits, Some(rights)));
        }
        assert!((4..=u8::MAX).all(|bits| Rights::from_bits(bits).is_none()));
        assert_eq!(Rights::READ | Rights::WRITE, Rights::ALL);
        assert!(Rights::ALL.contains(Rights::READ) && !Rights::READ.contains(Rights::ALL));
        assert_eq!(Rights::ALL.without(Rights::READ), Rights::WRITE);
        assert_eq!(Rights::ALL & Rights::READ, Rights::READ);
    }
}
