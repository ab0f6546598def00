//! Tickets for the objects of files (docs/security.md, "Object tickets").

use crate::codec::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{FLAGS, Operation};
use crate::codec::raw::{RawFid, RawTicket};
#[cfg(test)]
use crate::codec::testing::*;
use types::fid::Fid;
use types::limits::TICKETS_PER_OP_MAX;
use types::object_ticket::{ObjectTicket, Rights};

/// The files for whose objects a client asks for tickets. Answers `Tickets`.
#[derive(Clone, PartialEq, Debug)]
pub struct AskTickets {
    /// FIDs of files, at most TICKETS_PER_OP_MAX.
    pub fids: Vec<Fid>,
    /// They are the FIDs after which the objects are named, and not those of the files.
    pub of_objects: bool,
    /// Tickets that the client has of some of these objects, at most TICKETS_PER_OP_MAX: what they
    /// gave it keeps as long as it has the file open or locked.
    pub had: Vec<ObjectTicket>,
}

pub(crate) fn put_tickets(tickets: &[ObjectTicket], w: &mut Writer) {
    w.put(&len32(tickets.len()));
    tickets.iter().for_each(|ticket| w.put(&RawTicket::from(ticket)));
}

pub(crate) fn tickets(r: &mut Reader<'_>) -> Result<Vec<ObjectTicket>, DecodeError> {
    let n = count(*r.get()?, "tickets", TICKETS_PER_OP_MAX)?;
    r.slice_of::<RawTicket>(n)?.iter().map(RawTicket::decode).collect()
}

impl RawTicket {
    pub(crate) fn decode(&self) -> Result<ObjectTicket, DecodeError> {
        let wrong = DecodeError::Field { field: "rights", value: self.rights.into() };
        Ok(ObjectTicket {
            fid: (&self.fid).into(),
            rights: Rights::from_bits(self.rights).ok_or(wrong)?,
            epoch: self.epoch.get(),
            expires: self.expires.get(),
            mac: self.mac.get(),
        })
    }
}

impl From<&ObjectTicket> for RawTicket {
    fn from(ticket: &ObjectTicket) -> RawTicket {
        let &ObjectTicket { fid, rights, epoch, expires, mac } = ticket;
        RawTicket {
            fid: fid.into(),
            mac: mac.into(),
            expires: expires.into(),
            epoch: epoch.into(),
            rights: rights.bits(),
            zero: [0; 3],
        }
    }
}

impl Operation for AskTickets {
    fn fid(&self) -> Fid {
        self.fids.first().copied().unwrap_or(Fid::NONE)
    }

    fn try_each_fid<E>(&mut self, each: impl FnMut(&mut Fid) -> Result<(), E>) -> Result<(), E> {
        self.fids.iter_mut().try_for_each(each)
    }

    fn reply_bytes(&self) -> usize {
        self.fids.len() * size_of::<RawTicket>()
    }

    fn flags(&self) -> u16 {
        bits([self.of_objects])
    }

    fn put(&self, w: &mut Writer) {
        w.put(&len32(self.fids.len()));
        self.fids.iter().for_each(|fid| w.put(&RawFid::from(*fid)));
        put_tickets(&self.had, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<AskTickets, DecodeError> {
        let [of_objects] = unpack(FLAGS, flags)?;
        let n = count(*r.get()?, "files", TICKETS_PER_OP_MAX)?;
        let fids = r.slice_of::<RawFid>(n)?.iter().map(Fid::from).collect();
        Ok(AskTickets { fids, of_objects, had: tickets(r)? })
    }

    #[cfg(test)]
    fn sample() -> AskTickets {
        AskTickets { fids: vec![FID, Fid::result_of(0)], of_objects: true, had: vec![ticket()] }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<AskTickets> {
        (vec(any_fid(), 0..9), any::<bool>(), vec(any_ticket(), 0..9))
            .prop_map(|(fids, of_objects, had)| AskTickets { fids, of_objects, had })
            .boxed()
    }
}
