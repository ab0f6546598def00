//! `UID:GID`: the ids as which squashed users act.

use types::credentials::Ids;

/// The id that the kernel takes for none.
const NO_ID: u32 = u32::MAX;

/// The text names no ids to act as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadIds {
    /// There are not two parts.
    #[error("write UID:GID, as 65534:65534; 0:0 squashes nobody")]
    Parts,
    /// A part is no id.
    #[error("the {0} is no number from 0 to 4294967294")]
    Number(&'static str),
    /// One of them is 0, and the other is not.
    #[error("the {0} is 0, which is root's: a squashed user has neither; 0:0 squashes nobody")]
    Root(&'static str),
}

/// Reads `UID:GID`. `None`: `0:0`, no caller is squashed.
///
/// # Errors
/// [`BadIds`].
pub fn parse(text: &str) -> Result<Option<Ids>, BadIds> {
    let (uid, gid) = text.trim().split_once(':').ok_or(BadIds::Parts)?;
    let ids = Ids { uid: number(uid, "user")?, gid: number(gid, "group")? };
    match ids {
        Ids { uid: 0, gid: 0 } => Ok(None),
        Ids { uid: 0, .. } => Err(BadIds::Root("user")),
        Ids { gid: 0, .. } => Err(BadIds::Root("group")),
        ids => Ok(Some(ids)),
    }
}

/// As [`parse`] reads it.
pub fn text(ids: Option<Ids>) -> String {
    let Ids { uid, gid } = ids.unwrap_or(Ids { uid: 0, gid: 0 });
    format!("{uid}:{gid}")
}

/// An id as which a squashed caller may act: not root's.
pub fn squash_id(text: &str) -> Option<u32> {
    number(text, "").ok().filter(|id| *id != 0)
}

fn number(text: &str, which: &'static str) -> Result<u32, BadIds> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|id| digits && *id != NO_ID);
    id.ok_or(BadIds::Number(which))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_two_ids_that_are_not_root_s_are_taken() {
        assert_eq!(parse("99:100"), Ok(Some(Ids { uid: 99, gid: 100 })));
        assert_eq!(parse(" 0:0\n"), Ok(None));
        assert_eq!(parse("4294967294:1"), Ok(Some(Ids { uid: 4_294_967_294, gid: 1 })));
        for (text, error) in [
            ("", BadIds::Parts),
            ("99", BadIds::Parts),
            ("99:", BadIds::Number("group")),
            (":99", BadIds::Number("user")),
            ("+9:9", BadIds::Number("user")),
            ("9:9:9", BadIds::Number("group")),
            ("9 : 9", BadIds::Number("user")),
            ("4294967295:1", BadIds::Number("user")),
            ("1:4294967296", BadIds::Number("group")),
            ("0:99", BadIds::Root("user")),
            ("99:0", BadIds::Root("group")),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(uid in 1..u32::MAX, gid in 1..u32::MAX) {
            let ids = Some(Ids { uid, gid });
            prop_assert_eq!(parse(&text(ids)), Ok(ids));
            prop_assert_eq!(parse(&text(None)), Ok(None));
        }

        #[test]
        fn no_text_is_root(text in "[0-9:+ -]{0,12}") {
            if let Ok(Some(ids)) = parse(&text) {
                prop_assert!(ids.uid != 0 && ids.gid != 0);
            }
        }
    }
}
