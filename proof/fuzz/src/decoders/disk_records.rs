//! Records of stores. Each begins with a checksum of the rest, which `repair` makes good again.

use super::{Decoder, golden, judge};
use disk::checksum::crc32c;
use disk::config::{ConfigKey, TargetRecord};
use disk::journal::{self, Applied, RecordHead};
use disk::object::OstState;
use disk::superblock::Superblock;
use disk::{
    config, destroy_log, dirent, inode, mark, mdt_state, objects_at, redo, redo_keys, session,
    xattr,
};
use types::fid::Fid;

/// A superblock fills one block of the device.
const SUPERBLOCK_BYTES: usize = 4096;

fn seeds(name: &str) -> Vec<Vec<u8>> {
    golden("core/disk/src/golden", |n| n == name)
}

fn seal(bytes: &mut [u8]) {
    if let Some((crc, rest)) = bytes.split_first_chunk_mut::<4>() {
        *crc = crc32c(rest).to_le_bytes();
    }
}

pub const SUPERBLOCK: Decoder = Decoder {
    name: "superblock",
    seeds: || {
        let mut seeds = seeds("superblock"); // its first bytes, the rest is zeros
        seeds.iter_mut().for_each(|seed| seed.resize(SUPERBLOCK_BYTES, 0));
        seeds
    },
    repair: |bytes| {
        bytes.resize(SUPERBLOCK_BYTES, 0);
        seal(bytes);
    },
    run: |bytes| {
        judge(|| Superblock::decode(bytes), |s| Superblock::decode(&s.encode()).as_ref() == Ok(s))
    },
};

pub const JOURNAL_HEAD: Decoder = Decoder {
    name: "journal head",
    seeds: || seeds("journal_head"),
    repair: |bytes| {
        bytes.resize(RecordHead::SIZE, 0);
        seal(bytes);
    },
    run: |bytes| {
        judge(
            || RecordHead::decode(bytes).ok_or(()),
            |head| {
                RecordHead::record_bytes(head.payload_bytes);
                RecordHead::decode(&head.encode()).as_ref() == Some(head)
            },
        )
    },
};

pub const JOURNAL_APPLIED: Decoder = Decoder {
    name: "journal applied",
    seeds: || seeds("journal_applied"),
    repair: |bytes| {
        bytes.resize(Applied::SIZE, 0);
        seal(bytes);
    },
    run: |bytes| {
        judge(
            || Applied::decode(bytes).ok_or(()),
            |a| Applied::decode(&a.encode()).as_ref() == Some(a),
        )
    },
};

pub const JOURNAL_CHANGES: Decoder = Decoder {
    name: "journal changes",
    seeds: || {
        let mut payload = Vec::new();
        journal::encode_change(b"key", Some(b"value"), &mut payload);
        journal::encode_change(b"gone", None, &mut payload);
        vec![payload]
    },
    repair: |_| (),
    run: |bytes| {
        let decode = || {
            let (mut rest, mut changes) = (bytes, Vec::new());
            while !rest.is_empty() {
                changes.push(journal::decode_change(&mut rest).ok_or(())?);
            }
            Ok::<_, ()>(changes)
        };
        judge(decode, |changes| {
            let mut again = Vec::new();
            changes.iter().for_each(|(key, value)| journal::encode_change(key, *value, &mut again));
            again == bytes
        })
    },
};

pub const INODE: Decoder = Decoder {
    name: "inode",
    seeds: || seeds("inode"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || inode::decode(Fid::ROOT, bytes),
            |record| {
                let mut again = Vec::new();
                inode::encode(record, &mut again);
                // A damaged tail is an error of the item, never a panic.
                let _ = inode::item(record.tail, inode::ItemTag::Layout);
                inode::decode(Fid::ROOT, &again).as_ref() == Ok(record)
            },
        )
    },
};

pub const DIRENT: Decoder = Decoder {
    name: "dirent",
    seeds: || seeds("dirent"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || dirent::decode(bytes),
            |(fid, t)| dirent::decode(&dirent::encode(*fid, *t)) == Ok((*fid, *t)),
        )
    },
};

pub const XATTR: Decoder = Decoder {
    name: "xattr",
    seeds: || seeds("xattr"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || xattr::decode(bytes),
            |value| {
                let mut again = Vec::new();
                xattr::encode(value, &mut again);
                xattr::decode(&again) == Ok(value)
            },
        )
    },
};

pub const DESTROY_LOG: Decoder = Decoder {
    name: "destroy log",
    seeds: || seeds("destroy_log"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || destroy_log::decode(bytes),
            |objects| {
                let fid = objects.first().map_or(Fid::ROOT, |(_, object)| object.fid);
                let mut again = Vec::new();
                destroy_log::encode(fid, objects.iter().copied(), &mut again);
                destroy_log::decode(&again).as_ref() == Ok(objects)
            },
        )
    },
};

pub const MDT_STATE: Decoder = Decoder {
    name: "mdt state",
    seeds: || seeds("mdt_state"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || mdt_state::decode(bytes),
            |s| mdt_state::decode(&mdt_state::encode(s)).as_ref() == Ok(s),
        )
    },
};

pub const MARK: Decoder = Decoder {
    name: "mark",
    seeds: || seeds("mark"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(|| mark::decode(bytes), |boot| mark::decode(&mark::encode(*boot)) == Ok(*boot))
    },
};

pub const OBJECTS_AT: Decoder = Decoder {
    name: "place of objects",
    seeds: || seeds("objects_at"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || objects_at::decode(bytes),
            |fid| objects_at::decode(&objects_at::encode(*fid)) == Ok(*fid),
        )
    },
};

pub const SESSION_CLIENT: Decoder = Decoder {
    name: "session client",
    seeds: || ["session_client", "session_client_1", "session_client_2"].map(seeds).concat(),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || session::decode_client(bytes),
            |session::Client { boot, claim, description }| {
                session::decode_client(&session::encode_client(*boot, claim, description)).is_ok()
            },
        )
    },
};

pub const SESSION_REPLY: Decoder = Decoder {
    name: "session reply",
    seeds: || seeds("session_reply"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || session::decode_reply(bytes),
            |(xid, reply)| {
                let mut again = Vec::new();
                session::encode_reply(*xid, reply, &mut again);
                session::decode_reply(&again) == Ok((*xid, *reply))
            },
        )
    },
};

pub const REDO: Decoder = Decoder {
    name: "redo",
    seeds: || seeds("redo"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || redo::decode(bytes),
            |read| {
                let (mut log, mut data) = (redo::Log::default(), Vec::new());
                for change in &read.changes {
                    match change {
                        redo::Change::Record(key, value) => log.note(key, *value),
                        redo::Change::Base(fid, record) => log.note_base(*fid, record),
                        redo::Change::Delta(fid, delta) => log.note_delta(*fid, delta),
                        redo::Change::Bytes { key, at, bytes } => {
                            let [at, from, len] = [*at, data.len(), bytes.len()].map(|n| n as u32);
                            log.note_bytes(key, &[redo::Source { at, from, len }]);
                            data.extend_from_slice(bytes);
                        }
                    }
                }
                let again = redo::with_data(&log.encode(&read.found), [&data[..]].into_iter());
                redo::decode(&again).as_ref() == Ok(read)
            },
        )
    },
};

pub const REDO_KEYS: Decoder = Decoder {
    name: "redo keys",
    seeds: || seeds("redo_keys"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || redo_keys::decode(bytes),
            |lives| redo_keys::decode(&redo_keys::encode(lives)).as_ref() == Ok(lives),
        )
    },
};

pub const OST_STATE: Decoder = Decoder {
    name: "ost state",
    seeds: || {
        vec![
            OstState { last_committed: types::session::Transno(7), ..OstState::default() }
                .encode()
                .to_vec(),
        ]
    },
    repair: |bytes| {
        bytes.resize(OstState::SIZE, 0);
        seal(bytes);
    },
    run: |bytes| {
        judge(|| OstState::decode(bytes), |s| OstState::decode(&s.encode()).as_ref() == Ok(s))
    },
};

pub const CONFIG_TARGET: Decoder = Decoder {
    name: "config target",
    seeds: || seeds("config_target"),
    repair: |bytes| seal(bytes),
    run: |bytes| {
        judge(
            || config::decode::<TargetRecord>(bytes),
            |t| config::decode(&config::encode(t)).as_ref() == Ok(t),
        )
    },
};

pub const CONFIG_KEY: Decoder = Decoder {
    name: "config key",
    seeds: || {
        [&b"config/f/sheen"[..], b"config/t/sheen-OST0001", b"config/p/sheen/osc.*.x"]
            .map(Vec::from)
            .to_vec()
    },
    repair: |_| (),
    run: |bytes| {
        judge(
            || ConfigKey::decode(bytes),
            |key| ConfigKey::decode(&key.encode()).as_ref() == Ok(key),
        )
    },
};
