//! kill -9 of a writing process: what opens again is an exact prefix with everything that was
//! acknowledged.

use crate::support::{UUID, eager, real_env, wait};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use store::engine::Engine;
use store::journalled::Journalled;
use store::store::{Store, StoreOptions};

const CHILD: &str = "SHEEN_STORE_KILL_DIR";
const RING: u64 = 256 << 10;
const KEYS: u64 = 700;

/// Value of transaction `n`: long ones now and then, so that the ring wraps and large batches
/// bypass it.
fn value(n: u64) -> Vec<u8> {
    let mut value = n.to_le_bytes().to_vec();
    value.resize(if n.is_multiple_of(97) { 40_000 } else { 100 }, n as u8);
    value
}

fn write_until_killed(dir: &Path) -> ! {
    let (env, _guard) = real_env();
    let engine = Journalled::open(&env, dir, UUID, eager(RING)).unwrap();
    let store = Store::open(
        engine,
        env.clone(),
        StoreOptions { commit_interval: Duration::from_millis(5), ..StoreOptions::default() },
    )
    .unwrap();
    loop {
        wait(store.admit()).unwrap();
        let mut tx = store.begin();
        let n = tx.transno().0;
        tx.put(format!("key{:04}", n % KEYS).as_bytes(), &value(n));
        tx.put(b"last", &n.to_le_bytes());
        assert_eq!(tx.finish().0, n);
        if n.is_multiple_of(37) {
            println!("acknowledged {}", wait(store.commit()).unwrap().0);
        }
    }
}

#[test]
fn kill_9_leaves_a_prefix_with_all_that_was_acknowledged() {
    if let Some(dir) = std::env::var_os(CHILD) {
        write_until_killed(dir.as_ref());
    }
    let (env, _guard) = real_env();
    let dir = tempfile::tempdir().unwrap();
    Journalled::create(&env, dir.path(), UUID, &eager(RING)).unwrap();
    let mut previous = 0;
    for round in 0..6u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kill::kill_9_leaves_a_prefix_with_all_that_was_acknowledged",
                "--nocapture",
            ])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        // Next number it acknowledged; none once it is dead. A line that was cut by its death does
        // not count.
        let mut next = || loop {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            let text = line.strip_suffix('\n')?;
            if let Some((_, n)) = text.split_once("acknowledged ") {
                return Some(n.parse::<u64>().unwrap());
            }
        };
        let mut acknowledged = 0;
        for _ in 0..20 + round * 30 {
            acknowledged = next().expect("the child writes");
        }
        child.kill().unwrap();
        while let Some(n) = next() {
            acknowledged = n;
        }
        child.wait().unwrap();

        let engine = Journalled::open(&env, dir.path(), UUID, eager(RING)).unwrap();
        let last = engine.last_transno().0;
        assert!(acknowledged > previous, "round {round}: {acknowledged} > {previous}");
        assert!(last >= acknowledged, "round {round}: {last} found, {acknowledged} acknowledged");
        let mut stored = 0;
        assert!(
            engine
                .get(b"last", &mut |v| stored = u64::from_le_bytes(v.try_into().unwrap()))
                .unwrap()
        );
        assert_eq!(stored, last, "round {round}");
        for key in 0..KEYS {
            let n = last.checked_sub(key).map_or(0, |age| last - age % KEYS);
            let mut found = Vec::new();
            engine.get(format!("key{key:04}").as_bytes(), &mut |v| found = v.to_vec()).unwrap();
            let expect = if n == 0 { Vec::new() } else { value(n) };
            assert!(found == expect, "round {round}, key {key}: not what transaction {n} wrote");
        }
        engine.close().unwrap();
        previous = last;
    }
}
