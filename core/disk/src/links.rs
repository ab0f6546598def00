//! Names that lead to an inode. Its record remembers them, so that a FID can be shown as a path.
//!
//! They stand one after the other, each as: directory FID 16 (big endian), length of the name u8,
//! name. The list is at most [`BYTES_MAX`] long; names beyond that are not remembered, and nothing
//! else needs them. So the list may be incomplete, but is never wrong.

use crate::damaged::Damaged;
use types::fid::Fid;

/// Bytes of a list at most: about 100 names.
pub const BYTES_MAX: usize = 4096;
const RECORD: &str = "names of an inode";
const FID_BYTES: usize = 16;
const HEAD_BYTES: usize = FID_BYTES + 1;

/// The names in a list: directory and name.
pub fn each(list: &[u8]) -> impl Iterator<Item = Result<(Fid, &[u8]), Damaged>> {
    let mut rest = list;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        match split(rest) {
            Some((fid, name, behind)) => {
                rest = behind;
                Some(Ok((fid, name)))
            }
            None => {
                let found = std::mem::take(&mut rest).len();
                Some(Err(Damaged::Short { record: RECORD, found }))
            }
        }
    })
}

fn split(list: &[u8]) -> Option<(Fid, &[u8], &[u8])> {
    let (fid, rest) = list.split_first_chunk::<FID_BYTES>()?;
    let (len, rest) = rest.split_first()?;
    let (name, behind) =
        rest.split_at_checked(usize::from(*len)).filter(|(name, _)| !name.is_empty())?;
    Some((Fid::from_be_bytes(*fid), name, behind))
}

/// The list with one more name, if it has room.
pub fn with(list: &[u8], parent: Fid, name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(list.len() + HEAD_BYTES + name.len());
    out.extend_from_slice(list);
    if let Ok(len) = u8::try_from(name.len())
        && len > 0
        && out.len() + HEAD_BYTES + name.len() <= BYTES_MAX
    {
        out.extend_from_slice(&parent.to_be_bytes());
        out.push(len);
        out.extend_from_slice(name);
    }
    out
}

/// The list without a name. Everything after damage is dropped too: nothing there can be trusted.
pub fn without(list: &[u8], parent: Fid, name: &[u8]) -> Vec<u8> {
    let kept = each(list).filter_map(Result::ok).filter(|known| *known != (parent, name));
    kept.fold(Vec::new(), |list, (parent, name)| with(&list, parent, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 3, ver: 0 };

    fn names(list: &[u8]) -> Vec<(Fid, &[u8])> {
        each(list).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn bytes_never_change_and_names_come_and_go() {
        let list = with(&with(&[], DIR, b"a"), Fid::ROOT, b"second name");
        crate::golden::check("links", &list);
        assert_eq!(names(&list), [(DIR, &b"a"[..]), (Fid::ROOT, b"second name")]);
        assert_eq!(names(&without(&list, DIR, b"a")), [(Fid::ROOT, &b"second name"[..])]);
        assert_eq!(without(&list, DIR, b"b"), list);
        for len in 1..list.len() {
            let cut: Vec<_> = each(&list[..len]).collect();
            assert_eq!(
                cut.last().is_some_and(Result::is_err),
                len != HEAD_BYTES + 1,
                "{len} bytes"
            );
        }
    }

    #[test]
    fn a_full_list_takes_no_more() {
        let mut list = Vec::new();
        for n in 0..300u32 {
            list = with(&list, DIR, format!("{n:0250}").as_bytes());
        }
        assert!(list.len() <= BYTES_MAX && names(&list).len() == BYTES_MAX / (HEAD_BYTES + 250));
        assert_eq!(with(&[], DIR, &[b'x'; 256]), [0u8; 0]);
        assert_eq!(names(&with(&[], DIR, &[255; 255])), [(DIR, &[255; 255][..])]);
    }

    proptest! {
        #[test]
        fn garbage_never_panics_nor_grows(list in proptest::collection::vec(any::<u8>(), 0..300)) {
            let read = each(&list).filter_map(Result::ok).count();
            prop_assert!(read <= list.len() / (HEAD_BYTES + 1));
            prop_assert!(without(&list, DIR, b"x").len() <= list.len());
        }
    }
}
