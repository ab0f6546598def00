//! Random operations on a store and on a `BTreeMap`: the same answers, whatever is open, frozen,
//! journalled or applied.

use crate::support::{UUID, all, eager, lazy, quiet, real_env, wait};
use env::Env;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use store::engine::Engine;
use store::journalled::{Journalled, JournalledOptions};
use store::memory::Memory;
use store::store::Store;

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Get(Vec<u8>),
    Scan(Vec<u8>, Vec<u8>, usize),
    Finish,
    Commit,
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"ab\xff".to_vec()), 1..4)
}

fn op() -> impl Strategy<Value = Op> {
    let value = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 3000..9000usize).prop_map(|(byte, len)| vec![byte; len]),
    ];
    prop_oneof![
        8 => (key(), value).prop_map(|(k, v)| Op::Put(k, v)),
        4 => key().prop_map(Op::Delete),
        4 => key().prop_map(Op::Get),
        4 => (key(), key(), 0..12usize).prop_map(|(a, b, n)| Op::Scan(a, b, n)),
        6 => Just(Op::Finish),
        3 => Just(Op::Commit),
        1 => Just(Op::Reopen),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs the operations; `open` opens the store (again).
fn run(ops: &[Op], mut open: impl FnMut() -> Arc<Store>) {
    let (mut store, mut model, mut last) = (open(), Model::new(), 0);
    let mut ops = ops.iter();
    'transactions: loop {
        let mut tx = store.begin();
        let (expected, mut changed) = (tx.transno().0, false);
        assert_eq!(expected, last + 1);
        let mut finish = |tx: store::tx::Tx<'_>, changed: bool| {
            assert_eq!(tx.finish().0, if changed { expected } else { 0 });
            last += u64::from(changed);
        };
        for op in ops.by_ref() {
            match op {
                Op::Put(k, v) => {
                    tx.put(k, v);
                    model.insert(k.clone(), v.clone());
                    changed = true;
                }
                Op::Delete(k) => {
                    tx.delete(k);
                    model.remove(k);
                    changed = true;
                }
                Op::Get(k) => assert_eq!(tx.get(k, <[u8]>::to_vec).unwrap().as_ref(), model.get(k)),
                Op::Scan(a, b, most) => {
                    let (mut seen, mut nested) = (Vec::new(), true);
                    tx.scan(a, b, |k, v| {
                        if seen.len() == *most {
                            return ControlFlow::Break(());
                        }
                        nested &= tx.get(k, |again| again == v).unwrap() == Some(true);
                        seen.push((k.to_vec(), v.to_vec()));
                        ControlFlow::Continue(())
                    })
                    .unwrap();
                    let range = if a < b { Some(model.range(a.clone()..b.clone())) } else { None };
                    let expect: Vec<_> = range
                        .into_iter()
                        .flatten()
                        .take(*most)
                        .map(|(k, v)| (k.clone(), v.clone()))
                        .collect();
                    assert_eq!(seen, expect);
                    assert!(nested, "a read inside a scan sees the same");
                }
                Op::Finish => {
                    finish(tx, changed);
                    continue 'transactions;
                }
                Op::Commit => {
                    finish(tx, changed);
                    assert_eq!(wait(store.commit()).unwrap().0, last);
                    assert_eq!(store.last_committed().0, last);
                    continue 'transactions;
                }
                Op::Reopen => {
                    finish(tx, changed);
                    wait(store.close()).unwrap();
                    store = open();
                    assert_eq!((store.last_committed().0, store.last_assigned().0), (last, last));
                    continue 'transactions;
                }
            }
        }
        finish(tx, changed);
        break;
    }
    assert_eq!(
        all(&store),
        model.into_iter().filter(|(k, _)| k[..] < [0xff; 8][..]).collect::<Vec<_>>()
    );
    wait(store.close()).unwrap();
}

fn journalled(env: &Env, dir: &Path, options: &JournalledOptions) -> Arc<Store> {
    let engine: Arc<dyn Engine> = Journalled::open(env, dir, UUID, options.clone()).unwrap();
    Store::open(engine, env.clone(), quiet()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_an_ordered_map(ops in prop::collection::vec(op(), 0..200)) {
        let (env, _guard) = real_env();
        let memory = Memory::new(u64::MAX);
        run(&ops, || Store::open(memory.clone(), env.clone(), quiet()).unwrap());
    }

    #[test]
    fn journalled_is_an_ordered_map(ops in prop::collection::vec(op(), 0..200), hurry: bool) {
        let (env, _guard) = real_env();
        let dir = tempfile::tempdir().unwrap();
        // 64 KiB: some batches are larger than the journal.
        let options = if hurry { eager(64 << 10) } else { lazy(64 << 10) };
        Journalled::create(&env, dir.path(), UUID, &options).unwrap();
        run(&ops, || journalled(&env, dir.path(), &options));
    }
}
