//! What others keep for a target: redo of an MDT (docs/recovery.md, "Sealed"). It leaves the target
//! sealed, so that its keeper can neither read nor change it, and opens only as what it was when it
//! left: of that target, in that life, under that number.
//!
//! AES-256-GCM. Each life of a target draws a key of its own, and numbers what it seals from 1, so
//! no number is ever used twice with one key, whenever the life ends. What is bound, but not in the
//! bytes: the target, the transno, and bytes that the keeper has anyhow (*data*: what it wrote), so
//! that they need not travel to it. They come back beside the sealed ones, and no others will do.
//!
//! | at | size | field   | meaning                                              |
//! |----|------|---------|------------------------------------------------------|
//! |  0 |    2 | magic   | `SR`                                                 |
//! |  2 |    1 | version | 1                                                    |
//! |  3 |    1 | kind    | 1: redo of an MDT                                    |
//! |  4 |    4 | zero    | must be 0                                            |
//! |  8 |    8 | boot    | the life that sealed it, little endian               |
//! | 16 |    8 | number  | the nonce: how many that life had sealed, from 1     |
//! | 24 |      | sealed  | as long as what is in it                             |
//! |    |   16 | tag     | of the sealed bytes, all before them, target, transno, data |

use env::random::Random;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use std::sync::atomic::{AtomicU64, Ordering};
use types::session::Transno;
use types::target::TargetName;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// By so many bytes sealed ones are longer.
pub const OVERHEAD: usize = HEAD_BYTES + TAG_BYTES;

const MAGIC: [u8; 2] = *b"SR";
const VERSION: u8 = 1;
const REDO: u8 = 1;
const HEAD_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// Target: fsname 8, kind 1, zero 1, index 2; transno 8; head.
const BOUND_BYTES: usize = 20 + HEAD_BYTES;

/// A new key.
pub fn draw_key(random: &dyn Random) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..16].copy_from_slice(&random.next_u128().to_le_bytes());
    key[16..].copy_from_slice(&random.next_u128().to_le_bytes());
    key
}

/// Why bytes are not taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotOurs {
    /// They have not the form of sealed bytes.
    #[error("it is not sealed")]
    Form,
    /// Of a life whose key is not known.
    #[error("it says that it was sealed in life {0}, whose key is not known")]
    Life(u64),
    /// Other bytes, other data, of another target or of another change.
    #[error("it is not what this target sealed as this change")]
    Changed,
}

/// The key of one life.
struct Life {
    boot: u64,
    key: LessSafeKey,
}

impl Life {
    fn new(boot: u64, key: &[u8; KEY_BYTES]) -> Life {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("the key has the length of the cipher");
        Life { boot, key: LessSafeKey::new(key) }
    }
}

fn nonce_of(head: &[u8]) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&head[16..HEAD_BYTES]);
    Nonce::assume_unique_for_key(nonce)
}

/// What is bound to sealed bytes and not in them. All before the data has one length.
fn bound<'a>(
    target: TargetName,
    transno: Transno,
    head: &[u8],
    data: impl Iterator<Item = &'a [u8]>,
) -> Aad<Vec<u8>> {
    let mut bound = vec![0; BOUND_BYTES];
    let fsname = target.fsname.as_str().as_bytes();
    bound[..fsname.len()].copy_from_slice(fsname);
    bound[8] = target.kind as u8;
    bound[10..12].copy_from_slice(&target.index.0.to_le_bytes());
    bound[12..20].copy_from_slice(&transno.0.to_le_bytes());
    bound[20..].copy_from_slice(head);
    data.for_each(|data| bound.extend_from_slice(data));
    Aad::from(bound)
}

/// Seals what leaves a target in one life.
pub struct Sealer {
    target: TargetName,
    life: Life,
    sealed: AtomicU64,
}

impl Sealer {
    /// Of the life `boot` of the target, which drew this key and nothing else uses.
    pub fn new(target: TargetName, boot: u64, key: &[u8; KEY_BYTES]) -> Sealer {
        Sealer { target, life: Life::new(boot, key), sealed: AtomicU64::new(0) }
    }

    /// What is kept of the change `transno`: [`OVERHEAD`] longer than `redo`. Its keeper has the
    /// data, in pieces.
    ///
    /// # Panics
    /// More than 64 GiB, which no message holds.
    pub fn seal<'a>(
        &self,
        transno: Transno,
        redo: &[u8],
        data: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<u8> {
        let number = self.sealed.fetch_add(1, Ordering::Relaxed) + 1;
        let mut bytes = Vec::with_capacity(redo.len() + OVERHEAD);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, REDO, 0, 0, 0, 0]);
        bytes.extend_from_slice(&self.life.boot.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(redo);
        let (head, content) = bytes.split_at_mut(HEAD_BYTES);
        let bound = bound(self.target, transno, head, data);
        let tag = self.life.key.seal_in_place_separate_tag(nonce_of(head), bound, content);
        bytes.extend_from_slice(tag.expect("it is short enough").as_ref());
        bytes
    }
}

/// Opens what comes back to a target.
pub struct Opener {
    target: TargetName,
    lives: Vec<Life>,
}

/// What was sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The life that sealed it.
    pub boot: u64,
    /// What it sealed.
    pub redo: Vec<u8>,
}

impl Opener {
    /// Of lives of the target: their boots and keys.
    pub fn new<'a>(
        target: TargetName,
        lives: impl IntoIterator<Item = (u64, &'a [u8; KEY_BYTES])>,
    ) -> Opener {
        let lives = lives.into_iter().map(|(boot, key)| Life::new(boot, key)).collect();
        Opener { target, lives }
    }

    /// What was sealed as the change `transno` of this data, which may lie in other pieces now.
    ///
    /// # Errors
    /// One of these lives did not seal these bytes as that.
    pub fn open<'a>(
        &self,
        transno: Transno,
        bytes: &[u8],
        data: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Opened, NotOurs> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or(NotOurs::Form)?;
        let len = rest.len().checked_sub(TAG_BYTES).ok_or(NotOurs::Form)?;
        let (content, tag) = rest.split_at(len);
        if head[..2] != MAGIC || head[2..8] != [VERSION, REDO, 0, 0, 0, 0] {
            return Err(NotOurs::Form);
        }
        let boot = head[8..16].try_into().map(u64::from_le_bytes).map_err(|_| NotOurs::Form)?;
        let tag = Tag::try_from(tag).map_err(|_| NotOurs::Form)?;
        let life = self.lives.iter().find(|life| life.boot == boot).ok_or(NotOurs::Life(boot))?;
        let bound = bound(self.target, transno, head, data);
        let mut redo = content.to_vec();
        life.key
            .open_in_place_separate_tag(nonce_of(head), bound, tag, &mut redo, 0..)
            .map_err(|_| NotOurs::Changed)?;
        Ok(Opened { boot, redo })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::{empty, once};
    use types::target::FsName;

    const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];
    const OLDER: [u8; KEY_BYTES] = [6; KEY_BYTES];
    const CHANGE: Transno = Transno(4711);
    const REDO: &[u8] = b"the name and the bytes of a file of another client";

    fn mdt(index: u16) -> TargetName {
        TargetName::mdt(FsName::default(), index)
    }

    fn opener() -> Opener {
        Opener::new(mdt(0), [(9, &KEY), (8, &OLDER)])
    }

    #[test]
    fn what_was_sealed_opens_in_a_later_life_and_says_in_which_it_was_sealed() {
        for (boot, key) in [(9, &KEY), (8, &OLDER)] {
            let sealed = Sealer::new(mdt(0), boot, key).seal(CHANGE, REDO, empty());
            assert_eq!(sealed.len(), REDO.len() + OVERHEAD);
            let opened = Opened { boot, redo: REDO.to_vec() };
            assert_eq!(opener().open(CHANGE, &sealed, empty()), Ok(opened));
        }
        let nothing = Sealer::new(mdt(0), 9, &KEY).seal(CHANGE, b"", empty());
        assert_eq!(
            opener().open(CHANGE, &nothing, empty()),
            Ok(Opened { boot: 9, redo: Vec::new() })
        );
    }

    #[test]
    fn its_keeper_reads_nothing_and_no_number_comes_twice() {
        let sealer = Sealer::new(mdt(0), 9, &KEY);
        let [one, two] = [0, 1].map(|_| sealer.seal(CHANGE, REDO, empty()));
        for sealed in [&one, &two] {
            assert!(!sealed.windows(4).any(|part| REDO.windows(4).any(|plain| plain == part)));
        }
        assert_eq!((one[16], two[16]), (1, 2));
        assert_ne!(one[HEAD_BYTES..], two[HEAD_BYTES..], "equal changes do not look equal");
    }

    #[test]
    fn anything_else_than_what_left_is_refused() {
        let sealed = Sealer::new(mdt(0), 9, &KEY).seal(CHANGE, REDO, empty());
        for bit in 0..sealed.len() * 8 {
            let mut other = sealed.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(opener().open(CHANGE, &other, empty()).is_err(), "bit {bit}");
        }
        for len in 0..sealed.len() {
            assert!(opener().open(CHANGE, &sealed[..len], empty()).is_err(), "{len} bytes");
        }
        let longer = [&sealed[..], &[0]].concat();
        assert_eq!(opener().open(CHANGE, &longer, empty()), Err(NotOurs::Changed));
        assert_eq!(opener().open(Transno(CHANGE.0 + 1), &sealed, empty()), Err(NotOurs::Changed));
        assert_eq!(opener().open(CHANGE, REDO, empty()), Err(NotOurs::Form), "never sealed");
        let invented = Sealer::new(mdt(0), 9, &[1; KEY_BYTES]).seal(CHANGE, REDO, empty());
        assert_eq!(opener().open(CHANGE, &invented, empty()), Err(NotOurs::Changed));
        let elsewhere = Opener::new(mdt(1), [(9, &KEY)]);
        assert_eq!(
            elsewhere.open(CHANGE, &sealed, empty()),
            Err(NotOurs::Changed),
            "another target's"
        );
        let ancient = Sealer::new(mdt(0), 7, &KEY).seal(CHANGE, REDO, empty());
        assert_eq!(opener().open(CHANGE, &ancient, empty()), Err(NotOurs::Life(7)));
        let claims = Opener::new(mdt(0), [(7, &OLDER)]);
        assert_eq!(claims.open(CHANGE, &ancient, empty()), Err(NotOurs::Changed), "another life's");
    }

    #[test]
    fn what_its_keeper_wrote_is_not_in_it_and_must_come_back_with_it() {
        let data = [&b"bytes of "[..], b"a file"];
        let sealed = Sealer::new(mdt(0), 9, &KEY).seal(CHANGE, REDO, data.into_iter());
        assert_eq!(sealed.len(), REDO.len() + OVERHEAD);
        let open = |data: &[u8]| opener().open(CHANGE, &sealed, once(data));
        assert_eq!(open(b"bytes of a file"), Ok(Opened { boot: 9, redo: REDO.to_vec() }));
        let others =
            [&b""[..], b"bytes of ", b"bytes of a filE", b"bytes of a file\0", b"xbytes of a file"];
        for other in others {
            assert_eq!(open(other), Err(NotOurs::Changed), "{other:?}");
        }
        // What was sealed without any stays so.
        let plain = Sealer::new(mdt(0), 9, &KEY).seal(CHANGE, REDO, empty());
        assert_eq!(opener().open(CHANGE, &plain, once(&b"x"[..])), Err(NotOurs::Changed));
    }
}
