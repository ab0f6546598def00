//! The cluster of a shared log: told before anything rests on it, and compared by each host.

use std::sync::Arc;
use store::engine::Fence;
use store::error::StoreError;
use store::kv::{Change, Kv, Txn};
use store::log::{Log, Position};
use store::memory_kv::{Delivery, MemoryKv};
use store::shared_log::SharedLog;
use types::session::ClusterId;

const OURS: ClusterId = ClusterId(0xa);
const THEIRS: ClusterId = ClusterId(0xb);

struct Site {
    kv: Arc<MemoryKv>,
    keys: Arc<dyn Kv>,
}

impl Site {
    fn new() -> Site {
        let kv = MemoryKv::new();
        let keys = kv.connect(|| Delivery::Whole);
        Site { kv, keys }
    }

    fn log(&self, host: &str, mgs: &str) -> SharedLog {
        let keys = self.kv.connect(|| Delivery::Whole);
        SharedLog::new(keys, "sheen-MDT0000", 7, host, host).for_mgs(mgs)
    }

    fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.keys.range("/", "0", 1000).unwrap()
    }

    fn put(&self, name: &str, value: &[u8]) {
        let (key, value) = (format!("/sheen/sheen-MDT0000/{name}"), value.to_vec());
        let put = Change::Put { key, value, lease: 0 };
        self.keys.txn(&Txn { then: vec![put], ..Txn::default() }).unwrap();
    }

    fn delete(&self, name: &str) {
        let key = format!("/sheen/sheen-MDT0000/{name}");
        let end = format!("{key}\0");
        let gone = Txn { then: vec![Change::DeleteRange(key, end)], ..Txn::default() };
        self.keys.txn(&gone).unwrap();
    }
}

fn text(cluster: ClusterId) -> String {
    format!("{:032x}", cluster.0)
}

fn is_other<T>(answer: Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::OtherCluster { .. }))
}

#[test]
fn the_first_cluster_that_uses_a_log_has_it_and_others_change_nothing() {
    let site = Site::new();
    // Two clusters are made before one of them is started.
    let (one, other) = (site.log("one", ""), site.log("other", ""));
    one.create("").unwrap();
    other.create("").unwrap();
    assert_eq!(one.join(OURS), Ok(text(OURS)));
    let before = site.all();
    let refused = other.join(THEIRS).unwrap_err();
    let said = refused.to_string();
    assert!(is_other::<()>(Err(refused)), "{said}");
    for words in [&OURS.to_string(), &THEIRS.to_string(), "--log=etcd://HOST,HOST,HOST/NAME"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(site.all(), before, "nothing is changed");
    assert_eq!(one.join(OURS), Ok(text(OURS)));

    // The owner completes it. It is not the owner before its claim.
    let whole = format!("{} {:032x}", text(OURS), 5);
    one.note_identity(&whole).unwrap();
    assert_eq!(one.identity(), Ok(text(OURS)), "it owns nothing");
    one.claim_under(site.keys.grant(std::time::Duration::from_secs(2)).unwrap());
    one.claim(Position::default(), Fence(1)).unwrap();
    one.note_identity(&whole).unwrap();
    assert_eq!(one.identity(), Ok(whole.clone()));
    one.note_identity(&format!("{} {:032x}", text(THEIRS), 6)).unwrap();
    assert_eq!(site.log("two", "").join(OURS), Ok(whole.clone()));
    let before = site.all();
    assert!(is_other(other.join(THEIRS)));
    // A host that is made now is not entered before its cluster is known.
    let made = site.log("late", "").create("").unwrap();
    assert_eq!((made.store, made.identity), (7, whole));
    assert_eq!(site.all(), before, "nothing is changed");
}

#[test]
fn a_host_that_names_another_mgs_is_not_made() {
    let site = Site::new();
    site.log("one", "10.0.0.1@tcp 10.0.0.2@tcp").create("").unwrap();
    let before = site.all();
    let refused = site.log("other", "10.0.0.3@tcp").create("").map(drop).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("10.0.0.1@tcp, 10.0.0.2@tcp") && said.contains("10.0.0.3@tcp"), "{said}");
    assert!(is_other::<()>(Err(refused)));
    assert_eq!(site.all(), before, "nothing is changed");
    // One in common is enough, and so is no word of it.
    site.log("two", "10.0.0.2@tcp 10.0.0.9@tcp").create("").unwrap();
    site.log("three", "").create("").unwrap();
    assert_eq!(site.log("one", "").show().unwrap().replicas.len(), 3);
    // A host of the MGS brings a cluster of its own, so it must name the others.
    assert!(is_other(site.log("four", "").create(&format!("{} {:032x}", text(THEIRS), 6))));
}

#[test]
fn a_log_of_an_earlier_version_gets_its_cluster_from_its_owner() {
    let site = Site::new();
    let one = site.log("one", "10.0.0.1@tcp");
    one.create("").unwrap();
    one.claim_under(site.keys.grant(std::time::Duration::from_secs(2)).unwrap());
    one.claim(Position::default(), Fence(1)).unwrap();
    for gone in ["identity", "mgs"] {
        site.delete(gone);
    }
    site.put("head", b"0000000000000005 0000000000000009");
    // It has entries, so it is not for any host to say whose they are.
    let before = site.all();
    assert_eq!(site.log("other", "").join(THEIRS), Ok(String::new()));
    assert_eq!(site.all(), before, "nothing is changed");
    let whole = format!("{} {:032x}", text(OURS), 5);
    one.note_identity(&whole).unwrap();
    assert_eq!(one.identity(), Ok(whole));
    assert!(is_other(site.log("other", "").join(THEIRS)));
    assert!(is_other(site.log("other", "10.0.0.3@tcp").create("")));

    site.put("identity", b"no number");
    assert!(matches!(one.join(OURS), Err(StoreError::Damaged { .. })));
    site.put("identity", b"\xff");
    assert!(matches!(one.join(OURS), Err(StoreError::Damaged { .. })));
}
