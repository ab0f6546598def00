//! The layout value.

use types::fid::Fid;
use types::limits::{FILE_BYTES_MAX, STRIPE_BYTES_MIN};
use types::object::ObjectId;
use types::target::TargetIndex;

/// End of a component that reaches to the end of the file.
pub const EOF: u64 = u64::MAX;
/// `stripe_count` that means "over all OSTs" (-1 of `lfs setstripe -c`).
pub const ALL_OSTS: u16 = u16::MAX;
/// Extension sizes are kept in units of this many bytes (SEL_UNIT_SIZE).
pub const EXTENSION_UNIT: u64 = 1024;
/// Longest pool name, bytes (LOV_MAXPOOLNAME).
pub const POOL_NAME_BYTES_MAX: usize = 15;

/// How a component spreads its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Pattern {
    /// Round robin over objects, `stripe_size` bytes at a time.
    Raid0 = 1,
    /// On the MDT, with the inode (DoM).
    Mdt = 2,
    /// No place yet: the component before it, or another one, grows into it ([`crate::extend`]).
    Extension = 3,
}

/// Name of an OST pool: 1..=15 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct PoolName(pub String);

/// One component.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Component {
    /// Instance number, unique in the life of the file, from 1; part of every object's name
    /// (`ObjectId::instance`).
    pub id: u32,
    /// First byte covered.
    pub start: u64,
    /// End, exclusive; [`EOF`] for the rest of the file. Equal to `start` only before an extension,
    /// until it is written.
    pub end: u64,
    /// How the bytes are spread.
    pub pattern: Pattern,
    /// Bytes of one stripe; a multiple of 64 KiB. Of an extension: the units of [`EXTENSION_UNIT`]
    /// that are taken from it at a time.
    pub stripe_size: u32,
    /// Stripes wanted; 0 = file system default, u16::MAX = all OSTs. Equal to `stripes.len()` once
    /// instantiated.
    pub stripe_count: u16,
    /// Overstriped: several objects may share one OST.
    pub overstriped: bool,
    /// Pool the OSTs come from.
    pub pool: Option<PoolName>,
    /// OST of each stripe; empty = not instantiated yet. Always empty for [`Pattern::Mdt`] and
    /// [`Pattern::Extension`].
    pub stripes: Vec<TargetIndex>,
    /// OSTs that the component shall get when it is instantiated. One is that of the first stripe;
    /// more are those of all stripes, in order (then `stripe_count` many). Empty: any OSTs. Always
    /// empty once instantiated.
    pub wanted: Vec<TargetIndex>,
}

/// Layout of one file, or the default layout of a directory (then without stripes).
#[derive(Clone, PartialEq, Eq, Debug, Hash, Default)]
pub struct Layout {
    /// Grows with every change.
    pub generation: u32,
    /// The file after which its objects are named, if that is another one: the two swapped layouts.
    /// [`Fid::NONE`]: itself.
    pub owner: Fid,
    /// Highest number of a component that had objects and was taken away; 0: none was. No object
    /// gets a name that one had before.
    pub spent: u32,
    /// Ordered by `start`, without gap or overlap, first at 0, last to [`EOF`] (unless the user
    /// left the end open).
    pub components: Vec<Component>,
}

impl Component {
    /// True if the component has its OSTs. A component on the MDT needs none and is always ready.
    pub fn is_instantiated(&self) -> bool {
        self.pattern == Pattern::Mdt || !self.stripes.is_empty()
    }

    /// An extension `[start, end)`, into which the component before it grows `size` bytes at a
    /// time. `None` if the size cannot be stored (it must be a multiple of 64 KiB up to nearly 4
    /// TiB).
    pub fn extension(id: u32, start: u64, end: u64, size: u64) -> Option<Component> {
        let units = size
            .is_multiple_of(STRIPE_BYTES_MIN)
            .then(|| u32::try_from(size / EXTENSION_UNIT).ok())
            .flatten();
        let stripe_size = units.filter(|units| *units > 0)?;
        let (pattern, stripe_count, overstriped, pool) = (Pattern::Extension, 0, false, None);
        let (stripes, wanted) = (Vec::new(), Vec::new());
        Some(Component {
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

    /// Bytes that are taken from an extension at a time; `None` for other components.
    pub fn extension_size(&self) -> Option<u64> {
        (self.pattern == Pattern::Extension).then_some(u64::from(self.stripe_size) * EXTENSION_UNIT)
    }

    /// True if it covers no byte, as a component that has not grown yet.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Gives it its OSTs.
    pub fn instantiate(&mut self, stripes: Vec<TargetIndex>) {
        self.stripe_count = stripes.len() as u16;
        self.stripes = stripes;
        self.wanted.clear();
    }

    /// Turns the OSTs that it has into OSTs that it shall get.
    pub fn want_stripes(&mut self) {
        if !self.stripes.is_empty() {
            self.wanted = std::mem::take(&mut self.stripes);
        }
    }

    /// True if `offset` is inside.
    pub fn covers(&self, offset: u64) -> bool {
        self.start <= offset && offset < self.end
    }

    /// Name of the object of stripe `stripe`; `fid`: [`Layout::names`].
    pub fn object(&self, fid: Fid, stripe: u32) -> ObjectId {
        ObjectId { fid, instance: self.id, stripe }
    }
}

impl Layout {
    /// Index of the component that covers `offset`.
    pub fn component_at(&self, offset: u64) -> Option<usize> {
        let index = self.components.partition_point(|c| c.end <= offset);
        self.components.get(index).filter(|c| c.covers(offset)).map(|_| index)
    }

    /// The file after which the objects of file `fid` are named.
    pub fn names(&self, fid: Fid) -> Fid {
        if self.owner == Fid::NONE { fid } else { self.owner }
    }

    /// Every object of the file with its OST, component by component. At most
    /// `COMPONENTS_MAX * STRIPES_MAX`.
    pub fn objects(&self, fid: Fid) -> impl Iterator<Item = (TargetIndex, ObjectId)> + '_ {
        let fid = self.names(fid);
        self.components.iter().flat_map(move |c| {
            (0u32..).zip(&c.stripes).map(move |(stripe, ost)| (*ost, c.object(fid, stripe)))
        })
    }

    /// Largest size of a file with this layout, bytes: no component covers bytes beyond it.
    pub fn size_max(&self) -> u64 {
        self.components.last().map_or(EOF, |c| c.end).min(FILE_BYTES_MAX)
    }

    /// Bytes from the start on that live on the MDT, with the inode; 0 = none do.
    pub fn mdt_bytes(&self) -> u64 {
        self.components.first().filter(|c| c.pattern == Pattern::Mdt).map_or(0, |c| c.end)
    }

    /// True if it is one striped component over the whole file.
    pub fn is_plain(&self) -> bool {
        matches!(&self.components[..], [c] if c.start == 0 && c.end == EOF && c.pattern == Pattern::Raid0)
    }

    /// Instance number for the next component: larger than any of which there are, or were,
    /// objects.
    pub fn next_instance(&self) -> u32 {
        self.components.iter().map(|c| c.id).fold(self.spent, u32::max) + 1
    }
}

/// Words that stand for no pool at all, where a directory would say otherwise.
pub const POOL_IGNORED: [&str; 2] = ["ignore", "none"];

impl PoolName {
    /// True if it is one of the words that mean no pool.
    pub fn is_ignored(&self) -> bool {
        POOL_IGNORED.contains(&&*self.0)
    }

    /// Checks 1..=15 letters, digits, `_` or `-`.
    pub fn new(name: &str) -> Option<PoolName> {
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let fits = !name.is_empty() && name.len() <= POOL_NAME_BYTES_MAX && name.bytes().all(good);
        fits.then(|| PoolName(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{pfl, raid0};

    #[test]
    fn a_file_ends_where_its_components_do() {
        assert_eq!(pfl().size_max(), FILE_BYTES_MAX);
        let open =
            Layout { components: vec![raid0(1, 0, 1 << 20, 65536, &[0])], ..Layout::default() };
        assert_eq!(open.size_max(), 1 << 20);
    }

    #[test]
    fn osts_that_are_wanted_are_forgotten_when_it_has_its_own() {
        let mut c = raid0(1, 0, EOF, 65536, &[]);
        (c.stripe_count, c.wanted) = (ALL_OSTS, vec![TargetIndex(2)]);
        c.instantiate(vec![TargetIndex(2), TargetIndex(0)]);
        assert_eq!((c.stripe_count, &c.wanted[..]), (2, &[][..]));
        c.want_stripes();
        assert_eq!((c.stripes.len(), &c.wanted[..]), (0, &[TargetIndex(2), TargetIndex(0)][..]));
    }
}
