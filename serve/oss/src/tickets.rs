//! Which clients must show tickets for what they do with objects, and what each has shown
//! (docs/security.md, "Object tickets").
//!
//! Restricted are the clients of nodemaps that restrict their users, and those whose users the MDTs
//! squash, as far as the MGS keeps that. Servers and clients at loopback are never restricted. All
//! of it is in memory: after a restart of the OST clients show their tickets again.

use foldhash::HashMap;
use idmap::acting::Acting;
use idmap::rules::Rules;
use idmap::set::Nodemaps;
use observe::mutant::{Mutant, is_mutant};
use parking_lot::{Mutex, RwLock};
use rpc::service::Export;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use target::shown_tickets::ShownTickets;
use types::errno::Errno;
use types::nid::Nid;
use types::object_ticket::{Bearer, ObjectTicket, Signer};
use types::principal::{KeyName, Owner, Role};
use types::session::ClientUuid;
use wire::message::Op;
use wire::ost::{OstOp, ShowTickets};

/// What the administrator has said last.
#[derive(Default)]
struct Said {
    nodemaps: Arc<Nodemaps>,
    /// Of each MDT.
    squash: Vec<Rules>,
}

impl Said {
    fn is_off(&self) -> bool {
        !self.nodemaps.active && self.squash.iter().all(Rules::are_off)
    }

    fn restricts(&self, nid: Nid, key: Option<&KeyName>) -> bool {
        let nodemap = self.nodemaps.active.then(|| self.nodemaps.of(nid, key).1.clone());
        let by_nodemap = Acting { nodemap, ..Acting::default() };
        let squashed = |rules: &Rules| {
            let acting = Acting { squash: rules.of(nid, false), nodemap: None };
            acting.is_restricted()
        };
        by_nodemap.is_restricted() || self.squash.iter().any(squashed)
    }
}

/// One client.
struct Client {
    nid: Nid,
    key: Option<KeyName>,
    /// What `restricted` follows from.
    said: Arc<Said>,
    restricted: bool,
    shown: ShownTickets,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Tickets {
    /// False: no client is restricted. Nearly always, and then nothing else is looked at.
    on: AtomicBool,
    said: RwLock<Arc<Said>>,
    /// Those that sent a request since something was said. Bound: the sessions of the OST.
    clients: Mutex<HashMap<ClientUuid, Client>>,
}

impl Tickets {
    /// The nodemaps hold from now on.
    pub(crate) fn set_nodemaps(&self, nodemaps: Arc<Nodemaps>) {
        self.change(|said| Said { nodemaps, squash: said.squash.clone() });
    }

    /// The MDTs squash by these from now on.
    pub(crate) fn set_squash(&self, squash: Vec<Rules>) {
        self.change(|said| Said { nodemaps: said.nodemaps.clone(), squash });
    }

    fn change(&self, change: impl FnOnce(&Said) -> Said) {
        let mut said = self.said.write();
        let now = change(&said);
        self.on.store(!now.is_off(), Ordering::SeqCst);
        *said = Arc::new(now);
    }

    /// False: no client is restricted, and [`Tickets::admit`] need not be asked.
    pub(crate) fn are_asked_for(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }

    /// Takes the tickets that come with these operations; succeeds if the client may do them all.
    /// `signer`: `None` if the OST does not know the key of the servers, and so believes no ticket.
    /// `recovers`: the client brings back what it was answered, so the time of its tickets may be
    /// over. `now`: seconds since 1970.
    ///
    /// # Errors
    /// ENOKEY: no ticket that it has shown gives it that. EKEYREJECTED: a ticket is not good, or
    /// its time is over.
    pub(crate) fn admit(
        &self,
        export: &Export,
        ops: &[Op],
        signer: Option<Signer>,
        (now, recovers): (u64, bool),
    ) -> Result<(), Errno> {
        let nid = export.nid();
        if export.role() == Role::Server || nid.is_loopback() {
            return Ok(());
        }
        let principal = export.principal();
        let key = principal.as_ref().map(|principal| principal.name.clone());
        if !self.with_client(export.client(), nid, key.clone(), |client| client.restricted) {
            return Ok(());
        }
        let owner = Owner::of(principal.as_deref());
        let bearer = Bearer { client: export.client(), owner: &owner };
        let mut good = Vec::new();
        for ticket in ops.iter().flat_map(tickets_of) {
            let signer = signer.ok_or(Errno::ENOKEY)?;
            let checked = match recovers {
                true => signer.check_made(bearer, ticket, now),
                false => signer.check(bearer, ticket, now),
            };
            if let Err(bad) = checked {
                let client = export.client().brief();
                tracing::debug!(target = %export.target(), %client, fid = %ticket.fid, %bad, "a ticket is refused");
                // What it cannot bring back without, is refused then.
                if recovers {
                    continue;
                }
                return Err(Errno::EKEYREJECTED);
            }
            good.push(ticket);
        }
        self.with_client(export.client(), nid, key, |client| {
            good.into_iter().for_each(|ticket| client.shown.learn(ticket));
            let shown = &mut client.shown;
            let ops =
                ops.iter().filter_map(|op| if let Op::Ost(op) = op { Some(op) } else { None });
            for op in ops {
                op.try_each_use(|fid, rights| {
                    let given = match recovers {
                        true => shown.gave(fid, rights),
                        false => shown.give(fid, rights, now),
                    };
                    if given || is_mutant(Mutant::TicketNotChecked) {
                        Ok(())
                    } else {
                        Err(Errno::ENOKEY)
                    }
                })?;
            }
            Ok(())
        })
    }

    /// Runs `f` with what is known of a client that is neither a server nor at loopback.
    fn with_client<R>(
        &self,
        client: ClientUuid,
        nid: Nid,
        key: Option<KeyName>,
        f: impl FnOnce(&mut Client) -> R,
    ) -> R {
        let said = self.said.read().clone();
        let mut clients = self.clients.lock();
        let known = clients.entry(client).or_insert_with(|| Client {
            nid,
            key: key.clone(),
            restricted: said.restricts(nid, key.as_ref()),
            said: said.clone(),
            shown: ShownTickets::default(),
        });
        if !Arc::ptr_eq(&known.said, &said) || known.nid != nid || known.key != key {
            known.restricted = said.restricts(nid, key.as_ref());
            (known.nid, known.key, known.said) = (nid, key, said);
        }
        f(known)
    }

    /// The session of a client has ended.
    pub(crate) fn gone(&self, client: ClientUuid) {
        self.clients.lock().remove(&client);
    }
}

fn tickets_of(op: &Op) -> &[ObjectTicket] {
    match op {
        Op::Ost(OstOp::Tickets(ShowTickets { tickets })) => tickets,
        _ => &[],
    }
}
