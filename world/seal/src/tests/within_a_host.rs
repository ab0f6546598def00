//! Within a host: keys are proved, and what follows is plain.

use super::{
    DAY, NID, NOW, answered_over, authority, credentials, keys, meet, meet_over, reason, run, split,
};
use crate::credentials::Credentials;
use lnet::seal::{Reach, Read, Seal, Write};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use types::principal::Role;

/// Passes on what arrives, and keeps a copy.
async fn pass(mut from: Read, mut to: Write, copy: &mut Vec<u8>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        copy.extend(&bytes[..count]);
        to.write_all(&bytes[..count]).await.unwrap();
    }
}

#[test]
fn within_a_host_both_ends_prove_their_keys_and_send_plain_bytes() {
    const MARK: &[u8] = b"what a program wrote, and nothing that looks like a record";
    let authority = authority();
    let (server, client) =
        (credentials(&authority, Role::Server, "s"), credentials(&authority, Role::Client, "c"));
    for reach in [Reach::Host, Reach::Network] {
        let (near, near_end) = duplex(64 << 10);
        let (far_end, far) = duplex(64 << 10);
        let (client_keys, server_keys) = (keys(&client, NOW), keys(&server, NOW));
        let call = async {
            let (read, write) = split(near);
            let mut called = Seal::call(&*client_keys, NID, read, write, reach).await.unwrap();
            // At once: the other end may not have come further yet.
            called.write.write_all(MARK).await.unwrap();
            called.write.flush().await.unwrap();
            let mut answer = [0; MARK.len()];
            called.read.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, MARK);
            called
        };
        let answer = async {
            let mut answered = answered_over(&server_keys, far, reach).await.unwrap().unwrap();
            let mut heard = [0; MARK.len()];
            answered.read.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, MARK);
            answered.write.write_all(MARK).await.unwrap();
            answered.write.flush().await.unwrap();
            answered
        };
        let (mut out, mut back) = (Vec::new(), Vec::new());
        let ((out_read, back_write), (back_read, out_write)) = (split(near_end), split(far_end));
        let (called, answered) = run(async {
            let pass = futures_util::future::join(
                pass(out_read, out_write, &mut out),
                pass(back_read, back_write, &mut back),
            );
            tokio::select! {
                ends = async { tokio::join!(call, answer) } => ends,
                _ = pass => unreachable!("both ends live"),
            }
        });
        assert_eq!(*called.principal, *server.principal());
        assert_eq!(*answered.principal, *client.principal());
        assert!(called.protection.authority.is_some() && called.protection.expires.is_some());
        let shows = |bytes: &[u8]| bytes.windows(MARK.len()).any(|window| window == MARK);
        let plain = reach == Reach::Host;
        assert_eq!((shows(&out), shows(&back)), (plain, plain), "{reach:?}");
        assert_eq!(called.protection.cipher == crate::within::NO_CIPHER, plain);
    }
}

#[test]
fn within_a_host_a_key_is_refused_for_the_same_reasons_and_no_handshake_is_passed_on() {
    let (one, other) = (authority(), authority());
    let (server, client) =
        (credentials(&one, Role::Server, "s"), credentials(&one, Role::Client, "c"));
    let foreign = credentials(&other, Role::Client, "c");
    let meet = |client: &Credentials, server: &Credentials, over, later| {
        run(meet_over(&keys(client, NOW + later), &keys(server, NOW + later), over))
    };
    let host = [Reach::Host; 2];
    let words = |client: &Credentials, later| {
        let (called, answered) = meet(client, &server, host, later);
        let network = run(self::meet(&keys(client, NOW + later), &keys(&server, NOW + later)));
        let words = (reason(called.err().unwrap()), reason(answered.err().unwrap()));
        assert_eq!(words, (reason(network.0.err().unwrap()), reason(network.1.err().unwrap())));
        words
    };
    assert!(!words(&foreign, 0).0.is_empty());
    assert!(!words(&client, 400 * DAY).0.is_empty());
    let (called, answered) = meet(&client, &client, host, 0);
    assert!(called.is_err() && answered.is_err(), "it serves nothing");
    for over in [[Reach::Host, Reach::Network], [Reach::Network, Reach::Host]] {
        let (called, answered) = meet(&client, &server, over, 0);
        assert!(called.is_err() && answered.is_err(), "{over:?}");
    }
    assert!(meet(&client, &server, host, 0).0.is_ok());
}
