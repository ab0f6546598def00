//! One client at four MDTs, and losses of power at every step of what it asks.

use super::{Answer, Client, FIRST_MDT, name, run};
use sim::cluster::Cluster;
use simenv::machine::Kill;
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::{Getattr, MdsOp, MdsReply, Rename, RenameFlags};

/// Between two moments at which something dies.
const STEP: Duration = Duration::from_micros(250);

/// MDTs that lose power at once, and whether the client does, too.
pub type Harm = (&'static [usize], bool);

pub const HARMS: [Harm; 8] = [
    (&[0], true),
    (&[1], true),
    (&[2], false),
    (&[2], true),
    (&[3], true),
    (&[1, 2], true),
    (&[0, 3], true),
    (&[0, 1, 2, 3], false),
];

/// One client with a session at each MDT.
pub struct Hand {
    pub clients: Vec<Client>,
}

impl Hand {
    pub fn new(cluster: &Cluster, first: Client, number: u128) -> Hand {
        let mut clients = vec![first];
        for mdt in 1..4 {
            let (env, process) = (clients[0].env.clone(), clients[0].process.clone());
            let import = Client::import(cluster, &env, number, mdt);
            clients.push(Client { env, process, import });
        }
        Hand { clients }
    }

    pub fn asks(&self, cluster: &Cluster, mdt: u16, op: MdsOp) -> Result<MdsReply, Errno> {
        self.clients[usize::from(mdt)].asks(cluster, op)
    }

    /// The link count of an inode that is there.
    pub fn nlink(&self, cluster: &Cluster, fid: Fid) -> Option<u32> {
        match self.asks(cluster, fid.mdt(), MdsOp::Getattr(Getattr::of(fid))) {
            Ok(MdsReply::Entry(entry)) => Some(entry.attr.nlink),
            Err(Errno::ESTALE) => None,
            other => panic!("{fid}: {other:?}"),
        }
    }
}

pub fn rename(from: (Fid, &str), to: (Fid, &str)) -> MdsOp {
    MdsOp::Rename(Rename {
        parent: from.0,
        name: name(from.1),
        new_parent: to.0,
        new_name: name(to.1),
        flags: RenameFlags::default(),
    })
}

/// Runs the world until a request is answered, for a minute at most; it must succeed.
pub fn assert_answered(cluster: &Cluster, answer: &Answer, what: &str) {
    for _ in 0..600 {
        if answer.lock().is_some() {
            break;
        }
        run(cluster, Duration::from_millis(100));
    }
    let answered = answer.lock().take();
    assert!(matches!(answered, Some(Ok(_))), "{what}: {answered:?}");
}

/// One harm, at a moment after the request is sent.
#[derive(Clone, Copy)]
pub struct Cut {
    pub seed: u64,
    pub harm: Harm,
    pub after: Duration,
}

impl Cut {
    /// Harms the operation that MDT `asked.0` is asked for. Returns whether the client had its
    /// answer before. `is_done`: whether the operation was done; it gets whether the client lives.
    pub fn harms(
        self,
        cluster: &Cluster,
        hand: &Hand,
        asked: (u16, MdsOp),
        what: &str,
        is_done: impl FnOnce(bool) -> bool,
    ) -> bool {
        let (victims, client_dies) = self.harm;
        if self.seed.is_multiple_of(2) || client_dies {
            // Else what the operation finds is not durable, and its author brings it back.
            run(cluster, Duration::from_secs(2));
        }
        let answer = hand.clients[usize::from(asked.0)].ask(asked.1);
        run(cluster, self.after);
        let told = matches!(&*answer.lock(), Some(Ok(_)));
        if client_dies {
            cluster.world.kill(&hand.clients[0].process, Kill::Power);
        }
        let servers = victims.iter().map(|mdt| FIRST_MDT + mdt);
        servers.clone().for_each(|server| cluster.kill_server(server, Kill::Power));
        run(cluster, Duration::from_millis(300));
        servers.for_each(|server| cluster.start_server(server));
        if client_dies {
            // The dead client is waited for, for half a minute.
            run(cluster, Duration::from_secs(60));
            let done = is_done(false);
            assert!(!told || victims.len() > 1 || done, "{what}: an MDT that lived was told");
        } else {
            assert_answered(cluster, &answer, what);
            assert!(is_done(true), "{what}: it was told");
        }
        told
    }
}

/// Cuts at every step of an operation that takes no longer than `longest` if all are there and
/// nothing has to be committed. Some cuts must come before its answer, some after.
pub fn at_every_step(longest: Duration, mut seed: u64, cut: impl Fn(Cut) -> bool) {
    for harm in HARMS {
        let (mut steps, mut told, mut after) = (0, 0, Duration::ZERO);
        while after < longest {
            seed += 1;
            told += u32::from(cut(Cut { seed, harm, after }));
            (steps, after) = (steps + 1, after + STEP);
        }
        assert!(told > 0 && told < steps, "{harm:?}: {told} of {steps} cuts came after the answer");
    }
}
