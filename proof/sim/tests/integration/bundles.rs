//! Directories whose name and inode are on two MDTs: made and removed whole, whatever dies when.

use crate::by_hand::cuts::assert_answered;
use crate::by_hand::{Answer, Client, assert_at_rest, name, run, start};
use rpc::service::Service;
use sim::cluster::Cluster;
use sim::fault_profile::Commits;
use simenv::machine::Kill;
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::target::TargetIndex;
use wire::mds::{Create, CreateKind, Lookup, MdsOp, MdsReply, Rmdir};

/// Numbers of the servers of the MDTs with the name and with the inode: the MGS comes first.
const NAME: usize = 1;
const INODE: usize = 2;
/// No operation takes longer, if all are there and nothing has to be committed.
const OPERATION: Duration = Duration::from_micros(2500);
/// Between two moments at which something dies.
const STEP: Duration = Duration::from_micros(50);
/// How something dies.
const HARMS: [Harm; 8] = [
    Harm { victims: &[NAME], client: false, silence: false },
    Harm { victims: &[NAME], client: true, silence: false },
    Harm { victims: &[INODE], client: false, silence: false },
    Harm { victims: &[INODE], client: true, silence: false },
    Harm { victims: &[NAME, INODE], client: false, silence: false },
    Harm { victims: &[NAME, INODE], client: true, silence: false },
    Harm { victims: &[NAME, INODE], client: false, silence: true },
    Harm { victims: &[NAME, INODE], client: true, silence: true },
];

#[derive(Clone, Copy, Debug)]
struct Harm {
    /// These servers lose power.
    victims: &'static [usize],
    /// So does the client.
    client: bool,
    /// Before that, for a while, the MDT of the name hears nothing of the other one, which commits
    /// what it has applied.
    silence: bool,
}

/// The directory that was made at another MDT.
fn made(answer: Result<MdsReply, Errno>) -> Fid {
    match answer {
        Ok(MdsReply::Opened { entry, .. }) => entry.attr.fid,
        other => panic!("{other:?}"),
    }
}

fn mkdir(at: u16) -> MdsOp {
    mkdir_of("d", at)
}

fn mkdir_of(text: &str, at: u16) -> MdsOp {
    let kind = CreateKind::Directory { mdt: Some(TargetIndex(at)) };
    MdsOp::Create(Create {
        parent: Fid::ROOT,
        name: name(text),
        kind,
        mode: 0o755,
        umask: 0o022,
        exclusive: true,
    })
}

fn rmdir() -> MdsOp {
    MdsOp::Rmdir(Rmdir { parent: Fid::ROOT, name: name("d") })
}

fn lookup() -> MdsOp {
    MdsOp::Lookup(Lookup { parent: Fid::ROOT, name: name("d") })
}

/// What the records have: where the name leads, and the directories of the other MDT. Everything is
/// durable before.
fn recorded(cluster: &Cluster) -> (Option<Fid>, Vec<Fid>) {
    let records = cluster.mdt_records();
    let to = |record: &&sim::cluster::MdtRecord| {
        record.key == disk::key::dirent(Fid::ROOT, b"d").as_bytes()
    };
    let named = records
        .iter()
        .find(to)
        .map(|record| disk::dirent::decode(&record.value).expect("an entry").0);
    let of_other = records.iter().filter(|record| record.mdt != TargetIndex(0));
    let inodes = of_other.filter_map(|record| disk::key::inode_of(&record.key)).collect();
    (named, inodes)
}

/// The directory is there whole, or not at all, and ten seconds later nothing is under way.
fn assert_whole(cluster: &Cluster, what: &str) -> bool {
    assert_at_rest(cluster, what);
    let (named, inodes) = recorded(cluster);
    assert_eq!(named.into_iter().collect::<Vec<_>>(), inodes, "{what}: half of it");
    named.is_some()
}

#[test]
fn a_directory_is_made_at_another_mdt_and_removed() {
    let (cluster, client) = start(1, 3);
    for at in [1, 2] {
        let fid = made(client.asks(&cluster, mkdir(at)));
        assert_eq!(fid.mdt(), at);
        assert!(
            matches!(client.asks(&cluster, lookup()), Ok(MdsReply::Remote { fid: found, .. }) if found == fid)
        );
        assert_eq!(client.asks(&cluster, mkdir(at)), Err(Errno::EEXIST));
        assert!(assert_whole(&cluster, "made"));
        assert!(
            matches!(client.asks(&cluster, rmdir()), Ok(MdsReply::Removed(removed)) if removed.fid == fid)
        );
        assert_eq!(client.asks(&cluster, rmdir()), Err(Errno::ENOENT));
        assert!(!assert_whole(&cluster, "removed"));
    }
    assert_eq!(client.asks(&cluster, mkdir(7)), Err(Errno::ERANGE), "there is no such MDT");
}

/// One harm, at a moment after the request is sent. Returns whether the client had its answer then.
fn cut_at(seed: u64, op: fn() -> MdsOp, harm: Harm, after: Duration) -> bool {
    let Harm { victims, client: client_dies, silence } = harm;
    let (cluster, client) = start(seed, 2);
    let what = format!("seed {seed}, {harm:?} after {after:?}");
    let removes = matches!(op(), MdsOp::Rmdir(_));
    // The first one grants sequences.
    client.asks(&cluster, mkdir(1)).expect("it is made");
    if !removes {
        client.asks(&cluster, rmdir()).expect("it is removed");
    }
    if seed.is_multiple_of(2) {
        // Else what the operation finds is not durable.
        run(&cluster, Duration::from_secs(2));
    }
    let answer = client.ask(op());
    run(&cluster, after);
    if silence {
        cluster.world.network().cut(cluster.servers[INODE].machine, cluster.servers[NAME].machine);
        run(&cluster, Duration::from_millis(200));
    }
    let told = matches!(&*answer.lock(), Some(Ok(_)));
    if client_dies {
        cluster.world.kill(&client.process, Kill::Power);
    }
    for victim in victims {
        cluster.kill_server(*victim, Kill::Power);
    }
    run(&cluster, Duration::from_millis(300));
    cluster.world.network().heal();
    victims.iter().for_each(|victim| cluster.start_server(*victim));
    if !client_dies {
        assert_answered(&cluster, &answer, &what);
        assert_eq!(assert_whole(&cluster, &what), !removes, "{what}: it was told");
    } else {
        // The dead client is waited for, for half a minute.
        run(&cluster, Duration::from_secs(60));
        let there = assert_whole(&cluster, &what);
        assert!(
            !told || victims.len() > 1 || there != removes,
            "{what}: an MDT that lived was told"
        );
    }
    let other = Client::new(&cluster, 2, None);
    let there = matches!(other.asks(&cluster, lookup()), Ok(MdsReply::Remote { .. }));
    let again = if there { rmdir() } else { mkdir(1) };
    other
        .asks(&cluster, again)
        .unwrap_or_else(|error| panic!("{what}: nothing works afterwards: {error}"));
    assert_eq!(assert_whole(&cluster, &what), !there, "{what}");
    told
}

fn cut_at_every_step(op: fn() -> MdsOp) {
    let mut seed = 100;
    for harm in HARMS {
        let (mut steps, mut told) = (0, 0);
        let mut after = Duration::ZERO;
        while after < Duration::from_millis(80) {
            seed += 1;
            let had = cut_at(seed, op, harm, after);
            if after < OPERATION {
                (steps, told) = (steps + 1, told + u32::from(had));
            }
            // Behind the answer it is the commits that come one after the other.
            after += if after < OPERATION { STEP } else { 60 * STEP };
        }
        assert!(
            told > 0 && told < steps - 4,
            "{harm:?}: {told} of {steps} cuts came after the answer"
        );
    }
}

#[test]
fn a_mkdir_is_whole_after_a_power_cut_at_every_step() {
    cut_at_every_step(|| mkdir(1));
}

#[test]
fn a_rmdir_is_whole_after_a_power_cut_at_every_step() {
    cut_at_every_step(rmdir);
}

/// Messages are lost with their connections, at every step.
#[test]
fn lost_messages_change_nothing() {
    for (seed, op) in [mkdir as fn(u16) -> MdsOp, |_| rmdir()].into_iter().enumerate() {
        for step in 0..80 {
            let (cluster, client) = start(500 + 100 * seed as u64 + u64::from(step), 2);
            if seed == 1 {
                client.asks(&cluster, mkdir(1)).expect("it is made");
            }
            let answer = client.ask(op(1));
            run(&cluster, STEP * step);
            let (name, inode) = (cluster.servers[NAME].machine, cluster.servers[INODE].machine);
            let network = cluster.world.network();
            network.cut(name, inode);
            network.break_connections(name, inode);
            run(&cluster, Duration::from_millis(700));
            network.heal();
            assert_answered(&cluster, &answer, &format!("step {step}"));
            assert_eq!(assert_whole(&cluster, "after a cut"), seed == 0, "step {step}");
        }
    }
}

#[test]
fn a_full_directory_stays() {
    let (cluster, client) = start(3, 2);
    let fid = made(client.asks(&cluster, mkdir(1)));
    let import = Client::import(&cluster, &client.env, 3, 1);
    let there = Client { env: client.env.clone(), process: client.process.clone(), import };
    let sub = |parent| {
        let kind = CreateKind::Directory { mdt: None };
        MdsOp::Create(Create {
            parent,
            name: name("sub"),
            kind,
            mode: 0o755,
            umask: 0,
            exclusive: true,
        })
    };
    there.asks(&cluster, sub(fid)).expect("a directory in it");
    assert_eq!(client.asks(&cluster, rmdir()), Err(Errno::ENOTEMPTY));
    there
        .asks(&cluster, MdsOp::Rmdir(Rmdir { parent: fid, name: name("sub") }))
        .expect("it is empty");
    client.asks(&cluster, rmdir()).expect("it goes");
    // It may have been a stripe: the client asks for the others, and finds none.
    assert_eq!(there.asks(&cluster, sub(fid)), Err(Errno::EREMCHG), "nothing is made in it");
    assert!(!assert_whole(&cluster, "removed"));
}

/// Eight clients at once make directories at another MDT, all in the root. What they find there is
/// the root, which is durable, and that the name is absent: so they ask for no commit.
#[test]
fn directories_made_at_another_mdt_wait_for_no_commit() {
    const CLIENTS: u128 = 8;
    const ALL: usize = 1000;
    sim::log::start();
    let commits = Commits { interval: Duration::from_mins(10), pace_ms: (1, 5) };
    let cluster = Cluster::start(1, 2, commits, false);
    run(&cluster, Duration::from_secs(5));
    let clients: Vec<Client> =
        (1..=CLIENTS).map(|number| Client::new(&cluster, number, None)).collect();
    // The first one grants sequences, and marks that something is under way.
    for (n, client) in clients.iter().enumerate() {
        made(client.asks(&cluster, mkdir_of(&format!("first{n}"), 1)));
    }
    let durable =
        || [0, 1].map(|mdt| cluster.mdt(TargetIndex(mdt)).expect("a served MDT").last_committed());
    let (mut last, mut commits) = (durable(), 0);
    let mut under_way: Vec<Option<Answer>> = vec![None; clients.len()];
    let (mut asked, mut answered) = (0, 0);
    while answered < ALL {
        for (client, answer) in clients.iter().zip(&mut under_way) {
            if let Some(result) = answer.as_ref().and_then(|answer| answer.lock().take()) {
                made(result.map_err(|error| error.errno()));
                (*answer, answered) = (None, answered + 1);
            }
            if answer.is_none() && asked < ALL {
                *answer = Some(client.ask(mkdir_of(&format!("n{asked}"), 1)));
                asked += 1;
            }
        }
        run(&cluster, STEP);
        let now = durable();
        commits += now.iter().zip(last).filter(|(now, last)| *now != last).count();
        last = now;
    }
    assert_eq!(commits, 0, "commits that {ALL} directories cost");
}
