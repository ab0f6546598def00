//! Predicates.

use super::compare::Compare;
use super::facts::{Facts, Needs, Stat};
use super::when::When;
use crate::project;
use ask::xattr;
use layout::layout::{Component, EOF, Pattern};
use rustix::fs::{FileType, StatxAttributes};
use std::io;
use types::target::TargetIndex;

/// One of the times of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    /// Last read.
    Access,
    /// Last written.
    Modify,
    /// Last changed.
    Change,
    /// Made.
    Birth,
}

impl Time {
    /// Of these attributes.
    pub fn of(self, stat: &Stat) -> When {
        match self {
            Time::Access => stat.atime,
            Time::Modify => stat.mtime,
            Time::Change => stat.ctime,
            Time::Birth => stat.btime,
        }
    }
}

/// How bits of a mode are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bits {
    /// Exactly these.
    Exactly(u32),
    /// All of these.
    All(u32),
    /// Any of these.
    Any(u32),
}

/// One predicate.
#[derive(Debug)]
pub enum Test {
    /// Always so: a feature that no file has, negated or not.
    Constant(bool),
    /// The name matches.
    Name(String),
    /// Type.
    Kind(Vec<FileType>),
    /// Bytes.
    Size(Compare),
    /// Space taken, bytes.
    Blocks(Compare),
    /// Owner.
    Uid(u32),
    /// Group.
    Gid(u32),
    /// Mode.
    Perm(Bits),
    /// Hard links.
    Links(Compare),
    /// Age of a time.
    Age(Time, Compare, i64),
    /// A time is after this moment.
    Newer(Time, When),
    /// Attributes (chattr).
    Attrs(StatxAttributes),
    /// An extended attribute, with a value if one is wanted.
    Xattr(String, Option<Vec<u8>>),
    /// Its inode, or a stripe of a directory, is on one of these.
    Mdt(Vec<u16>),
    /// Has an object on one of these.
    Ost(Vec<TargetIndex>),
    /// Pool of a component; empty: it has none.
    Pool(String),
    /// Stripes of a component.
    StripeCount(Compare),
    /// Stripe size of a component, bytes.
    StripeSize(Compare),
    /// OST of the first stripe of a component.
    StripeIndex(Vec<TargetIndex>),
    /// Pattern of a component.
    Layout(Vec<Pattern>),
    /// Components.
    ComponentCount(Compare),
    /// Start of a component, bytes.
    ComponentStart(Compare),
    /// End of a component, bytes.
    ComponentEnd(Compare),
    /// A component that reaches to the end of the file.
    ComponentEndEof,
    /// A component that has objects.
    ComponentInit,
    /// A component that another grows into.
    ComponentExtends,
    /// Bytes by which a component extends itself.
    ExtensionSize(Compare),
    /// Stripes of a directory.
    DirStripes(Compare),
    /// How the names of a directory tell their stripes: one of these words (`lfs getdirstripe -H`).
    DirHash(Vec<String>),
    /// Mirrors of a file: one.
    Mirrors(Compare),
    /// Project.
    Project(Compare),
}

impl Test {
    /// The facts that [`Test::holds`] needs of a file.
    pub fn needs(&self) -> Needs {
        match self {
            Test::Constant(_)
            | Test::Name(_)
            | Test::Kind(_)
            | Test::Attrs(_)
            | Test::Project(_)
            | Test::Xattr(..) => Needs::default(),
            Test::DirStripes(_) | Test::DirHash(_) | Test::Mirrors(_) => Needs::default(),
            Test::Size(_) | Test::Blocks(_) | Test::Uid(_) | Test::Gid(_) | Test::Perm(_) => {
                Needs::ATTRIBUTES
            }
            Test::Links(_) | Test::Age(..) | Test::Newer(..) | Test::Mdt(_) => Needs::ATTRIBUTES,
            Test::Ost(_) | Test::Pool(_) | Test::StripeCount(_) | Test::StripeSize(_) => {
                Needs::LAYOUTS
            }
            Test::StripeIndex(_) | Test::Layout(_) | Test::ComponentCount(_) => Needs::LAYOUTS,
            Test::ComponentStart(_) | Test::ComponentEnd(_) | Test::ComponentEndEof => {
                Needs::LAYOUTS
            }
            Test::ComponentInit | Test::ComponentExtends | Test::ExtensionSize(_) => Needs::LAYOUTS,
        }
    }

    /// True if the predicate holds for the file.
    ///
    /// # Errors
    /// Those of fetching the facts.
    pub fn holds(&self, file: &Facts) -> io::Result<bool> {
        let any = |test: &dyn Fn(&Component) -> bool| Ok(file.components()?.iter().any(test));
        match self {
            Test::Constant(holds) => Ok(*holds),
            Test::Name(pattern) => {
                Ok(fast_glob::glob_match(pattern, file.name().as_os_str().as_encoded_bytes()))
            }
            Test::Kind(kinds) => Ok(kinds.contains(&file.kind()?)),
            Test::Size(size) => Ok(size.size(file.stat()?.size)),
            Test::Blocks(size) => Ok(size.size(file.stat()?.blocks.saturating_mul(512))),
            Test::Uid(uid) => Ok(file.stat()?.uid == *uid),
            Test::Gid(gid) => Ok(file.stat()?.gid == *gid),
            Test::Perm(bits) => {
                let mode = file.stat()?.mode & 0o7777;
                Ok(match *bits {
                    Bits::Exactly(wanted) => mode == wanted,
                    Bits::All(wanted) => mode & wanted == wanted,
                    Bits::Any(wanted) => wanted == 0 || mode & wanted != 0,
                })
            }
            Test::Links(count) => Ok(count.size(file.stat()?.nlink.into())),
            Test::Age(time, age, now) => {
                Ok(age.older(now.saturating_sub(time.of(file.stat()?).seconds)))
            }
            Test::Newer(time, than) => Ok(time.of(file.stat()?) > *than),
            Test::Attrs(wanted) => Ok(file.attributes()?.contains(*wanted)),
            Test::Xattr(name, wanted) => match xattr::get(&file.path, name) {
                Ok(value) => Ok(wanted.as_ref().is_none_or(|wanted| *wanted == value)),
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP)) => {
                    Ok(false)
                }
                Err(e) => Err(e),
            },
            Test::Mdt(indexes) => Ok(file.mdts()?.iter().any(|mdt| indexes.contains(mdt))),
            Test::Ost(osts) => any(&|c| c.stripes.iter().any(|ost| osts.contains(ost))),
            Test::Pool(pool) if pool.is_empty() => {
                Ok(file.layout()?.is_some() && file.components()?.iter().all(|c| c.pool.is_none()))
            }
            Test::Pool(pool) => any(&|c| c.pool.as_ref().is_some_and(|known| known.0 == *pool)),
            Test::StripeCount(count) => {
                any(&|c| c.pattern != Pattern::Extension && count.size(c.stripe_count.into()))
            }
            Test::StripeSize(size) => {
                any(&|c| c.pattern != Pattern::Extension && size.size(c.stripe_size.into()))
            }
            Test::StripeIndex(osts) => {
                any(&|c| c.stripes.first().is_some_and(|first| osts.contains(first)))
            }
            Test::Layout(patterns) => any(&|c| patterns.contains(&c.pattern)),
            Test::ComponentCount(count) => {
                // A plain file has no components, as Lustre counts.
                let plain = file.layout()?.is_none_or(|ea| ea.layout.is_plain());
                Ok(count.size(if plain { 0 } else { file.components()?.len() as u64 }))
            }
            Test::ComponentStart(at) => any(&|c| at.size(c.start)),
            Test::ComponentEnd(at) => any(&|c| at.size(c.end)),
            Test::ComponentEndEof => any(&|c| c.end == EOF),
            Test::ComponentInit => any(&|c| c.is_instantiated()),
            Test::ComponentExtends => any(&|c| c.pattern == Pattern::Extension),
            Test::ExtensionSize(size) => {
                any(&|c| c.extension_size().is_some_and(|bytes| size.size(bytes)))
            }
            Test::DirStripes(count) => {
                Ok(file.place()?.is_some_and(|place| count.size(place.count() as u64)))
            }
            Test::DirHash(wanted) => Ok(file.place()?.is_some_and(|place| {
                place.hash().split(',').any(|word| wanted.iter().any(|wanted| wanted == word))
            })),
            Test::Project(id) => Ok(id.exactly(project::line(&file.path)?.id.into())),
            Test::Mirrors(count) => Ok(file.kind()? == FileType::RegularFile && count.size(1)),
        }
    }
}
