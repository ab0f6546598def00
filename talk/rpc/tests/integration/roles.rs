//! Where connections show keys, the role of a key decides what it may send, a session is that of
//! one key, and a revoked key is out. The seal is a twin without cryptography: here counts what the
//! layers above make of it.

use crate::support::*;
use env::BoxFuture;
use lnet::error::LinkError;
use lnet::seal::{
    IT_IS_OPEN, Protection, Reach, Read, START_BYTES, Seal, Sealed, Write, is_sealed,
};
use parking_lot::Mutex;
use rpc::Rpc;
use rpc::error::RpcError;
use rpc::import::Import;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::credentials::Credentials;
use types::errno::Errno;
use types::limits::SESSIONS_PER_KEY_MAX;
use types::nid::Nid;
use types::principal::{KeyHash, Principal, Role};
use wire::message::Op;
use wire::mgs::MgsOp;
use wire::ost::{ObjectDestroy, ObjectList, OstOp};

/// Says whose key it has, and believes what it is told.
struct Twin {
    role: Role,
    number: AtomicU8,
    /// Counts the keys that its owner had.
    renewals: AtomicU8,
    revoked: Mutex<BTreeSet<KeyHash>>,
    /// Number of the authority of its key.
    authority: AtomicU8,
    withdrawn: Mutex<BTreeSet<u8>>,
}

fn principal(role: Role, number: u8) -> Arc<Principal> {
    renewed(role, number, 0)
}

fn renewed(role: Role, number: u8, renewals: u8) -> Arc<Principal> {
    let name = format!("host{number}").parse().unwrap();
    Arc::new(Principal {
        cluster: CLUSTER,
        role,
        name,
        key: KeyHash([number + 100 * renewals; 32]),
        nids: Vec::new(),
    })
}

impl Twin {
    fn start(&self) -> [u8; START_BYTES] {
        let [number, renewals, authority] = [&self.number, &self.renewals, &self.authority]
            .map(|count| count.load(Ordering::SeqCst));
        [0x16, 0x03, self.role as u8, number, renewals, 1, authority, 0]
    }
}

fn protection(start: [u8; START_BYTES]) -> Protection {
    Protection { cipher: "none", expires: None, authority: Some([start[6]; 32]) }
}

fn lost(nid: Nid) -> impl Fn(std::io::Error) -> LinkError {
    move |error| LinkError::Lost { nid, reason: error.to_string() }
}

impl Seal for Twin {
    fn call(
        &self,
        nid: Nid,
        mut read: Read,
        mut write: Write,
        _reach: Reach,
    ) -> BoxFuture<'_, Result<Sealed, LinkError>> {
        Box::pin(async move {
            write.write_all(&self.start()).await.map_err(lost(nid))?;
            let mut start = [0; START_BYTES];
            read.read_exact(&mut start).await.map_err(lost(nid))?;
            if !is_sealed(&start) {
                return Err(LinkError::Key { nid, reason: IT_IS_OPEN.to_owned() });
            }
            Ok(Sealed {
                principal: renewed(Role::of_number(start[2]), start[3], start[4]),
                protection: protection(start),
                read,
                write,
            })
        })
    }

    fn answer(
        &self,
        nid: Nid,
        start: [u8; START_BYTES],
        read: Read,
        mut write: Write,
        _reach: Reach,
    ) -> BoxFuture<'_, Result<Option<Sealed>, LinkError>> {
        Box::pin(async move {
            write.write_all(&self.start()).await.map_err(lost(nid))?;
            Ok(Some(Sealed {
                principal: renewed(Role::of_number(start[2]), start[3], start[4]),
                protection: protection(start),
                read,
                write,
            }))
        })
    }

    fn is_revoked(&self, principal: &Principal) -> bool {
        self.revoked.lock().contains(&principal.key)
    }

    fn is_withdrawn(&self, protection: &Protection) -> bool {
        protection.authority.is_some_and(|[number, ..]| self.withdrawn.lock().contains(&number))
    }
}

/// A process with a key.
fn sealed(env: &env::Env, role: Role, number: u8) -> (Arc<Rpc>, Arc<Twin>) {
    let [number, renewals, authority] = [number, 0, 0].map(AtomicU8::new);
    let (revoked, withdrawn) = (Mutex::default(), Mutex::default());
    let twin = Twin { role, number, renewals, revoked, authority, withdrawn };
    let (rpc, twin) = (process(env), Arc::new(twin));
    assert!(rpc.set_seal(twin.clone()));
    assert!(!rpc.set_seal(twin.clone()), "once");
    (rpc, twin)
}

/// A target at work that asks for keys.
fn server(env: &env::Env) -> (Arc<Rpc>, Arc<Twin>, SocketAddr) {
    let (rpc, twin) = sealed(env, Role::Server, 1);
    rpc.add_service(Ost::new(ost(0), 1));
    let addr = listen(env, &rpc);
    (rpc, twin, addr)
}

fn import(rpc: &Arc<Rpc>, addr: SocketAddr) -> Arc<Import> {
    client_of(rpc, ost(0), vec![Nid::Tcp(addr)], None)
}

fn asks(env: &env::Env, import: &Arc<Import>, op: Op) -> Result<(), RpcError> {
    let import = import.clone();
    run(env, async move { import.one(&Credentials::root(), op).await.map(drop) })
}

/// One operation of each sender. The target of the test knows the first only: what comes through
/// fails otherwise than with EACCES.
fn operations() -> [Op; 4] {
    let unregister = MgsOp::Unregister { name: "sheen-OST0000".to_owned(), store: 1 };
    [
        Op::Ost(OstOp::Statfs),
        Op::Mgs(unregister),
        Op::Ost(OstOp::List(ObjectList { after: None, limit: 1 })),
        Op::Ost(OstOp::Destroy(ObjectDestroy { objects: Vec::new() })),
    ]
}

#[test]
fn the_role_of_the_key_decides_what_it_may_send() {
    let (env, _guard) = machine();
    let (server, _, addr) = server(&env);
    for (number, role, expected) in [
        (2, Role::Client, [true, false, false, false]),
        (3, Role::Administrator, [true, false, true, false]),
        (4, Role::Server, [true, true, true, true]),
    ] {
        let (rpc, _) = sealed(&env, role, number);
        let import = import(&rpc, addr);
        let comes_through =
            |op| !matches!(asks(&env, &import, op), Err(RpcError::Errno(Errno::EACCES)));
        assert_eq!(operations().map(comes_through), expected, "{role}");
        let shown = server
            .exports(ost(0))
            .iter()
            .find_map(|export| export.principal().filter(|p| p.role == role));
        assert_eq!(shown, Some(principal(role, number)));
        shutdown(&env, &rpc);
    }
    shutdown(&env, &server);
}

#[test]
fn a_plain_process_and_a_sealed_one_say_what_is_missing() {
    let (env, _guard) = machine();
    let (sealed_server, _, addr) = server(&env);
    let plain = process(&env);
    let error = asks(&env, &import(&plain, addr), Op::Ost(OstOp::Statfs)).unwrap_err();
    assert!(
        matches!(error, RpcError::Key { .. }) && error.to_string().contains("sheen auth issue"),
        "{error}"
    );
    assert_eq!(error.errno(), Errno::EACCES);

    let open = process(&env);
    open.add_service(Ost::new(ost(0), 1));
    let addr = listen(&env, &open);
    let (client, _) = sealed(&env, Role::Client, 2);
    let error = asks(&env, &import(&client, addr), Op::Ost(OstOp::Statfs)).unwrap_err();
    assert!(
        matches!(error, RpcError::Key { .. }) && error.to_string().contains("it has no key"),
        "{error}"
    );
    [&plain, &client, &open, &sealed_server].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn a_revoked_key_is_out_and_stays_out() {
    let (env, _guard) = machine();
    let (server, twin, addr) = server(&env);
    let (revoked, _) = sealed(&env, Role::Client, 2);
    let (other, _) = sealed(&env, Role::Client, 3);
    let [lost, kept] = [&revoked, &other].map(|rpc| import(rpc, addr));
    let statfs = |import: &Arc<Import>| asks(&env, import, Op::Ost(OstOp::Statfs));
    statfs(&lost).unwrap();
    statfs(&kept).unwrap();
    twin.revoked.lock().insert(KeyHash([2; 32]));
    server.end_revoked(&*twin);
    assert_eq!(server.exports(ost(0)).len(), 1, "its session has ended");
    let error = statfs(&lost).unwrap_err();
    assert!(
        matches!(error, RpcError::Key { .. }) && error.to_string().contains("was revoked"),
        "{error}"
    );
    statfs(&kept).unwrap();
    assert_eq!((kept.connections(), kept.evictions()), (1, 0), "the other one noticed nothing");
    [&revoked, &other, &server].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn connections_of_a_withdrawn_authority_end_and_their_sessions_go_on() {
    let (env, _guard) = machine();
    let (server, twin, addr) = server(&env);
    let (renews, of_renews) = sealed(&env, Role::Client, 2);
    let (newer, of_newer) = sealed(&env, Role::Client, 3);
    of_newer.authority.store(1, Ordering::SeqCst);
    let [session, other] = [&renews, &newer].map(|rpc| import(rpc, addr));
    let statfs = |import: &Arc<Import>| asks(&env, import, Op::Ost(OstOp::Statfs));
    statfs(&session).unwrap();
    statfs(&other).unwrap();
    assert_eq!(server.close_withdrawn(), 0, "nothing is withdrawn");
    // The next connection shows its new key.
    of_renews.authority.store(1, Ordering::SeqCst);
    of_renews.renewals.store(1, Ordering::SeqCst);
    twin.withdrawn.lock().insert(0);
    assert!(server.close_withdrawn() > 0);
    statfs(&session).unwrap();
    assert_eq!((session.connections(), session.evictions()), (2, 0));
    let shown: Vec<_> = server.exports(ost(0)).iter().map(|export| export.principal()).collect();
    assert!(shown.contains(&Some(renewed(Role::Client, 2, 1))), "{shown:?}");
    statfs(&other).unwrap();
    assert_eq!((other.connections(), other.evictions()), (1, 0), "it noticed nothing");
    assert_eq!(server.close_withdrawn(), 0, "none is left");
    [&renews, &newer, &server].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn a_session_is_that_of_one_key() {
    let (env, _guard) = machine();
    let (server, _, addr) = server(&env);
    let cable = Cable::new(&env, addr);
    let (client, twin) = sealed(&env, Role::Client, 2);
    let session = import(&client, cable.addr);
    let statfs = || asks(&env, &session, Op::Ost(OstOp::Statfs));
    statfs().unwrap();
    // All numbers that the client shows are right, as if they had been stolen. The key is another.
    twin.number.store(3, Ordering::SeqCst);
    cable.cut();
    assert_eq!(statfs().unwrap_err(), RpcError::OtherProcess { target: ost(0) });
    let export = server.exports(ost(0)).pop().unwrap();
    assert_eq!(export.principal(), Some(principal(Role::Client, 2)));
    twin.number.store(2, Ordering::SeqCst);
    cable.cut();
    statfs().unwrap();
    // Its host got a new key, which shows at the next connection.
    twin.renewals.store(1, Ordering::SeqCst);
    cable.cut();
    statfs().unwrap();
    assert_eq!((session.connections(), session.evictions()), (3, 0));
    let export = server.exports(ost(0)).pop().unwrap();
    assert_eq!(
        export.principal(),
        Some(renewed(Role::Client, 2, 1)),
        "which is revoked with it, if it is"
    );
    [&client, &server].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn a_recorded_session_is_that_of_one_key_after_a_restart() {
    let (env, _guard) = machine();
    let (server, _, addr) = server(&env);
    let cable = Cable::new(&env, addr);
    let (client, twin) = sealed(&env, Role::Client, 2);
    let session = import(&client, cable.addr);
    let statfs = || asks(&env, &session, Op::Ost(OstOp::Statfs));
    statfs().unwrap();
    let export = server.exports(ost(0)).pop().unwrap();
    let restarted = Ost::new(ost(0), 2);
    restarted.recorded.lock().insert(export.client(), export.claim());
    server.add_service(restarted);
    // All numbers are right, as if they had been stolen. The key is another.
    twin.number.store(3, Ordering::SeqCst);
    cable.cut();
    assert_eq!(statfs().unwrap_err(), RpcError::OtherProcess { target: ost(0) });
    // The key is a new one of the owner.
    twin.number.store(2, Ordering::SeqCst);
    twin.renewals.store(1, Ordering::SeqCst);
    cable.cut();
    statfs().unwrap();
    [&client, &server].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn one_key_has_a_few_sessions_at_a_target_and_a_server_many() {
    let (env, _guard) = machine();
    let (server, _, addr) = server(&env);
    let statfs = |import: &Arc<Import>| asks(&env, import, Op::Ost(OstOp::Statfs));
    for (number, role, most) in
        [(2, Role::Client, SESSIONS_PER_KEY_MAX), (3, Role::Server, usize::MAX)]
    {
        let (rpc, _) = sealed(&env, role, number);
        let imports: Vec<Arc<Import>> =
            (0..SESSIONS_PER_KEY_MAX + 2).map(|_| import(&rpc, addr)).collect();
        let refused: Vec<RpcError> =
            imports.iter().filter_map(|import| statfs(import).err()).collect();
        let expected = RpcError::Refused { target: ost(0), errno: Errno::EBUSY };
        assert_eq!(refused, vec![expected; imports.len().saturating_sub(most)], "{role}");
        // A client that leaves makes room.
        let (leaves, comes) = (imports[0].clone(), imports[imports.len() - 1].clone());
        run(&env, async move { leaves.disconnect().await });
        statfs(&comes).unwrap();
        shutdown(&env, &rpc);
    }
    assert_eq!(server.exports(ost(0)).len(), 0);
    shutdown(&env, &server);
}
