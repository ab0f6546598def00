//! AskTickets: what a client may do with the objects of files, signed for the OSTs
//! (docs/security.md, "Object tickets"). And what it may do with bytes of files that are here: the
//! MDT remembers the tickets that it gave, so it need not be shown them.
//!
//! A client gets the rights that the caller has by owner, mode and ACL now, whatever else the MDT
//! leaves to its kernel. It keeps what it had while the file is open or locked there: what it had
//! is shown by an open file that the MDT vouches for, or by an earlier ticket, which outlives the
//! MDT's memory.

use crate::mds::{Mds, RequestContext, alive};
use crate::ops::layouts::layout::layout_of;
use crate::records::Records;
use disk::{key, objects_at};
use namespace::access::{EXECUTE, READ, WRITE, permission};
use namespace::context::Context;
use namespace::inode::{Inode, InodeFlags};
use observe::mutant::{Mutant, is_mutant};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use target::shown_tickets::ShownTickets;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::object_ticket::{Bearer, LIFE_SECONDS_MAX, ObjectTicket, Rights, Signer};
use types::principal::Owner;
use types::proof::ServerKey;
use wire::mds::{AskTickets, MdsOp, MdsReply};

/// Bits under which a client works with the data of a file, or has it open.
const OF_USERS: InodeBits = InodeBits::OPEN.union(InodeBits::DATA).union(InodeBits::WRITE);

/// What the caller may do with the bytes of a file by itself. Its owner may do everything: it could
/// give itself the permission. A program that may be executed is read to that end.
fn permitted(records: &Records<'_>, ctx: &Context<'_>, inode: &Inode) -> Result<Rights, Errno> {
    let mut rights = Rights::NONE;
    let owns = ctx.credentials.uid == inode.attr.uid;
    for (want, gives) in [(READ, Rights::READ), (EXECUTE, Rights::READ), (WRITE, Rights::WRITE)] {
        match permission(records, ctx, inode, want) {
            Ok(()) => rights |= gives,
            Err(Errno::EACCES) if owns => rights |= gives,
            // EPERM: it is immutable.
            Err(Errno::EACCES | Errno::EPERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(rights)
}

impl Mds {
    /// The key of the servers, with which tickets are signed.
    pub fn set_server_key(&self, key: ServerKey) {
        *self.server_key.write() = key;
    }

    /// For how long tickets are good, seconds.
    pub fn ticket_life(&self) -> u32 {
        self.tunables.ticket_life.load(Relaxed)
    }

    /// Sets it, for tickets from now on.
    ///
    /// # Errors
    /// ERANGE: not 2 to [`LIFE_SECONDS_MAX`].
    pub fn set_ticket_life(&self, seconds: u32) -> Result<(), Errno> {
        if !(2..=LIFE_SECONDS_MAX).contains(&seconds.into()) {
            return Err(Errno::ERANGE);
        }
        self.tunables.ticket_life.store(seconds, Relaxed);
        Ok(())
    }

    pub(in crate::ops) fn tickets(
        &self,
        request: &RequestContext<'_>,
        op: &AskTickets,
    ) -> Result<MdsReply, Errno> {
        let key = *self.server_key.read();
        let signer = Signer::new(key, self.name.fsname).ok_or(Errno::ENOKEY)?;
        let now = self.wall_seconds();
        let owner = Owner::of(request.export.principal().as_deref());
        let bearer = Bearer { client: request.client(), owner: &owner };
        let mut had = BTreeMap::<Fid, Rights>::new();
        for ticket in &op.had {
            if signer.check_made(bearer, ticket, now).is_ok() {
                *had.entry(ticket.fid).or_default() |= ticket.rights;
            }
        }
        let life = self.ticket_life();
        let ticket = |fid: &Fid| {
            let (file, named, rights) = self.rights(request, *fid, op.of_objects, &had)?;
            if rights.is_empty() {
                return Err(Errno::EACCES);
            }
            let ticket = signer.make(bearer, (named, rights), now, life.into());
            if request.is_restricted {
                self.given(request, |given| given.learn(&ObjectTicket { fid: file, ..ticket }))?;
            }
            Ok(ticket)
        };
        // Each by itself, so that a long list keeps no other request waiting.
        Ok(MdsReply::Tickets { life, tickets: op.fids.iter().map(ticket).collect() })
    }

    /// Succeeds if a restricted client may do this with the bytes of a file: by the caller's
    /// permission, or by a ticket that the MDT gave it in this life. Also if the operation will be
    /// refused for another reason, which it tells.
    ///
    /// # Errors
    /// ENOKEY: neither. The client asks for a ticket first.
    pub(crate) fn may_use(&self, request: &RequestContext<'_>, op: &MdsOp) -> Result<(), Errno> {
        let Some((fid, rights)) = op.bytes_used() else { return Ok(()) };
        let now = self.wall_seconds();
        if self.given(request, |given| given.give(fid, rights, now))?
            || request.is_read_only
                && self.unless_read_only(request.export, op, request.restores).is_err()
        {
            return Ok(());
        }
        let ctx = Context { credentials: request.credentials, now: Default::default(), version: 0 };
        // Then `setattr` refuses it.
        let is_immutable = |inode: &Inode| {
            matches!(op, MdsOp::Setattr(_)) && inode.flags.contains(InodeFlags::IMMUTABLE)
        };
        let permitted = self.read_for(request, |records| match records.there(fid) {
            Err(_) => Ok(Rights::ALL),
            Ok(inode) if inode.file_type() != FileType::Regular => Ok(Rights::ALL),
            Ok(inode) if is_immutable(&inode) => Ok(Rights::ALL),
            Ok(_) if request.is_denied => Ok(Rights::NONE),
            Ok(inode) => permitted(records, &ctx, &inode),
        });
        match permitted {
            Ok(permitted) if !permitted.is_empty() && permitted.contains(rights) => Ok(()),
            _ if is_mutant(Mutant::TicketNotChecked) => Ok(()),
            _ => Err(Errno::ENOKEY),
        }
    }

    /// Works with what the tickets of the request's client let it do here.
    ///
    /// # Errors
    /// ENOTCONN: its session has ended.
    fn given<R>(
        &self,
        request: &RequestContext<'_>,
        f: impl FnOnce(&mut ShownTickets) -> R,
    ) -> Result<R, Errno> {
        let mut given = self.tickets_given.lock();
        alive(request.export)?;
        Ok(f(given.entry(request.client()).or_default()))
    }

    fn wall_seconds(&self) -> u64 {
        u64::try_from(self.env.clock.wall().sec).unwrap_or(0)
    }

    /// What a client may do with the objects of a file: the file, after which file they are named,
    /// and the rights.
    fn rights(
        &self,
        request: &RequestContext<'_>,
        fid: Fid,
        of_objects: bool,
        had: &BTreeMap<Fid, Rights>,
    ) -> Result<(Fid, Fid, Rights), Errno> {
        let client = request.client();
        let ctx = Context { credentials: request.credentials, now: Default::default(), version: 0 };
        self.read_for(request, |records| {
            let file = match of_objects {
                true => records.tx.get(&key::objects_at(fid), objects_at::decode)?,
                false => None,
            };
            let file = file.transpose().map_err(|_| Errno::EIO)?.unwrap_or(fid);
            self.ours(file)?;
            // Of a file outside of its realm it gets what stores the bytes that it may still have.
            let stores = records.state.may_store(client, file);
            let inode = match stores {
                true => records.anywhere(|records| records.there(file))?,
                false => records.there(file)?,
            };
            let is_outside = request.realm.admits(file, inode.flags.bits(), &inode.tail).is_err();
            let named = layout_of(&inode)?.names(file);
            if of_objects && named != fid {
                return Err(Errno::ESTALE);
            }
            let permitted = permitted(records, &ctx, &inode)?;
            let opens = &records.state.opens;
            let vouched = opens.vouched(client, file);
            let uses = opens.has_open(client, file)
                || !(records.state.locks.table.shown(file, client) & OF_USERS).is_empty();
            let kept = had.get(&named).copied().filter(|_| uses).unwrap_or_default();
            let rights = permitted | vouched | kept;
            if is_outside {
                return Ok((file, named, rights & Rights::WRITE));
            }
            // What it had open when it might change files it may write to the end.
            if request.is_read_only {
                let writes = opens.is_writing(client, file);
                let stays = if writes { vouched | kept } else { Rights::NONE };
                return Ok((file, named, rights & (stays | Rights::READ)));
            }
            Ok((file, named, rights))
        })
    }
}
