//! What a process that keeps to no rule can do to a server, seen from outside.

use e2e::can_mount;
use e2e::cluster::Cluster;
use e2e::process::detach;
use e2e::stranger::{Stranger, make_directory};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;
use types::errno::Errno;
use types::limits::{
    CLIENTS_MAX, LINKS_PER_PROCESS_MAX, RECEIVE_BYTES_PER_ADDRESS_MAX, SESSIONS_PER_ADDRESS_MAX,
};
use types::session::ClientUuid;
use types::target::{FsName, TargetName};
use wire::envelope::Refusal;
use wire::mds::MdsOp;
use wire::message::Op;

/// Another address of this host than the one that its own clients call from.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 99));
const MIB: usize = 1 << 20;

/// Resident memory that is no file's, bytes.
fn resident(pid: i32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    let kb: usize = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kb << 10
}

fn still_works(cluster: &Cluster) {
    fs::write(cluster.mount().join("file"), "still here").expect("the mount works");
    assert_eq!(fs::read_to_string(cluster.mount().join("file")).expect("read"), "still here");
}

#[test]
fn connections_without_a_session_cost_little_memory() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let (listen, before) = (cluster.listens_at(), resident(cluster.pid()));
    let mut all: Vec<Stranger> =
        (0..100).map(|n| Stranger::greet(ELSEWHERE, &listen, 1000 + n)).collect();
    let sent: usize =
        all.iter_mut().map(|stranger| stranger.begin_request(16 * MIB, 8 * MIB)).sum();
    let more = resident(cluster.pid()).saturating_sub(before);
    eprintln!("{sent} bytes sent, {more} bytes more resident");
    assert!(more < 32 * MIB, "100 connections without a session cost {more} bytes");
    still_works(&cluster);
}

#[test]
fn what_clients_send_is_bounded_together() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let (listen, before) = (cluster.listens_at(), resident(cluster.pid()));
    let target = TargetName::ost(FsName::default(), 0);
    let mut first = Stranger::greet(ELSEWHERE, &listen, 7);
    assert_eq!(first.session(ClientUuid(0xabc), target).expect("an answer"), None);
    let mut all: Vec<Stranger> =
        (1..LINKS_PER_PROCESS_MAX).map(|_| Stranger::greet(ELSEWHERE, &listen, 7)).collect();
    let sent: usize =
        all.iter_mut().map(|stranger| stranger.begin_request(16 * MIB, 16 * MIB - 1)).sum();
    let more = resident(cluster.pid()).saturating_sub(before);
    eprintln!("{sent} bytes sent, {more} bytes more resident");
    assert!(more < RECEIVE_BYTES_PER_ADDRESS_MAX + 32 * MIB, "{more} bytes are held");
    still_works(&cluster);
}

#[test]
fn sessions_that_hold_nothing_delay_no_restart() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&[]);
    let (listen, target) = (cluster.listens_at(), TargetName::mdt(FsName::default(), 0));
    let mut phantom = Stranger::greet(ELSEWHERE, &listen, 7);
    for n in 0..3 {
        assert_eq!(phantom.session(ClientUuid(0xabc + n), target).expect("an answer"), None);
        // Asking for what leaves nothing behind changes nothing about that.
        phantom.ask(ClientUuid(0xabc + n), target, Op::Mds(MdsOp::Statfs)).expect("an answer");
    }
    cluster.kill();
    cluster.start();
    assert!(
        !cluster.log().contains("recovery is over"),
        "the MDT waited for them: {}",
        cluster.log()
    );
    still_works(&cluster);

    // A client that changed something is waited for: its changes may be brought back.
    let listen = cluster.listens_at();
    let mut author = Stranger::greet(ELSEWHERE, &listen, 8);
    assert_eq!(author.session(ClientUuid(0xdef), target).expect("an answer"), None);
    let mkdir = make_directory("made");
    assert_eq!(author.ask(ClientUuid(0xdef), target, mkdir).expect("an answer"), None);
    cluster.kill();
    cluster.start();
    assert!(
        cluster.log().contains("recovery is over"),
        "the MDT did not wait for it: {}",
        cluster.log()
    );
    assert!(cluster.mount().join("made").is_dir());
}

#[test]
fn sessions_of_one_address_leave_places_to_others() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let (listen, target) = (cluster.listens_at(), TargetName::ost(FsName::default(), 0));
    let mut crowd = Stranger::greet(ELSEWHERE, &listen, 7);
    let mut made = 0;
    for n in 0..CLIENTS_MAX as u128 {
        match crowd.session(ClientUuid(0x10_0000 + n), target).expect("an answer") {
            None => made += 1,
            Some(refusal) => assert_eq!(refusal, Refusal::Errno(Errno::EBUSY)),
        }
    }
    assert_eq!(made, SESSIONS_PER_ADDRESS_MAX);
    let mut other = Stranger::greet(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 98)), &listen, 8);
    assert_eq!(
        other.session(ClientUuid(1), target).expect("an answer"),
        None,
        "another address has places"
    );
    still_works(&cluster);
}

#[test]
fn what_strangers_do_fills_no_log_and_the_log_names_no_client() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&[]);
    let listen = cluster.listens_at();
    let log = cluster.dir().join("log/node.log");
    let told = || fs::read_to_string(&log).expect("the log").matches("connection refused").count();
    let before = told();
    let began = Instant::now();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(&listen).expect("connects");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is read");
        let _ = stream.read(&mut [0; 16]);
    }
    let lines = told() - before;
    let seconds = began.elapsed().as_secs() as usize;
    assert!(lines >= 1 && lines <= seconds + 2, "{lines} lines in {seconds} s");

    let client = ClientUuid(0x1234_5678_9abc_def0_1122_3344_5566_7788);
    let mut phantom = Stranger::greet(ELSEWHERE, &listen, 7);
    assert_eq!(
        phantom.session(client, TargetName::ost(FsName::default(), 0)).expect("an answer"),
        None
    );
    let nobody = phantom.ask(client, TargetName::mdt(FsName::default(), 0), Op::Mds(MdsOp::Statfs));
    assert_eq!(nobody.expect("an answer"), Some(Refusal::NoSession));
    assert!(!fs::read_to_string(&log).expect("the log").contains(&client.to_string()));
    assert_eq!(fs::metadata(&log).expect("stat").permissions().mode() & 0o777, 0o640);

    let socket = cluster.dir().join("run/control.sock");
    assert!(socket.exists());
    cluster.stop();
    assert!(!socket.exists(), "the control socket is still there");
    cluster.start();
    cluster.kill();
    assert!(socket.exists(), "a killed process leaves it");
    detach(&cluster.mount());
    assert!(cluster.command(&["down"]).status.success());
    assert!(!socket.exists(), "the control socket of a killed process is still there");
}
