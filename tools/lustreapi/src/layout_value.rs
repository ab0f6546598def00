//! `struct llapi_layout`: a layout that a program looks at or makes, component by component.
//!
//! A value of [`DEFAULT`] is left to the file system. A layout that was read from a file knows its
//! OSTs, but a new file created with it gets OSTs of its own, unless the program names some.

use crate::door::{Answer, EINVAL, EOPNOTSUPP};
use layout::layout::{ALL_OSTS, Component, EOF, Layout as Value, Pattern, PoolName};
use layout::lov_ea::{LCME_FL_EXTENSION, LCME_FL_INIT, LovEa};
use types::limits::{COMPONENTS_MAX, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, STRIPES_MAX};
use types::target::TargetIndex;

/// `LLAPI_LAYOUT_INVALID`
pub const INVALID: u64 = 0x1000_0000_0000_0001;
/// `LLAPI_LAYOUT_DEFAULT`
pub const DEFAULT: u64 = INVALID + 1;
/// `LLAPI_LAYOUT_WIDE`
pub const WIDE: u64 = INVALID + 2;
/// `LLAPI_LAYOUT_RAID0`
pub const RAID0: u64 = 0;
/// `LLAPI_LAYOUT_MDT`
pub const MDT: u64 = 2;
/// `LLAPI_LAYOUT_OVERSTRIPING`
pub const OVERSTRIPING: u64 = 4;

/// The error of a layout: `LSE_...` of the header, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Fault {
    /// Flags that SheenFS cannot keep.
    Flags = 1,
    /// A part on the MDT that is not the first.
    DomFirst,
    /// The first component does not begin at 0.
    Start,
    /// A component is empty.
    EndNotGreater,
    /// Gap or overlap.
    NotAdjacent,
    /// An end that is no multiple of 64 KiB.
    AlignEnd,
    /// Any other error.
    Other,
}

/// One component.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Number; 0: none yet.
    pub id: u32,
    /// `LCME_FL_...`
    pub flags: u32,
    /// First byte.
    pub start: u64,
    /// End, exclusive; `EOF`.
    pub end: u64,
    /// [`DEFAULT`], [`RAID0`], [`MDT`], [`OVERSTRIPING`].
    pub pattern: u64,
    /// Bytes, or [`DEFAULT`].
    pub stripe_size: u64,
    /// Number, [`DEFAULT`] or [`WIDE`].
    pub stripe_count: u64,
    /// Pool; empty: none.
    pub pool: String,
    /// OST of each stripe, as far as they are known or wished for.
    pub osts: Vec<Option<u16>>,
    /// The OSTs are those of an existing file.
    pub from_file: bool,
    /// Bytes that the component before it takes from it at a time; 0: it is none for another to
    /// grow into.
    pub extension_size: u64,
}

impl Part {
    /// All values DEFAULT, over the whole file.
    pub fn new() -> Part {
        Part {
            id: 0,
            flags: 0,
            start: 0,
            end: EOF,
            pattern: DEFAULT,
            stripe_size: DEFAULT,
            stripe_count: DEFAULT,
            pool: String::new(),
            osts: Vec::new(),
            from_file: false,
            extension_size: 0,
        }
    }

    fn of(c: &Component, from_file: bool) -> Part {
        if let Some(size) = c.extension_size() {
            let extension = Part { id: c.id, start: c.start, end: c.end, ..Part::new() };
            return Part {
                flags: LCME_FL_EXTENSION,
                pattern: RAID0,
                extension_size: size,
                ..extension
            };
        }
        let instantiated = from_file && c.is_instantiated();
        let osts: Vec<Option<u16>> =
            c.stripes.iter().chain(&c.wanted).map(|ost| Some(ost.0)).collect();
        Part {
            id: c.id,
            flags: if instantiated { LCME_FL_INIT } else { 0 },
            start: c.start,
            end: c.end,
            pattern: match (c.pattern, c.overstriped) {
                (Pattern::Mdt, _) => MDT,
                (Pattern::Raid0, true) => OVERSTRIPING,
                (Pattern::Raid0, false) | (Pattern::Extension, _) => RAID0,
            },
            stripe_size: if c.stripe_size == 0 { DEFAULT } else { c.stripe_size.into() },
            stripe_count: match c.stripe_count {
                0 if c.pattern == Pattern::Raid0 => DEFAULT,
                ALL_OSTS => WIDE,
                count => count.into(),
            },
            pool: c.pool.as_ref().map(|pool| pool.0.clone()).unwrap_or_default(),
            osts,
            from_file: instantiated,
            extension_size: 0,
        }
    }

    fn component(&self, id: u32) -> Answer<Component> {
        if self.extension_size > 0 {
            let extension = Component::extension(id, self.start, self.end, self.extension_size)
                .ok_or(EINVAL)?;
            return if self.osts.is_empty() { Ok(extension) } else { Err(EINVAL) };
        }
        let on_mdt = self.pattern == MDT;
        let mut stripe_count = match self.stripe_count {
            _ if on_mdt => 0,
            DEFAULT => 0,
            WIDE => ALL_OSTS,
            count => u16::try_from(count).map_err(|_| EINVAL)?,
        };
        let mut wanted = Vec::new();
        if !on_mdt && !self.from_file {
            match &self.osts[..] {
                [] => {}
                [only] => wanted.extend(only.map(TargetIndex)),
                all => {
                    wanted = all
                        .iter()
                        .map(|ost| ost.map(TargetIndex).ok_or(EINVAL))
                        .collect::<Answer<_>>()?;
                    if stripe_count == 0 {
                        stripe_count = wanted.len() as u16;
                    }
                    if usize::from(stripe_count) != wanted.len() {
                        return Err(EINVAL);
                    }
                }
            }
        }
        let component = Component {
            id,
            start: self.start,
            end: self.end,
            pattern: if on_mdt { Pattern::Mdt } else { Pattern::Raid0 },
            stripe_size: match self.stripe_size {
                _ if on_mdt => 0,
                DEFAULT => 0,
                size => u32::try_from(size).map_err(|_| EINVAL)?,
            },
            stripe_count,
            overstriped: self.pattern == OVERSTRIPING,
            pool: match &*self.pool {
                "" => None,
                _ if on_mdt => None,
                pool => Some(PoolName::new(pool).ok_or(EINVAL)?),
            },
            stripes: Vec::new(),
            wanted,
        };
        Ok(component)
    }

    /// The OST of a stripe; DEFAULT: the file system chooses it.
    ///
    /// # Errors
    /// EINVAL: there is no such stripe.
    pub fn ost(&self, stripe: u64) -> Answer<u64> {
        let at = usize::try_from(stripe).map_err(|_| EINVAL)?;
        match self.osts.get(at) {
            Some(Some(ost)) => Ok((*ost).into()),
            Some(None) => Ok(DEFAULT),
            None if stripe == 0 && self.pattern != MDT => Ok(DEFAULT),
            None if !self.from_file
                && self.stripe_count < INVALID
                && stripe < self.stripe_count =>
            {
                Ok(DEFAULT)
            }
            None => Err(EINVAL),
        }
    }

    /// Names the OST of a stripe, or with DEFAULT none.
    ///
    /// # Errors
    /// EINVAL: there can be no such stripe or OST.
    pub fn set_ost(&mut self, stripe: i32, index: u64) -> Answer<()> {
        let at = usize::try_from(stripe).ok().filter(|at| *at < STRIPES_MAX).ok_or(EINVAL)?;
        let ost = match index {
            DEFAULT => None,
            index => Some(u16::try_from(index).ok().filter(|ost| *ost != u16::MAX).ok_or(EINVAL)?),
        };
        if std::mem::take(&mut self.from_file) {
            self.osts.clear();
        }
        if self.osts.len() <= at {
            self.osts.resize(at + 1, None);
        }
        self.osts[at] = ost;
        if self.osts.iter().all(Option::is_none) {
            self.osts.clear();
        }
        Ok(())
    }
}

impl Default for Part {
    fn default() -> Part {
        Part::new()
    }
}

/// `struct llapi_layout`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// In the order of the file; never empty.
    pub parts: Vec<Part>,
    /// The component that the functions act on.
    pub current: usize,
    /// It has components, even if only one.
    pub composite: bool,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { parts: vec![Part::new()], current: 0, composite: false }
    }
}

impl Layout {
    /// From what a file or directory has. An empty value is all DEFAULT.
    pub fn of(ea: &LovEa, from_file: bool) -> Layout {
        let parts: Vec<Part> =
            ea.layout.components.iter().map(|c| Part::of(c, from_file)).collect();
        match parts.is_empty() {
            true => Layout::default(),
            false => Layout { parts, current: 0, composite: !ea.layout.is_plain() },
        }
    }

    /// The current component.
    pub fn part(&self) -> &Part {
        &self.parts[self.current]
    }

    /// The current component.
    pub fn part_mut(&mut self) -> &mut Part {
        &mut self.parts[self.current]
    }

    /// For the file system.
    ///
    /// # Errors
    /// EINVAL: it can be no layout; EOPNOTSUPP: it has flags, which cannot be kept.
    pub fn wish(&self) -> Answer<LovEa> {
        match self.fault(false) {
            None => {}
            Some(Fault::Flags) => return Err(EOPNOTSUPP),
            Some(_) => return Err(EINVAL),
        }
        self.unchecked_wish()
    }

    /// For a file that has components already, which end where these begin.
    ///
    /// # Errors
    /// As [`Layout::wish`].
    pub fn wish_behind(&self) -> Answer<LovEa> {
        match self.fault(true) {
            None => {}
            Some(Fault::Flags) => return Err(EOPNOTSUPP),
            Some(_) => return Err(EINVAL),
        }
        let ea = self.unchecked_wish()?;
        if ea.is_on_mdt() { Err(EINVAL) } else { Ok(ea) }
    }

    fn unchecked_wish(&self) -> Answer<LovEa> {
        let mut ea = LovEa { layout: Value::default() };
        for (id, part) in (1u32..).zip(&self.parts) {
            ea.layout.components.push(part.component(id)?);
        }
        Ok(ea)
    }

    /// The first thing that is wrong with it. `incomplete`: it may begin behind 0.
    pub fn fault(&self, incomplete: bool) -> Option<Fault> {
        let mut end = None;
        for (n, part) in self.parts.iter().enumerate() {
            let grows = self.parts.get(n + 1).is_some_and(|next| next.extension_size > 0);
            let own = part_fault(part, end, incomplete, grows);
            if own.is_some() {
                return own;
            }
            end = Some(part.end);
        }
        let Ok(mut ea) = self.unchecked_wish() else { return Some(Fault::Other) };
        if incomplete && let Some(first) = ea.layout.components.first_mut() {
            first.start = 0;
        }
        layout::stripe_spec::complete(ea.layout, &Default::default()).err().map(|_| Fault::Other)
    }

    /// Adds a component behind the last, which becomes the current one.
    ///
    /// # Errors
    /// EINVAL: there are as many as can be, or nothing is left for it.
    pub fn add(&mut self) -> Answer<()> {
        let last = self.parts.last().ok_or(EINVAL)?;
        if self.parts.len() == COMPONENTS_MAX || last.end == EOF {
            return Err(EINVAL);
        }
        let part = Part { start: last.end, ..Part::new() };
        self.parts.push(part);
        (self.current, self.composite) = (self.parts.len() - 1, true);
        Ok(())
    }

    /// Takes the current component away.
    ///
    /// # Errors
    /// EINVAL: it is not the last, or the only one.
    pub fn remove(&mut self) -> Answer<()> {
        if self.current == 0 || self.current + 1 != self.parts.len() {
            return Err(EINVAL);
        }
        self.parts.pop();
        self.current -= 1;
        Ok(())
    }
}

fn part_fault(
    part: &Part,
    end_before: Option<u64>,
    incomplete: bool,
    grows: bool,
) -> Option<Fault> {
    let extends = part.flags & LCME_FL_EXTENSION != 0;
    if part.flags & !(LCME_FL_INIT | LCME_FL_EXTENSION) != 0 || extends != (part.extension_size > 0)
    {
        return Some(Fault::Flags);
    }
    match end_before {
        None if part.start != 0 && !incomplete => return Some(Fault::Start),
        Some(_) if part.pattern == MDT => return Some(Fault::DomFirst),
        Some(end) if end != part.start => return Some(Fault::NotAdjacent),
        _ => {}
    }
    if part.end < part.start || part.end == part.start && !grows {
        return Some(Fault::EndNotGreater);
    }
    (part.end != EOF && !part.end.is_multiple_of(STRIPE_BYTES_MIN)).then_some(Fault::AlignEnd)
}

/// True if a stripe may have this many bytes.
pub fn is_stripe_size(bytes: u64) -> bool {
    bytes == DEFAULT
        || (bytes > 0 && bytes <= STRIPE_BYTES_MAX && bytes.is_multiple_of(STRIPE_BYTES_MIN))
}

/// True if a component may have this many stripes.
pub fn is_stripe_count(count: u64) -> bool {
    matches!(count, DEFAULT | WIDE) || (1..=STRIPES_MAX as u64).contains(&count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::lov_ea::{decode, encode, encode_spec};
    use layout::stripe_spec::default_layout;
    use types::fid::Fid;

    fn striped(count: u64) -> Layout {
        let mut layout = Layout::default();
        (layout.part_mut().stripe_count, layout.part_mut().stripe_size) = (count, 1 << 20);
        layout
    }

    #[test]
    fn an_open_layout_leaves_everything_to_the_file_system() {
        let wish = Layout::default().wish().unwrap();
        assert!(wish.is_default());
        assert_eq!(
            Layout::of(&wish, false),
            Layout {
                parts: vec![Part { id: 1, pattern: RAID0, ..Part::new() }],
                ..Layout::default()
            }
        );
        assert_eq!(Layout::of(&decode(&[]).unwrap(), true), Layout::default());
    }

    #[test]
    fn osts_are_wished_for_one_by_one_or_only_the_first() {
        let mut layout = striped(2);
        layout.part_mut().set_ost(0, 3).unwrap();
        let wish = layout.wish().unwrap();
        assert_eq!(wish.layout.components[0].wanted, [TargetIndex(3)]);
        layout.part_mut().set_ost(1, 0).unwrap();
        let wish = layout.wish().unwrap();
        assert_eq!(wish.layout.components[0].wanted, [TargetIndex(3), TargetIndex(0)]);
        assert_eq!(decode(&encode_spec(&wish)).unwrap(), wish);
        // Three are named for two stripes; one of three is missing.
        layout.part_mut().set_ost(2, 1).unwrap();
        assert_eq!(layout.wish(), Err(EINVAL));
        layout.part_mut().stripe_count = 3;
        assert!(layout.wish().is_ok());
        layout.part_mut().set_ost(1, DEFAULT).unwrap();
        assert_eq!(layout.wish(), Err(EINVAL));
        for (stripe, ost) in [(-1, 0), (2000, 0), (0, 65_535), (0, WIDE)] {
            assert_eq!(layout.part_mut().set_ost(stripe, ost), Err(EINVAL), "{stripe} {ost}");
        }
    }

    #[test]
    fn a_layout_that_was_read_serves_another_file_without_its_osts() {
        let mut value = default_layout(0);
        value.components[0].stripes = vec![TargetIndex(2)];
        let read = Layout::of(&decode(&encode(&value, Fid::ROOT)).unwrap(), true);
        assert!(read.composite);
        assert_eq!((read.part().ost(0), read.part().ost(1)), (Ok(2), Err(EINVAL)));
        assert_eq!((read.part().flags, read.parts[1].flags), (LCME_FL_INIT, 0));
        let wish = read.wish().unwrap();
        assert!(!wish.names_osts());
        assert_eq!(wish.layout.components.len(), 2);
        let mut named = read.clone();
        named.part_mut().set_ost(0, 1).unwrap();
        assert_eq!(named.wish().unwrap().layout.components[0].wanted, [TargetIndex(1)]);
    }

    #[test]
    fn components_come_and_go_at_the_end() {
        let mut layout = striped(1);
        assert_eq!(layout.add(), Err(EINVAL), "nothing is left for it");
        layout.part_mut().end = 1 << 26;
        layout.add().unwrap();
        assert_eq!((layout.current, layout.part().start, layout.part().end), (1, 1 << 26, EOF));
        assert!(layout.composite && layout.wish().is_ok());
        layout.part_mut().set_ost(0, 1).unwrap();
        assert_eq!(layout.wish().unwrap().layout.components[1].wanted, [TargetIndex(1)]);
        layout.current = 0;
        assert_eq!(layout.remove(), Err(EINVAL));
        layout.current = 1;
        layout.remove().unwrap();
        assert_eq!(layout.remove(), Err(EINVAL));
    }

    #[test]
    fn faults_have_their_names() {
        let fault = |change: &dyn Fn(&mut Layout)| {
            let mut layout = striped(1);
            layout.part_mut().end = 1 << 26;
            layout.add().unwrap();
            change(&mut layout);
            layout.fault(false)
        };
        assert_eq!(fault(&|_| {}), None);
        assert_eq!(fault(&|l| l.parts[0].flags = 2), Some(Fault::Flags));
        assert_eq!(fault(&|l| l.parts[1].flags = LCME_FL_EXTENSION), Some(Fault::Flags));
        assert_eq!(fault(&|l| l.parts[1].extension_size = 1 << 26), Some(Fault::Flags));
        assert_eq!(fault(&|l| l.parts[0].end = 0), Some(Fault::EndNotGreater));
        assert_eq!(fault(&|l| l.parts[1].pattern = MDT), Some(Fault::DomFirst));
        assert_eq!(fault(&|l| l.parts[0].start = 65536), Some(Fault::Start));
        assert_eq!(fault(&|l| l.parts[1].end = 5), Some(Fault::EndNotGreater));
        assert_eq!(fault(&|l| l.parts[1].start = 65536), Some(Fault::NotAdjacent));
        assert_eq!(fault(&|l| l.parts[1].end = (1 << 26) + 5), Some(Fault::AlignEnd));
        assert_eq!(fault(&|l| l.parts[1].stripe_count = 2001), Some(Fault::Other));
        let mut later = striped(1);
        later.part_mut().start = 65536;
        assert_eq!((later.fault(true), later.fault(false)), (None, Some(Fault::Start)));
        let mut flagged = striped(1);
        flagged.part_mut().flags = 2;
        assert_eq!(flagged.wish(), Err(EOPNOTSUPP));
    }

    #[test]
    fn numbers_have_bounds() {
        for good in [DEFAULT, 65_536, 1 << 20, STRIPE_BYTES_MAX] {
            assert!(is_stripe_size(good), "{good}");
        }
        for bad in [0, 1000, 4 << 30, INVALID, WIDE] {
            assert!(!is_stripe_size(bad), "{bad}");
        }
        assert!([1, 2000, DEFAULT, WIDE].into_iter().all(is_stripe_count));
        assert!(![0, 2001, INVALID].into_iter().any(is_stripe_count));
    }
}
