//! SheenFS's own compact form of a layout: on the wire and in inode records. Little endian.
//!
//! | size | field        | meaning                                                          |
//! |------|--------------|------------------------------------------------------------------|
//! |    1 | version      | 1; 2: with an owner; 3: with both of these; 4: OSTs are wanted    |
//! |    1 | components   | how many follow                                                  |
//! |    4 | generation   | `Layout::generation`                                             |
//! |   16 | owner        | from version 2: `Layout::owner`, big endian                      |
//! |    4 | spent        | from version 3: `Layout::spent`; in version 3 not 0              |
//!
//! then for each component
//!
//! | size | field        | meaning                                                          |
//! |------|--------------|------------------------------------------------------------------|
//! |    4 | id           | instance number                                                  |
//! |    8 | start        | first byte                                                       |
//! |    8 | end          | exclusive; all ones = end of file                                |
//! |    1 | pattern      | 1 = RAID0, 2 = on the MDT, 3 = extension                         |
//! |    1 | flags        | bit 0: overstriped; bit 1 (version 4): wanted follows; others 0  |
//! |    4 | stripe_size  | bytes; of an extension: units of 1 KiB                           |
//! |    2 | stripe_count | wanted                                                           |
//! |    2 | stripes      | how many OSTs follow; 0 = not instantiated                       |
//! |    1 | pool_len     | length of the pool name; 0 = none                                |
//! |    n | pool         | name                                                             |
//! |  2*m | osts         | index of each stripe's OST                                       |
//! |    2 | wanted_count | with flag bit 1: how many OSTs are wanted, not 0                 |
//! |  2*w | wanted       | with flag bit 1: `Component::wanted`                             |

use crate::check::{BadLayout, verify};
use crate::layout::{Component, Layout, Pattern, PoolName};
use types::fid::Fid;
use types::limits;
use types::target::TargetIndex;

/// Newest version of the form. 1: the objects are named after the file itself. 2: they are named
/// after another file, whose FID follows. 3: as 2, and components with objects were removed. 4:
/// components may name the OSTs that they shall get.
pub const VERSION: u8 = 4;
const VERSION_WITH_SPENT: u8 = 3;
const VERSION_WITH_OWNER: u8 = 2;
const VERSION_WITHOUT_OWNER: u8 = 1;
const HEADER_BYTES: usize = 1 + 1 + 4;
const OWNER_BYTES: usize = 16;
const SPENT_BYTES: usize = 4;
const COMPONENT_BYTES: usize = 4 + 8 + 8 + 1 + 1 + 4 + 2 + 2 + 1;
const FLAG_OVERSTRIPED: u8 = 1;
const FLAG_WANTED: u8 = 2;
const WANTED_COUNT_BYTES: usize = 2;

/// The bytes are no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Ends too early.
    #[error("layout ends after {0} bytes")]
    Short(usize),
    /// Bytes after the end, or more than `LAYOUT_BYTES_MAX`.
    #[error("layout of {0} bytes is too long")]
    Long(usize),
    /// From a newer version.
    #[error("layout has version {0}; this program knows {VERSION}")]
    Version(u8),
    /// A field holds what it cannot.
    #[error("layout field {field} holds {value}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// Well formed, but no good layout.
    #[error(transparent)]
    Layout(#[from] BadLayout),
}

/// Bytes that [`encode`] appends.
pub fn encoded_len(layout: &Layout) -> usize {
    let of = |c: &Component| {
        let wanted = if c.wanted.is_empty() { 0 } else { WANTED_COUNT_BYTES + 2 * c.wanted.len() };
        COMPONENT_BYTES + c.pool.as_ref().map_or(0, |p| p.0.len()) + 2 * c.stripes.len() + wanted
    };
    let more = match version(layout) {
        VERSION_WITHOUT_OWNER => 0,
        VERSION_WITH_OWNER => OWNER_BYTES,
        _ => OWNER_BYTES + SPENT_BYTES,
    };
    HEADER_BYTES + more + layout.components.iter().map(of).sum::<usize>()
}

/// The oldest version that can say it.
fn version(layout: &Layout) -> u8 {
    match (layout.spent, layout.owner) {
        _ if layout.components.iter().any(|c| !c.wanted.is_empty()) => VERSION,
        (0, Fid::NONE) => VERSION_WITHOUT_OWNER,
        (0, _) => VERSION_WITH_OWNER,
        _ => VERSION_WITH_SPENT,
    }
}

/// Appends the layout, which must be one that [`verify`] accepts.
///
/// # Panics
/// If its counts do not fit their fields, which is a bug of the caller.
pub fn encode(layout: &Layout, out: &mut Vec<u8>) {
    out.reserve(encoded_len(layout));
    let version = version(layout);
    out.push(version);
    out.push(u8::try_from(layout.components.len()).expect("verified: few components"));
    out.extend_from_slice(&layout.generation.to_le_bytes());
    if version >= VERSION_WITH_OWNER {
        out.extend_from_slice(&layout.owner.to_be_bytes());
    }
    if version >= VERSION_WITH_SPENT {
        out.extend_from_slice(&layout.spent.to_le_bytes());
    }
    for c in &layout.components {
        let pool = c.pool.as_ref().map_or("", |p| &p.0);
        out.extend_from_slice(&c.id.to_le_bytes());
        out.extend_from_slice(&c.start.to_le_bytes());
        out.extend_from_slice(&c.end.to_le_bytes());
        out.push(c.pattern as u8);
        let wanted = if c.wanted.is_empty() { 0 } else { FLAG_WANTED };
        out.push(wanted | if c.overstriped { FLAG_OVERSTRIPED } else { 0 });
        out.extend_from_slice(&c.stripe_size.to_le_bytes());
        out.extend_from_slice(&c.stripe_count.to_le_bytes());
        out.extend_from_slice(
            &u16::try_from(c.stripes.len()).expect("verified: few stripes").to_le_bytes(),
        );
        out.push(u8::try_from(pool.len()).expect("verified: short pool name"));
        out.extend_from_slice(pool.as_bytes());
        for ost in &c.stripes {
            out.extend_from_slice(&ost.0.to_le_bytes());
        }
        if !c.wanted.is_empty() {
            out.extend_from_slice(
                &u16::try_from(c.wanted.len()).expect("verified: few stripes").to_le_bytes(),
            );
            c.wanted.iter().for_each(|ost| out.extend_from_slice(&ost.0.to_le_bytes()));
        }
    }
}

/// Reads exactly one layout, which fills `bytes`.
///
/// # Errors
/// The bytes are anything but a good layout. Allocates no more than `bytes` justifies.
pub fn decode(bytes: &[u8]) -> Result<Layout, DecodeError> {
    if bytes.len() > limits::LAYOUT_BYTES_MAX {
        return Err(DecodeError::Long(bytes.len()));
    }
    let mut r = Reader { bytes, at: 0 };
    let [version] = r.take()?;
    if !(VERSION_WITHOUT_OWNER..=VERSION).contains(&version) {
        return Err(DecodeError::Version(version));
    }
    let [count] = r.take()?;
    if usize::from(count) > limits::COMPONENTS_MAX {
        return Err(BadLayout::Components(usize::from(count)).into());
    }
    let generation = u32::from_le_bytes(r.take()?);
    let owner = match version {
        VERSION_WITHOUT_OWNER => Fid::NONE,
        _ => match Fid::from_be_bytes(r.take()?) {
            Fid::NONE if version == VERSION_WITH_OWNER => {
                return Err(DecodeError::Field { field: "owner", value: 0 });
            }
            owner => owner,
        },
    };
    let spent = match version {
        VERSION_WITH_SPENT.. => u32::from_le_bytes(r.take()?),
        _ => 0,
    };
    if version == VERSION_WITH_SPENT && spent == 0 {
        return Err(DecodeError::Field { field: "spent", value: 0 });
    }
    let mut components = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        components.push(component(&mut r, version)?);
    }
    if r.at != bytes.len() {
        return Err(DecodeError::Long(bytes.len()));
    }
    let layout = Layout { generation, owner, spent, components };
    verify(&layout)?;
    Ok(layout)
}

fn component(r: &mut Reader<'_>, version: u8) -> Result<Component, DecodeError> {
    let id = u32::from_le_bytes(r.take()?);
    let start = u64::from_le_bytes(r.take()?);
    let end = u64::from_le_bytes(r.take()?);
    let pattern = match r.take()? {
        [1] => Pattern::Raid0,
        [2] => Pattern::Mdt,
        [3] => Pattern::Extension,
        [other] => return Err(DecodeError::Field { field: "pattern", value: other.into() }),
    };
    let [flags] = r.take()?;
    let known = if version >= VERSION { FLAG_OVERSTRIPED | FLAG_WANTED } else { FLAG_OVERSTRIPED };
    if flags & !known != 0 {
        return Err(DecodeError::Field { field: "flags", value: flags.into() });
    }
    let stripe_size = u32::from_le_bytes(r.take()?);
    let stripe_count = u16::from_le_bytes(r.take()?);
    let stripes = usize::from(u16::from_le_bytes(r.take()?));
    let [pool_len] = r.take()?;
    let pool = match r.slice(usize::from(pool_len))? {
        [] => None,
        name => {
            let text = || String::from_utf8_lossy(name).into_owned();
            let good = std::str::from_utf8(name).ok().and_then(PoolName::new);
            Some(good.ok_or_else(|| BadLayout::Pool(text()))?)
        }
    };
    let stripes = r.osts(stripes)?;
    let wanted = match flags & FLAG_WANTED != 0 {
        false => Vec::new(),
        true => match u16::from_le_bytes(r.take()?) {
            0 => return Err(DecodeError::Field { field: "wanted_count", value: 0 }),
            wanted => r.osts(usize::from(wanted))?,
        },
    };
    let overstriped = flags & FLAG_OVERSTRIPED != 0;
    Ok(Component {
        id,
        start,
        end,
        pattern,
        stripe_size,
        stripe_count,
        overstriped,
        pool,
        stripes,
        wanted,
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn slice(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let slice =
            self.bytes.get(self.at..self.at + len).ok_or(DecodeError::Short(self.bytes.len()))?;
        self.at += len;
        Ok(slice)
    }

    fn osts(&mut self, count: usize) -> Result<Vec<TargetIndex>, DecodeError> {
        let bytes = self.slice(2 * count)?;
        Ok(bytes.chunks_exact(2).map(|b| TargetIndex(u16::from_le_bytes([b[0], b[1]]))).collect())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.slice(N)?.try_into().expect("as long as asked for"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{any_layout, pfl};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trips(layout in any_layout()) {
            let mut bytes = Vec::new();
            encode(&layout, &mut bytes);
            prop_assert_eq!(bytes.len(), encoded_len(&layout));
            prop_assert_eq!(decode(&bytes), Ok(layout));
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(layout) = decode(&bytes) {
                prop_assert_eq!(verify(&layout), Ok(()));
            }
        }

        #[test]
        fn one_changed_byte_never_panics_nor_passes_unverified(layout in any_layout(), at: usize, value: u8) {
            let mut bytes = Vec::new();
            encode(&layout, &mut bytes);
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(layout) = decode(&bytes) {
                prop_assert_eq!(verify(&layout), Ok(()));
            }
        }

        #[test]
        fn every_cut_is_noticed(layout in any_layout(), at: usize) {
            let mut bytes = Vec::new();
            encode(&layout, &mut bytes);
            bytes.truncate(at % bytes.len());
            prop_assert!(decode(&bytes).is_err());
        }
    }

    #[test]
    fn bytes_never_change() {
        let mut bytes = Vec::new();
        encode(&pfl(), &mut bytes);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, include_str!("golden/pfl.hex").trim());
    }

    #[test]
    fn wanted_osts_make_a_version_of_their_own() {
        let mut layout = pfl();
        layout.components[3].wanted = vec![TargetIndex(9)];
        let mut bytes = Vec::new();
        encode(&layout, &mut bytes);
        assert_eq!((bytes[0], decode(&bytes)), (4, Ok(layout.clone())));
        layout.components[3].wanted.clear();
        bytes.clear();
        encode(&layout, &mut bytes);
        assert_eq!(bytes[0], 1, "older programs can read it again");
    }

    #[test]
    fn trailing_bytes_and_other_versions_are_refused() {
        let mut bytes = Vec::new();
        encode(&pfl(), &mut bytes);
        bytes.push(0);
        assert_eq!(decode(&bytes), Err(DecodeError::Long(bytes.len())));
        bytes[0] = 9;
        assert_eq!(decode(&bytes), Err(DecodeError::Version(9)));
        assert_eq!(decode(&vec![1; 70_000]), Err(DecodeError::Long(70_000)));
    }
}
