//! Redo leaves the MDT sealed, and is taken back only as what it was (docs/recovery.md, "Sealed").
//!
//! **Invariant:** a key is durable before redo leaves that is sealed with it: recovery records it
//! in its own transaction, and nothing changes before that one is committed.

use crate::error::StartError;
use bytes::Bytes;
use disk::key::REDO_KEYS;
use disk::redo::with_data;
use disk::redo_keys::{self, LifeKey};
use env::random::Random;
use observe::mutant::{Mutant, is_mutant};
use seal::kept::{NotOurs, Opened, Opener, Sealer, draw_key};
use store::tx::Tx;
use types::target::TargetName;
use wire::message::{Op, Redo};

/// See the module.
pub(crate) struct SealedRedo {
    sealer: Sealer,
    before: Before,
    /// The record of the keys, with that of this life.
    pub(crate) record: Vec<u8>,
}

/// The last life that changed anything.
enum Before {
    /// It sealed nothing: it was of a version that did not, or there was none.
    Plain,
    /// It sealed with a key that is recorded; `boot` is that of the life.
    Sealed { boot: u64, opener: Opener },
}

impl SealedRedo {
    /// For the life `boot` of a target, which draws a key of its own.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn new(
        target: TargetName,
        boot: u64,
        tx: &Tx<'_>,
        random: &dyn Random,
    ) -> Result<SealedRedo, StartError> {
        let recorded = tx.get(REDO_KEYS, redo_keys::decode)?;
        let recorded = recorded.map(|keys| {
            keys.unwrap_or_else(|damage| {
                tracing::error!(%target, %damage, "what clients keep cannot be taken back");
                Vec::new()
            })
        });
        let before = match &recorded {
            None => Before::Plain,
            Some(lives) => Before::Sealed {
                boot: lives.first().map_or(0, |life| life.boot),
                opener: Opener::new(target, lives.iter().map(|life| (life.boot, &life.key))),
            },
        };
        let key = draw_key(random);
        let mut lives = vec![LifeKey { boot, key }];
        lives.extend(recorded.into_iter().flatten());
        let sealer = Sealer::new(target, boot, &key);
        Ok(SealedRedo { sealer, before, record: redo_keys::encode(&lives) })
    }

    /// As clients keep it. The data that it names is bound to it: its author has that, and can
    /// bring back no other.
    pub(crate) fn seal(&self, redo: Redo, data: &[Bytes]) -> Redo {
        let data = data.iter().map(|data| &data[..]);
        let bytes = self.sealer.seal(redo.transno, &redo.bytes, data).into();
        Redo { bytes, ..redo }
    }

    /// What a client brings back, with the data that it names, which this operation has. `None`: it
    /// is of a life whose recovery is over, and passed over; its answer came when its client had
    /// brought back everything else.
    ///
    /// # Errors
    /// The MDT did not seal this as this change, or it was brought other data.
    pub(crate) fn open(
        &self,
        Redo { transno, bytes, .. }: &Redo,
        brings: Option<&Op>,
    ) -> Result<Option<Bytes>, NotOurs> {
        match &self.before {
            Before::Plain => Ok(Some(bytes.clone())),
            Before::Sealed { boot: last, opener } => {
                let data = brings.into_iter().flat_map(Op::data);
                let opened = opener.open(*transno, bytes, data);
                if is_mutant(Mutant::SealIgnored) && opened.is_err() {
                    return Ok(Some(bytes.clone()));
                }
                let Opened { boot, redo } = opened?;
                let whole = || match brings {
                    None => redo.into(),
                    Some(op) => with_data(&redo, op.data()).into(),
                };
                Ok((boot == *last).then(whole))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::redo::{Change, Found, Log, Source, decode};
    use env::Env;
    use env::real::{RealConfig, RealEnv};
    use std::iter::empty;
    use std::sync::Arc;
    use store::memory::Memory;
    use store::store::{Store, StoreOptions};
    use types::attr::WrittenAt;
    use types::fid::Fid;
    use types::session::Transno;
    use wire::mds::MdsOp;

    fn mdt() -> TargetName {
        TargetName::mdt(Default::default(), 0)
    }

    fn redo(bytes: &'static [u8]) -> Redo {
        Redo::whole(Transno(5), Bytes::from_static(bytes))
    }

    struct Rig {
        store: Arc<Store>,
        env: Env,
    }

    impl Rig {
        /// A start that records its key, if it comes so far.
        fn start(&self, boot: u64, recovers: bool) -> SealedRedo {
            let mut tx = self.store.begin();
            let sealed = SealedRedo::new(mdt(), boot, &tx, &*self.env.random).unwrap();
            if recovers {
                tx.put(REDO_KEYS, &sealed.record);
            }
            tx.finish();
            sealed
        }
    }

    #[test]
    fn redo_is_taken_back_by_the_next_life_that_recovers_and_by_no_later_one() {
        let (env, _guard) =
            RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let store =
            Store::open(Memory::new(1 << 20), env.clone(), StoreOptions::default()).unwrap();
        let rig = Rig { store, env };
        // Of a version that seals nothing: there is no record.
        let first = rig.start(1, true);
        assert_eq!(first.open(&redo(b"plain"), None), Ok(Some(Bytes::from_static(b"plain"))));
        let kept = [first.seal(redo(b"change"), &[])];
        // Starts that die before they recover change nothing.
        for boot in [2, 3, 4] {
            let started = rig.start(boot, false);
            assert_eq!(
                started.open(&kept[0], None),
                Ok(Some(Bytes::from_static(b"change"))),
                "{boot}"
            );
        }
        let second = rig.start(5, true);
        assert_eq!(second.open(&kept[0], None), Ok(Some(Bytes::from_static(b"change"))));
        assert_eq!(second.open(&redo(b"plain"), None), Err(NotOurs::Form), "not any more");
        let invented =
            Redo { bytes: second.sealer.seal(Transno(5), b"x", empty()).into(), ..redo(b"") };
        assert_eq!(second.open(&invented, None), Err(NotOurs::Life(5)), "of its own life");
        let third = rig.start(6, true);
        assert_eq!(third.open(&kept[0], None), Ok(None), "its recovery is over");
        assert_eq!(rig.start(7, true).open(&kept[0], None), Err(NotOurs::Life(1)));
        // Damage takes what is brought back with it, and lets nothing in.
        let mut tx = rig.store.begin();
        tx.put(REDO_KEYS, b"damaged");
        tx.finish();
        let after = rig.start(8, true);
        assert_eq!(after.open(&redo(b"plain"), None), Err(NotOurs::Form));
    }

    #[test]
    fn the_data_of_a_write_comes_back_from_its_author_and_no_other_data_does() {
        let (env, _guard) =
            RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let store =
            Store::open(Memory::new(1 << 20), env.clone(), StoreOptions::default()).unwrap();
        let rig = Rig { store, env };
        let chunk = disk::key::chunk(Fid::ROOT, 0);
        let mut log = Log::default();
        log.note_bytes(&chunk, &[Source { at: 2, from: 1, len: 3 }]);
        let named = Bytes::from(log.encode(&Found::default()));
        let redo = Redo { transno: Transno(5), bytes: named, data_of: 1 };
        let kept = rig.start(1, true).seal(redo, &[Bytes::from_static(b"data")]);
        assert!(!kept.bytes.windows(3).any(|bytes| bytes == b"ata"));
        let store = |pieces: &[&'static [u8]]| {
            let pieces = pieces.iter().map(|data| (0, Bytes::from_static(data))).collect();
            Op::Mds(MdsOp::Store(wire::mds::Store { fid: Fid::ROOT, pieces, at: WrittenAt::Now }))
        };
        let second = rig.start(2, true);
        let open = |op: Option<&Op>| second.open(&kept, op);
        let back = open(Some(&store(&[b"da", b"ta"]))).unwrap().expect("of the life before");
        let changes = vec![Change::Bytes { key: &chunk, at: 2, bytes: b"ata" }];
        assert_eq!(decode(&back).map(|redo| redo.changes), Ok(changes));
        for other in [None, Some(store(&[b"dat"])), Some(store(&[b"dato"])), Some(store(&[]))] {
            assert_eq!(open(other.as_ref()), Err(NotOurs::Changed), "{other:?}");
        }
    }
}
