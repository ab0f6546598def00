//! Which keys an end believes: authorities, their generations, and revoked keys.

use super::{
    DAY, NID, NOW, answered, authority, credentials, generations, keys, meet, reason, run, split,
};
use crate::credentials::Credentials;
use lnet::error::LinkError;
use lnet::seal::{Reach, Seal};
use std::collections::BTreeSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use types::principal::Role;

#[test]
fn both_ends_learn_whose_the_other_is() {
    let authority = authority();
    let (server, client) =
        (credentials(&authority, Role::Server, "s"), credentials(&authority, Role::Client, "c"));
    let (called, answered) = run(meet(&keys(&client, NOW), &keys(&server, NOW)));
    assert_eq!(*called.unwrap().principal, *server.principal());
    assert_eq!(*answered.unwrap().unwrap().principal, *client.principal());
}

#[test]
fn who_is_not_believed_is_told_why_in_one_sentence() {
    let (ours, other) = (authority(), authority());
    let [server, false_server] =
        [&ours, &other].map(|authority| credentials(authority, Role::Server, "s"));
    let [client, stranger] =
        [&ours, &other].map(|authority| credentials(authority, Role::Client, "c"));
    let cases = [
        // (client's key and clock, server's key and clock, what the client hears, what the server
        // says)
        ((&client, NOW), (&client, NOW), "connect", "not that of a server"),
        (
            (&stranger, NOW),
            (&server, NOW),
            "its key is of another cluster",
            "the key of this host is of another",
        ),
        ((&client, NOW), (&false_server, NOW), "its key is of another cluster", ""),
        (
            (&client, NOW),
            (&server, NOW + 2 * DAY),
            "the key of this host has expired",
            "its key has expired",
        ),
        ((&client, NOW + 2 * DAY), (&server, NOW), "its key has expired", ""),
        ((&client, NOW - DAY), (&server, NOW), "its key is not valid yet", ""),
    ];
    for (at, ((key, now), (answers, then), hears, says)) in cases.into_iter().enumerate() {
        let (called, answered) = run(meet(&keys(key, now), &keys(answers, then)));
        let answered = reason(answered.err().unwrap());
        assert!(answered.contains(says), "{at}: {answered}");
        match called.err().unwrap() {
            LinkError::Key { reason, .. } => assert!(reason.contains(hears), "{at}: {reason}"),
            LinkError::Lost { .. } if at == 0 => {}
            other => panic!("{at}: {other}"),
        }
    }
    // The client of another cluster, which believes any server.
    let (called, answered) = run(async {
        let (near, far) = duplex(64 << 10);
        let (read, write) = split(near);
        let both = Credentials::from_text(&mixed(&stranger, &server)).unwrap();
        let client = keys(&both, NOW);
        let server = keys(&server, NOW);
        let call = async {
            let mut sealed = Seal::call(&*client, NID, read, write, Reach::Network).await.unwrap();
            sealed.read.read_exact(&mut [0; 1]).await.unwrap_err()
        };
        tokio::join!(call, answered(&server, far))
    });
    assert!(called.to_string().contains("the key of this host is of another cluster"), "{called}");
    assert!(reason(answered.err().unwrap()).contains("its key is of another cluster"));
}

/// The key of the one, with the authority of the other.
fn mixed(key: &Credentials, authority: &Credentials) -> String {
    let (of_key, of_authority) = (key.to_text(), authority.to_text());
    let own = of_key.rsplit_once("-----BEGIN CERTIFICATE").unwrap().0;
    let foreign = of_authority.rsplit_once("-----BEGIN CERTIFICATE").unwrap().1;
    format!("{own}-----BEGIN CERTIFICATE{foreign}")
}

#[test]
fn keys_of_both_authorities_meet_until_the_first_one_is_withdrawn() {
    let first = authority();
    let second = first.rotate(NOW).unwrap();
    let [_, of_first] = second.fingerprints()[..] else { panic!("two hold") };
    let servers = generations(Role::Server, "s", &first, &second);
    let clients = generations(Role::Client, "c", &first, &second);
    for (c, client) in clients.iter().enumerate() {
        for (s, server) in servers.iter().enumerate() {
            let (called, answered) = run(meet(&keys(client, NOW), &keys(server, NOW)));
            // Only the first authority and the second without the bridge know nothing of each
            // other.
            let meets = !matches!((c, s), (0, 2) | (2, 0));
            assert_eq!((called.is_ok(), answered.is_ok()), (meets, meets), "{c} {s}");
            assert_eq!(client.believes(server, NOW) && server.believes(client, NOW), meets);
            let Ok(called) = called else {
                let sentence = reason(called.err().unwrap());
                assert!(sentence.contains("another authority signed it"), "{c} {s}: {sentence}");
                continue;
            };
            let answered = answered.unwrap().unwrap();
            assert_eq!(
                (&*called.principal, &*answered.principal),
                (server.principal(), client.principal())
            );
            // Each knows which authority vouches: none that it trusts, if that is the bridge.
            for (own, other, protection) in [(c, s, called.protection), (s, c, answered.protection)]
            {
                let expected = match (own, other) {
                    (_, 0) => Some(of_first.0),
                    (0, _) => None,
                    _ => Some(second.fingerprint()),
                };
                assert_eq!(protection.authority, expected, "{own} of {other}");
            }
        }
    }
}

#[test]
fn what_a_withdrawn_authority_vouches_for_is_known() {
    let first = authority();
    let second = first.rotate(NOW).unwrap();
    let [_, overlap, after] = generations(Role::Server, "s", &first, &second);
    let server = keys(&overlap, NOW);
    let clients = generations(Role::Client, "c", &first, &second);
    let [old, new, _] = clients.map(|client| {
        let (_, answered) = run(meet(&keys(&client, NOW), &server));
        answered.unwrap().unwrap().protection
    });
    assert!(!server.is_withdrawn(&old) && !server.is_withdrawn(&new));
    assert_eq!(server.replace(&overlap), Ok(false), "the same");
    assert_eq!(server.replace(&after), Ok(true), "it trusts one authority less");
    assert!(server.is_withdrawn(&old) && !server.is_withdrawn(&new));
    assert_eq!(server.replace(&after), Ok(false));
}

#[test]
fn a_key_that_the_first_authority_signed_after_its_withdrawal_is_refused() {
    let first = authority();
    let second = first.rotate(NOW).unwrap();
    let forged = credentials(&first, Role::Client, "c");
    let [_, overlap, after] = generations(Role::Server, "s", &first, &second);
    // It believes the new authority.
    let forged = keys(&Credentials::from_text(&mixed(&forged, &after)).unwrap(), NOW);
    let server = keys(&overlap, NOW);
    // In a handshake that began before the withdrawal and ends after it, too.
    let (called, answered) = run(async {
        let (near, far) = duplex(64 << 10);
        let (read, write) = split(near);
        let call = async {
            let mut sealed = Seal::call(&*forged, NID, read, write, Reach::Network).await?;
            server.replace(&after).unwrap();
            sealed.write.write_all(b"ping").await.ok();
            sealed.write.flush().await.ok();
            Ok::<_, LinkError>(())
        };
        tokio::join!(call, answered(&server, far))
    });
    called.unwrap();
    let said = reason(answered.err().unwrap());
    assert!(said.contains("was just withdrawn"), "{said}");
    let (_, answered) = run(meet(&forged, &server));
    let said = reason(answered.err().unwrap());
    assert!(said.contains("its key is of another cluster: another authority signed it"), "{said}");
}

#[test]
fn a_revoked_server_is_not_believed() {
    let authority = authority();
    let (server, client) =
        (credentials(&authority, Role::Server, "s"), credentials(&authority, Role::Client, "c"));
    let client = keys(&client, NOW);
    assert!(client.revoke(BTreeSet::from([server.principal().key])));
    assert!(!client.revoke(BTreeSet::from([server.principal().key])), "no news");
    let (called, _) = run(meet(&client, &keys(&server, NOW)));
    assert_eq!(reason(called.err().unwrap()), "it shows the key of server s, which was revoked");
}
