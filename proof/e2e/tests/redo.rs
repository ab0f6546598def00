//! What clients keep for a restart of their MDT, in the hands of a client that keeps to no rule:
//! it reads nothing of others in it, and brings nothing back but what it was given
//! (docs/recovery.md, "Sealed").

use bytes::Bytes;
use e2e::cluster::{Cluster, RUN_DIR};
use e2e::lustre::{lctl, parameter};
use e2e::process::detach;
use e2e::stranger::{Stranger, make_directory};
use e2e::{can_mount, sheen};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::session::{ClientUuid, Transno};
use types::target::{FsName, TargetName};
use wire::mds::{Lookup, MdsOp};
use wire::message::{Op, OpReply, Redo};

const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 99));
/// Bytes by which sealed redo is longer.
const OVERHEAD: usize = 40;

fn mdt() -> TargetName {
    TargetName::mdt(FsName::default(), 0)
}

fn contains(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

/// A client with a process of its own, whose number is its proof.
struct Keeper {
    number: u128,
    process: Stranger,
    kept: Vec<Redo>,
}

impl Keeper {
    fn client(&self) -> ClientUuid {
        ClientUuid(self.number)
    }

    /// A session that a restarted MDT waits for, and nothing that is not durable.
    fn new(listen: &str, number: u128) -> Keeper {
        let process = Stranger::greet(ELSEWHERE, listen, number);
        let mut keeper = Keeper { number, process, kept: Vec::new() };
        assert_eq!(keeper.process.session(keeper.client(), mdt()).expect("an answer"), None);
        keeper.asks(make_directory(&format!("first-{number}"))).expect("a directory");
        keeper.kept.clear();
        keeper
    }

    fn asks(&mut self, op: Op) -> Result<OpReply, Errno> {
        let client = self.client();
        let (mut reply, _) = self.process.reply(client, mdt(), op);
        self.kept.append(&mut reply.redo);
        reply.results.remove(0)
    }

    /// Makes a directory that is lost with the MDT unless this client brings it back.
    fn makes(&mut self, name: &str) {
        self.asks(make_directory(name)).expect("a directory");
        assert_eq!(self.kept.len(), 1, "redo of one change");
    }

    /// Comes back to the restarted MDT, over a connection of its own.
    fn returns(&mut self, listen: &str) {
        // The MDT may not be there yet.
        loop {
            self.process = Stranger::greet(ELSEWHERE, listen, self.number + 1000);
            self.process.proof = types::proof::Proof(self.number);
            match self.process.session(self.client(), mdt()).expect("an answer") {
                None => return,
                Some(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// The redo of a change that makes an extended attribute of the root, as it is inside.
fn invented() -> Bytes {
    let mut log = disk::redo::Log::default();
    log.note(&disk::key::xattr(Fid::ROOT, b"user.invented"), Some(b"by a client"));
    log.encode(&disk::redo::Found::default()).into()
}

/// A daemon that recovers says where it listens before it is in service.
fn listens(cluster: &Cluster) -> String {
    loop {
        let nids = cluster.lctl(&["list_nids"]);
        let nids = String::from_utf8_lossy(&nids.stdout).into_owned();
        if let Some(nid) = nids.lines().find_map(|nid| nid.strip_suffix("@tcp")) {
            return nid.to_owned();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn redo_says_nothing_to_its_keepers_and_comes_back_as_it_was_or_not_at_all() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--osts", "1"]);
    let listen = cluster.listens_at();
    let names = ["honest", "flipped", "renumbered", "swapped", "invented"];
    let mut keepers: Vec<Keeper> =
        (0..names.len()).map(|n| Keeper::new(&listen, 100 + n as u128)).collect();
    let mut reader = Keeper::new(&listen, 200);
    // From now on nothing is durable.
    let commits = format!("osd-lmdb.{}.notransno", mdt());
    lctl(&cluster, &["set_param", &format!("{commits}=1")]);
    assert_eq!(parameter(&cluster, &commits).trim(), "1");
    for (keeper, name) in keepers.iter_mut().zip(names) {
        keeper.makes(&format!("{name}-a-name-that-is-long-enough-to-be-found"));
    }

    // Another client that is shown a change keeps it as well, and reads nothing in it.
    let name = Name::new(b"honest-a-name-that-is-long-enough-to-be-found").expect("a name");
    reader.asks(Op::Mds(MdsOp::Lookup(Lookup { parent: Fid::ROOT, name }))).expect("it is there");
    let shown = &reader.kept[0];
    assert_eq!(shown.transno, keepers[0].kept[0].transno);
    let author = keepers[0].client().0;
    eprintln!("redo of a mkdir has {} bytes", shown.bytes.len());
    for keeper in keepers.iter().chain([&reader]) {
        let bytes = &keeper.kept[0].bytes;
        assert!(bytes.len() > OVERHEAD + 100 && bytes.starts_with(b"SR\x01"), "{bytes:?}");
        assert!(!contains(bytes, "a-name-that"), "the name can be read");
        let uuid = [author.to_be_bytes(), author.to_le_bytes()];
        assert!(uuid.iter().all(|uuid| !bytes.windows(16).any(|part| part == uuid)), "its author");
    }

    // What they bring back, but for the first, is not what they were given.
    let swapped = keepers[0].kept[0].bytes.clone();
    let brought = |keeper: usize, redo: &Redo| -> Redo {
        let (mut transno, mut bytes) = (redo.transno, redo.bytes.to_vec());
        match keeper {
            0 => {}
            1 => bytes[40] ^= 1,
            2 => transno = Transno(transno.0 + 100),
            3 => bytes = swapped.to_vec(),
            _ => bytes = invented().to_vec(),
        }
        Redo::whole(transno, bytes.into())
    };
    cluster.kill();
    detach(&cluster.mount());
    let mut up = Command::new(sheen());
    up.arg("up").arg(cluster.dir()).env(RUN_DIR, cluster.run_dir()).stdin(Stdio::null());
    up.stdout(Stdio::null()).stderr(Stdio::null());
    let mut up = up.spawn().expect("sheen runs");
    let listen = listens(&cluster);
    keepers.iter_mut().chain([&mut reader]).for_each(|keeper| keeper.returns(&listen));
    for (n, keeper) in keepers.iter_mut().enumerate().skip(1) {
        let redo = brought(n, &keeper.kept[0]);
        let answer = keeper.asks(Op::Replay(vec![redo]));
        assert_eq!(answer, Err(Errno::ENOTCONN), "{}", names[n]);
        let client = keeper.client();
        let refused = keeper.process.ask(client, mdt(), Op::Replayed).expect("an answer");
        assert!(refused.is_some(), "{} is evicted", names[n]);
    }
    // Both have the same, one as its author; it is done once.
    for keeper in [&mut reader, &mut keepers[0]] {
        let redo = brought(0, &keeper.kept[0]);
        assert_eq!(keeper.asks(Op::Replay(vec![redo])), Ok(OpReply::Done));
    }
    let ends = |keeper: &mut Keeper, op: Op| assert_eq!(keeper.asks(op), Ok(OpReply::Done));
    let first = &mut keepers[0];
    std::thread::scope(|scope| {
        for keeper in [&mut reader, first] {
            scope.spawn(move || {
                ends(keeper, Op::Replayed);
                ends(keeper, Op::Restored);
            });
        }
    });
    assert!(up.wait().expect("sheen up ends").success(), "{}", cluster.log());
    for (n, name) in names.iter().enumerate() {
        let made = cluster.mount().join(format!("{name}-a-name-that-is-long-enough-to-be-found"));
        assert_eq!(made.exists(), n == 0, "{name}");
    }
    let attrs = xattrs(&cluster);
    assert!(!attrs.contains("user.invented"), "{attrs}");
    let log = fs::read_to_string(cluster.dir().join("log/node.log")).expect("the log");
    let told = log.matches("brought back what this MDT did not give it, and is evicted").count();
    assert_eq!(told, 4, "{log}");
    let checked = cluster.command(&["fsck"]);
    assert!(checked.status.success(), "{}", e2e::process::text(&checked));
}

fn xattrs(cluster: &Cluster) -> String {
    let mut list = vec![0; 4096];
    let len = rustix::fs::listxattr(cluster.mount(), &mut list).expect("its attributes");
    String::from_utf8_lossy(&list[..len]).into_owned()
}
