//! Clients that come back with tickets, and those that must not.

use crate::authority::{Authority, Subject};
use crate::credentials::Credentials;
use crate::keys::Keys;
use crate::tests::{
    DAY, NID, NOW, Set, answered, authority, credentials, generations, meet, reason, run, split,
};
use crate::tickets::TicketKeys;
use env::random::Random;
use lnet::seal::Seal;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tokio::io::duplex;
use types::nid::Nid;
use types::principal::{KeyHash, Role};

const HOUR: i64 = 3600;

/// Not random, and never the same.
struct Count(AtomicU64);

impl Random for Count {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

static RANDOM: Count = Count(AtomicU64::new(1));
pub(crate) const RANDOM_OF_TESTS: &dyn Random = &RANDOM;

/// A process, and its clock.
struct Process {
    keys: Arc<Keys>,
    clock: Arc<Set>,
}

impl Process {
    fn of(credentials: &Credentials) -> Process {
        let clock = Arc::new(Set(AtomicI64::new(NOW)));
        let process = Process { keys: Keys::new(credentials, clock.clone()).unwrap(), clock };
        process.look();
        process
    }

    /// What a daemon does now and then.
    fn look(&self) -> Option<String> {
        let due = self.keys.ticket_keys_due(&RANDOM)?;
        self.keys.set_ticket_keys(due.clone());
        Some(due.to_text())
    }

    /// A server that read this file.
    fn with(credentials: &Credentials, ticket_keys: &str) -> Process {
        let process = Process::of(credentials);
        process.keys.set_ticket_keys(TicketKeys::from_text(ticket_keys).unwrap());
        process
    }

    fn wait(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
        self.look();
    }

    fn counts(&self) -> (u64, u64) {
        let counts = self.keys.handshakes();
        (counts.full.load(Ordering::SeqCst), counts.resumed.load(Ordering::SeqCst))
    }
}

fn issued(authority: &Authority, (role, name): (Role, &str), life: i64) -> Credentials {
    let name = name.parse().unwrap();
    let subject = Subject { role, name: &name, nids: &[] };
    authority.issue_key(subject, Vec::new(), (NOW, life)).unwrap()
}

/// A server with its ticket keys as text, and a client.
fn ends(authority: &Authority) -> ((Credentials, String), Credentials) {
    let [server, client] = [(Role::Server, "s"), (Role::Client, "c")]
        .map(|(role, name)| issued(authority, (role, name), 30 * DAY));
    let text = TicketKeys::default().renewed(NOW, &RANDOM).unwrap().to_text();
    ((server, text), client)
}

/// True if the two met with a ticket, false with certificates. Both must be of one mind.
fn resumes(client: &Process, server: &Process) -> bool {
    let before = [client.counts(), server.counts()];
    let (called, answered) = run(meet(&client.keys, &server.keys));
    let (called, answered) = (called.unwrap(), answered.unwrap().unwrap());
    assert_eq!(*called.principal, server.keys.principal());
    assert_eq!(*answered.principal, client.keys.principal());
    assert!(called.protection.authority.is_some() && answered.protection.expires.is_some());
    let after = [client.counts(), server.counts()];
    let is_resumed = |n: usize| match (after[n].0 - before[n].0, after[n].1 - before[n].1) {
        (1, 0) => false,
        (0, 1) => true,
        other => panic!("{other:?}"),
    };
    assert_eq!(is_resumed(0), is_resumed(1));
    is_resumed(0)
}

#[test]
fn a_client_comes_back_with_a_ticket_also_to_a_server_that_was_started_again() {
    let ((own, text), client) = ends(&authority());
    let (client, server) = (Process::of(&client), Process::with(&own, &text));
    let seen: Vec<_> = (0..4).map(|_| resumes(&client, &server)).collect();
    assert_eq!(seen, [false, true, true, true]);
    assert!(resumes(&client, &Process::with(&own, &text)));
    assert!(!resumes(&client, &Process::of(&own)), "it has new ticket keys");
    // The other way round, a ticket of those keys is none here.
    assert!(!resumes(&client, &server));
    // One without ticket keys gives none.
    let bare = Keys::new(&own, server.clock.clone()).unwrap();
    let bare = Process { keys: bare, clock: server.clock.clone() };
    assert!(!resumes(&client, &bare));
    assert!(!resumes(&client, &bare));
    assert!(!resumes(&client, &server));
    assert!(resumes(&client, &server));
}

#[test]
fn tickets_end_and_once_a_day_a_key_is_to_be_shown() {
    let ((own, text), client) = ends(&authority());
    // The clock of the client stands still: it would not show them otherwise.
    let (client, server) = (Process::of(&client), Process::with(&own, &text));
    assert!(!resumes(&client, &server));
    server.wait(12 * HOUR - 1);
    assert!(resumes(&client, &server), "a ticket is good for half a day");
    server.wait(11 * HOUR);
    assert!(resumes(&client, &server));
    server.wait(HOUR + 1);
    assert!(!resumes(&client, &server), "the last full handshake was a day ago");
}

#[test]
fn a_revoked_key_does_not_come_back_with_a_ticket() {
    let ((own, text), key) = ends(&authority());
    let (client, server) = (Process::of(&key), Process::with(&own, &text));
    assert!(!resumes(&client, &server));
    assert!(resumes(&client, &server));
    // Revoked. What the greeting makes of the full handshake that follows is not tested here.
    server.keys.revoke(BTreeSet::from([key.principal().key]));
    assert!(!resumes(&client, &server));
    assert!(server.keys.is_revoked(&client.keys.principal()));
}

#[test]
fn a_certificate_that_ends_before_its_ticket_ends_that() {
    let first = authority();
    let ((own, text), _) = ends(&first);
    let key = issued(&first, (Role::Client, "short"), HOUR);
    let (client, server) = (Process::of(&key), Process::with(&own, &text));
    assert!(!resumes(&client, &server));
    server.wait(HOUR);
    assert!(resumes(&client, &server), "to the last second");
    server.wait(1);
    let (_, answered) = run(meet(&client.keys, &server.keys));
    assert!(reason(answered.err().unwrap()).contains("its key has expired"));
    assert_eq!(server.counts(), (1, 1));
}

#[test]
fn the_rotation_of_the_authority_ends_resumption() {
    let first = authority();
    let second = first.rotate(NOW).unwrap();
    let [server_0, server_1, server_2] = generations(Role::Server, "s", &first, &second);
    let [client_0, client_1, _] = generations(Role::Client, "c", &first, &second);
    let text = TicketKeys::default().renewed(NOW, &RANDOM).unwrap().to_text();
    let (client, server) = (Process::of(&client_0), Process::with(&server_0, &text));
    assert!(!resumes(&client, &server));
    assert!(resumes(&client, &server));
    // The server has a new key: its ticket keys are others. The client of the first authority
    // meets it over the bridge.
    server.keys.replace(&server_1).unwrap();
    let bridged = |client: &Process| {
        let (called, answered) = run(meet(&client.keys, &server.keys));
        assert!(called.is_ok() && answered.is_ok());
    };
    let before = server.counts();
    bridged(&client);
    assert_eq!(server.counts(), (before.0 + 1, before.1));
    bridged(&client);
    assert_eq!(server.counts(), (before.0 + 1, before.1 + 1));
    // The client has a new key: it has no tickets.
    let renewed = Process::of(&client_1);
    assert!(!resumes(&renewed, &server));
    assert!(resumes(&renewed, &server));
    // The first authority is withdrawn: no ticket with its certificate is taken, nor a key of it.
    server.keys.replace(&server_2).unwrap();
    assert!(!resumes(&renewed, &server));
    assert!(resumes(&renewed, &server));
    let (_, answered) = run(meet(&client.keys, &server.keys));
    assert!(reason(answered.err().unwrap()).contains("another authority signed it"));
    // A client whose key is replaced by itself forgets its tickets.
    renewed.keys.replace(&client_1).unwrap();
    assert!(!resumes(&renewed, &server));
}

#[test]
fn a_ticket_is_good_for_the_server_that_gave_it_only() {
    let ours = authority();
    let ((own, text), client) = ends(&ours);
    let (client, server) = (Process::of(&client), Process::with(&own, &text));
    assert!(!resumes(&client, &server));
    // Another server of the cluster at the same address, with the same file.
    let other = Process::with(&credentials(&ours, Role::Server, "other"), &text);
    assert!(!resumes(&client, &other));
    assert!(resumes(&client, &other));
    // And one of another cluster, which cannot go on from it either.
    let theirs = Process::with(&credentials(&authority(), Role::Server, "s"), &text);
    let (called, _) = run(meet(&client.keys, &theirs.keys));
    assert!(reason(called.err().unwrap()).contains("its key is of another cluster"));
    assert_eq!(theirs.counts(), (0, 0));
}

#[test]
fn no_ticket_is_shown_to_a_server_that_is_not_believed_any_more() {
    let ((own, text), client) = ends(&authority());
    let (client, server) = (Process::of(&client), Process::with(&own, &text));
    assert!(!resumes(&client, &server));
    client.keys.revoke(BTreeSet::from([own.principal().key]));
    let before = client.counts();
    let (called, _) = run(meet(&client.keys, &server.keys));
    assert_eq!(reason(called.err().unwrap()), "it shows the key of server s, which was revoked");
    assert_eq!(client.counts(), (before.0 + 1, before.1), "it came without a ticket");
    // Its certificate has ended, by the clock of the client.
    let ((own, text), client) = ends(&authority());
    let (client, server) = (Process::of(&client), Process::with(&own, &text));
    assert!(!resumes(&client, &server));
    assert!(resumes(&client, &server));
    client.clock.0.fetch_add(31 * DAY, Ordering::SeqCst);
    let (called, _) = run(meet(&client.keys, &server.keys));
    assert!(reason(called.err().unwrap()).contains("its key has expired"));
}

/// Asks the server for a ticket, as for one at `nid`.
fn fetches(client: &Process, server: &Process, nid: Nid) -> Result<(), String> {
    run(async {
        let (near, far) = duplex(64 << 10);
        let fetch = client.keys.fetch_ticket(nid, split(near));
        let (fetched, answer) = tokio::join!(fetch, answered(&server.keys, far));
        assert!(!matches!(answer, Ok(Some(_))), "it carries no messages");
        fetched.map_err(reason)
    })
}

#[test]
fn a_ticket_that_grows_old_is_replaced_by_a_full_handshake() {
    let ((own, text), key) = ends(&authority());
    let (client, server) = (Process::of(&key), Process::with(&own, &text));
    assert_eq!(client.keys.ticket_due(0), None, "it was never there");
    assert!(!resumes(&client, &server));
    client.wait(7 * HOUR);
    server.wait(7 * HOUR);
    assert_eq!(client.keys.ticket_due(7 * HOUR + 1), None);
    assert_eq!(client.keys.ticket_due(7 * HOUR), Some(NID));
    assert_eq!(client.keys.ticket_due(7 * HOUR), None, "it was just asked");
    fetches(&client, &server, NID).unwrap();
    client.wait(HOUR);
    assert_eq!(client.keys.ticket_due(7 * HOUR), None);
    // With what it got then, it comes back a day after the first connection.
    client.wait(9 * HOUR);
    server.wait(10 * HOUR);
    fetches(&client, &server, NID).unwrap();
    client.wait(8 * HOUR);
    server.wait(8 * HOUR);
    assert!(resumes(&client, &server));
    // Of a server that does not answer the tickets end, and then it is not asked again.
    client.wait(7 * HOUR);
    assert_eq!(client.keys.ticket_due(7 * HOUR), Some(NID));
    client.wait(HOUR);
    assert_eq!(client.keys.ticket_due(7 * HOUR), Some(NID));
    client.wait(4 * HOUR);
    assert_eq!(client.keys.ticket_due(7 * HOUR), None);
    // What is revoked gets none.
    server.keys.revoke(BTreeSet::from([KeyHash([0; 32]), key.principal().key]));
    let said = fetches(&client, &server, NID);
    assert!(said.is_ok(), "it may have a ticket, which is not taken: {said:?}");
    assert!(!resumes(&client, &server));
}

#[test]
fn a_client_keeps_tickets_of_few_servers_and_few_of_each() {
    let ((own, text), client) = ends(&authority());
    let (client, server) = (Process::of(&client), Process::with(&own, &text));
    for kept in [2, 4, 4] {
        fetches(&client, &server, NID).unwrap();
        assert_eq!(client.keys.test_tickets(NID), kept);
    }
    assert!(resumes(&client, &server));
    assert_eq!(client.keys.test_tickets(NID), 4, "one was used, others came");
    for n in 0..1_100_u32 {
        let nid = Nid::Tcp((Ipv4Addr::from_bits(0x0a00_0000 + n), 988).into());
        client.clock.0.store(NOW + i64::from(n), Ordering::SeqCst);
        fetches(&client, &server, nid).unwrap();
    }
    let mut kept = 0;
    while client.keys.ticket_due(0).is_some() {
        kept += 1;
    }
    assert_eq!(kept, 1_024);
}
