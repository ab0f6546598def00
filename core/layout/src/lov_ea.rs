//! Lustre's binary layouts: the value of the `lustre.lov` xattr, read and written by `lfs`, tar and
//! cp. Little endian.
//!
//! Plain (V1; V3 adds the pool name; SPECIFIC is a V3 whose objects only name OSTs):
//!
//! | at | size | field            | meaning                                                             |
//! |----|------|------------------|---------------------------------------------------------------------|
//! |  0 |    4 | lmm_magic        | 0x0BD10BD0 V1, 0x0BD30BD0 V3, 0x0BD50BD0 SPECIFIC                   |
//! |  4 |    4 | lmm_pattern      | 1 RAID0, 0x100 MDT, +0x200 overstriped                              |
//! |  8 |   16 | lmm_oi           | the file: object id u64, sequence u64                               |
//! | 24 |    4 | lmm_stripe_size  | bytes; 0 = default                                                  |
//! | 28 |    2 | lmm_stripe_count | 0 = default, 0xffff = all OSTs                                      |
//! | 30 |    2 | layout_gen       | with objects: generation; without: first OST wanted, 0xffff = any;  |
//! |    |      |                  | SPECIFIC: first OST                                                 |
//! | 32 |   16 | lmm_pool_name    | V3 and SPECIFIC only; ended by NUL                                  |
//! |  . | 24*n | objects          | FID 16 (seq u64, oid u32, ver u32), OST generation u32, OST index u32 |
//!
//! Composite (COMP_V1; SEL if a component extends itself): a header of 32 bytes, entries of 48,
//! then one plain blob per entry:
//!
//! | at | size | header           | at | size | entry                                                   |
//! |----|------|------------------|----|------|---------------------------------------------------------|
//! |  0 |    4 | magic 0x0BD60BD0 |  0 |    4 | id                                                      |
//! |  4 |    4 | size of all      |  4 |    4 | flags: 0x10 instantiated, 0x40 extension                |
//! |  8 |    4 | generation       |  8 |   16 | start u64, end u64 (all ones = end of file)             |
//! | 12 |    2 | flags            | 24 |    4 | offset of the blob                                      |
//! | 14 |    2 | entries          | 28 |    4 | size of the blob                                        |
//! | 16 |    2 | mirrors - 1      | 32 |    4 | generation                                              |
//! | 18 |   14 | zero             | 36 |   12 | time stamp and padding                                  |
//!
//! SEL has the magic 0x0BD80BD0. The blob of an extension is RAID0 without stripes; its stripe size
//! is the extension size in KiB.
//!
//! SheenFS objects have no FID of their own. Readers are shown one made of the file's FID, with
//! component and stripe in the version field: stable, and different for every object. When a value
//! is read, object FIDs are ignored.

use crate::layout::{ALL_OSTS, Component, EOF, Layout, POOL_NAME_BYTES_MAX, Pattern, PoolName};
use types::fid::Fid;
use types::limits;
use types::target::TargetIndex;

/// Plain.
pub const LOV_MAGIC_V1: u32 = 0x0BD1_0BD0;
/// Plain with pool.
pub const LOV_MAGIC_V3: u32 = 0x0BD3_0BD0;
/// Sent by a user to name every OST.
pub const LOV_MAGIC_SPECIFIC: u32 = 0x0BD5_0BD0;
/// Composite.
pub const LOV_MAGIC_COMP_V1: u32 = 0x0BD6_0BD0;
/// Composite, with components that extend themselves.
pub const LOV_MAGIC_SEL: u32 = 0x0BD8_0BD0;
/// `lmm_pattern`: striped.
pub const LOV_PATTERN_RAID0: u32 = 0x001;
/// `lmm_pattern`: on the MDT.
pub const LOV_PATTERN_MDT: u32 = 0x100;
/// `lmm_pattern`: several stripes on one OST allowed.
pub const LOV_PATTERN_OVERSTRIPING: u32 = 0x200;
/// `lcme_flags`: has its objects.
pub const LCME_FL_INIT: u32 = 0x10;
/// `lcme_flags`: the component before it grows into it.
pub const LCME_FL_EXTENSION: u32 = 0x40;
/// Any OST may be the first.
const OFFSET_ANY: u16 = u16::MAX;

const V1_BYTES: usize = 32;
const V3_BYTES: usize = V1_BYTES + POOL_NAME_BYTES_MAX + 1;
const OBJECT_BYTES: usize = 24;
const COMP_BYTES: usize = 32;
const ENTRY_BYTES: usize = 48;

/// Content of a `lustre.lov` value: a layout, perhaps unfinished (sizes and counts of 0 mean
/// "default"). [`crate::stripe_spec::complete`] makes a valid layout of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LovEa {
    /// The layout. Components have numbers from 1 where the value gives none.
    pub layout: Layout,
}

impl LovEa {
    /// The same layout for another file: without objects, generations, numbers, and OSTs that were
    /// wished for.
    #[must_use]
    pub fn shape(mut self) -> LovEa {
        for (n, c) in (1u32..).zip(&mut self.layout.components) {
            c.id = n;
            c.stripes.clear();
            c.wanted.clear();
        }
        (self.layout.generation, self.layout.owner, self.layout.spent) = (0, Fid::NONE, 0);
        self
    }

    /// True if it leaves everything open.
    pub fn is_default(&self) -> bool {
        let open = |c: &Component| {
            c.stripe_count == 0
                && c.stripe_size == 0
                && c.stripes.is_empty()
                && c.wanted.is_empty()
                && !c.overstriped
                && c.pool.is_none()
                && c.pattern == Pattern::Raid0
        };
        matches!(&self.layout.components[..], [c] if c.end == EOF && open(c))
    }

    /// True if a part of it shall be on the MDT.
    pub fn is_on_mdt(&self) -> bool {
        self.layout.components.iter().any(|c| c.pattern == Pattern::Mdt)
    }

    /// The pools that it names, each once.
    pub fn pools(&self) -> Vec<&PoolName> {
        let mut pools: Vec<&PoolName> =
            self.layout.components.iter().filter_map(|c| c.pool.as_ref()).collect();
        pools.retain(|pool| !pool.is_ignored());
        pools.sort_unstable_by_key(|pool| &pool.0);
        pools.dedup();
        pools
    }

    /// True if it names OSTs.
    pub fn names_osts(&self) -> bool {
        self.layout.components.iter().any(|c| !c.stripes.is_empty() || !c.wanted.is_empty())
    }
}

/// The bytes are no Lustre layout that can be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LovEaError {
    /// Ends too early.
    #[error("layout of {0} bytes is cut off")]
    Short(usize),
    /// Longer than its fields say.
    #[error("layout of {0} bytes is too long")]
    Long(usize),
    /// The magic number of the form is unknown.
    #[error("layout has magic {0:#010x}, which is not supported")]
    Magic(u32),
    /// Mirrors, parity, released or foreign files.
    #[error("layout has pattern {0:#x}, which is not supported")]
    Pattern(u32),
    /// Mirrored.
    #[error("layout has {0} mirrors, which is not supported")]
    Mirrors(u32),
    /// A field holds what it cannot.
    #[error("layout field {field} holds {value}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The pool name is not valid.
    #[error("layout has a bad pool name")]
    Pool,
}

/// The layout in Lustre's form: V1 or V3 for a plain file, else COMP_V1. Without components: an
/// empty value.
///
/// `fid` is the file ([`Fid::NONE`] for a default layout).
pub fn encode(layout: &Layout, fid: Fid) -> Vec<u8> {
    let mut out = Vec::new();
    match &layout.components[..] {
        [] => {}
        [one] if layout.is_plain() => {
            plain(&mut out, one, layout.generation as u16, fid, layout.names(fid))
        }
        components => {
            put32(&mut out, composite_magic(layout));
            put32(&mut out, 0);
            put32(&mut out, layout.generation);
            put16(&mut out, 0);
            put16(&mut out, components.len() as u16);
            out.resize(COMP_BYTES + ENTRY_BYTES * components.len(), 0);
            for (i, c) in components.iter().enumerate() {
                let offset = out.len() as u32;
                plain(&mut out, c, 0, fid, layout.names(fid));
                let mut entry = Vec::with_capacity(ENTRY_BYTES);
                put32(&mut entry, c.id);
                put32(&mut entry, flags(c));
                put64(&mut entry, c.start);
                put64(&mut entry, c.end);
                put32(&mut entry, offset);
                put32(&mut entry, out.len() as u32 - offset);
                let at = COMP_BYTES + ENTRY_BYTES * i;
                out[at..at + entry.len()].copy_from_slice(&entry);
            }
            let size = out.len() as u32;
            out[4..8].copy_from_slice(&size.to_le_bytes());
        }
    }
    out
}

/// True if it names the OST of each of several stripes and has not got them yet.
fn is_specific(c: &Component) -> bool {
    c.wanted.len() > 1
}

/// Magic of a plain value of this component.
pub fn magic(c: &Component) -> u32 {
    match &c.pool {
        _ if is_specific(c) => LOV_MAGIC_SPECIFIC,
        Some(_) => LOV_MAGIC_V3,
        None => LOV_MAGIC_V1,
    }
}

/// Magic of a composite value of this layout.
pub fn composite_magic(layout: &Layout) -> u32 {
    let extends = layout.components.iter().any(|c| c.pattern == Pattern::Extension);
    if extends { LOV_MAGIC_SEL } else { LOV_MAGIC_COMP_V1 }
}

fn flags(c: &Component) -> u32 {
    match c.pattern {
        Pattern::Extension => LCME_FL_EXTENSION,
        _ if c.is_instantiated() => LCME_FL_INIT,
        _ => 0,
    }
}

fn is_composite(magic: u32) -> bool {
    matches!(magic, LOV_MAGIC_COMP_V1 | LOV_MAGIC_SEL)
}

/// Bytes of [`encode`] at most, once all components have their objects; `osts`: how many there are.
pub fn bytes_at_most(layout: &Layout, osts: usize) -> usize {
    let of = |c: &Component| {
        let header = if c.pool.is_some() || is_specific(c) { V3_BYTES } else { V1_BYTES };
        let wanted = match c.stripe_count {
            ALL_OSTS => osts,
            count if c.overstriped => usize::from(count),
            count => usize::from(count).min(osts),
        };
        header + OBJECT_BYTES * wanted.max(c.stripes.len()).max(c.wanted.len())
    };
    let blobs: usize = layout.components.iter().map(of).sum();
    if layout.is_plain() {
        blobs
    } else {
        COMP_BYTES + ENTRY_BYTES * layout.components.len() + blobs
    }
}

/// `fid` is the file, `named` the one after which its objects are named.
fn plain(out: &mut Vec<u8>, c: &Component, generation: u16, fid: Fid, named: Fid) {
    put32(out, magic(c));
    let pattern = match c.pattern {
        Pattern::Raid0 | Pattern::Extension => LOV_PATTERN_RAID0,
        Pattern::Mdt => LOV_PATTERN_MDT,
    };
    put32(out, pattern | if c.overstriped { LOV_PATTERN_OVERSTRIPING } else { 0 });
    put64(out, u64::from(fid.oid));
    put64(out, fid.seq);
    put32(out, c.stripe_size);
    put16(out, c.stripe_count);
    put16(
        out,
        if c.stripes.is_empty() {
            c.wanted.first().map_or(OFFSET_ANY, |ost| ost.0)
        } else {
            generation
        },
    );
    if c.pool.is_some() || is_specific(c) {
        let name = c.pool.as_ref().map_or("", |PoolName(name)| name);
        let mut padded = [0; POOL_NAME_BYTES_MAX + 1];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        out.extend_from_slice(&padded);
    }
    if is_specific(c) {
        for ost in &c.wanted {
            out.extend_from_slice(&[0; OBJECT_BYTES - 4]);
            put32(out, u32::from(ost.0));
        }
    }
    for (stripe, ost) in (0u32..).zip(&c.stripes) {
        let object = object_fid(named, c.id, stripe);
        put64(out, object.seq);
        put32(out, object.oid);
        put32(out, object.ver);
        put32(out, 0);
        put32(out, u32::from(ost.0));
    }
}

/// A wish in Lustre's form: as [`encode`] without a file.
pub fn encode_spec(ea: &LovEa) -> Vec<u8> {
    encode(&ea.layout, Fid::NONE)
}

/// As [`decode`] for the value of a file. It needs the file's FID, and also returns what the form
/// keeps only in the names of objects: the number of a plain layout's component, and the FID that
/// the objects are named after.
///
/// # Errors
/// As [`decode`].
pub fn decode_of_file(bytes: &[u8]) -> Result<(LovEa, Fid), LovEaError> {
    let mut ea = decode(bytes)?;
    if ea.layout.components.is_empty() {
        return Ok((ea, Fid::NONE));
    }
    let composite = is_composite(get32(bytes, 0)?);
    let blob = if composite { get32(bytes, COMP_BYTES + 24)? as usize } else { 0 };
    let oid = get64(bytes, blob + 8)?;
    let oid =
        u32::try_from(oid).map_err(|_| LovEaError::Field { field: "lmm_object_id", value: oid })?;
    let fid = Fid { seq: get64(bytes, blob + 16)?, oid, ver: 0 };
    if let Some(i) = ea.layout.components.iter().position(|c| !c.stripes.is_empty()) {
        let blob =
            if composite { get32(bytes, COMP_BYTES + ENTRY_BYTES * i + 24)? as usize } else { 0 };
        let object = blob + header_bytes(get32(bytes, blob)?)?;
        let named = Fid { seq: get64(bytes, object)?, oid: get32(bytes, object + 8)?, ver: 0 };
        ea.layout.owner = if named == fid { Fid::NONE } else { named };
        if !composite {
            ea.layout.components[i].id = get32(bytes, object + 12)? >> 11;
        }
    }
    Ok((ea, fid))
}

/// The FID shown for an object: that of its file, with component and stripe (2,000 at most: 11
/// bits) as version.
pub fn object_fid(file: Fid, instance: u32, stripe: u32) -> Fid {
    Fid { ver: instance << 11 | stripe, ..file }
}

/// Reads a value. An empty one is an empty layout.
///
/// # Errors
/// [`LovEaError`]; allocates no more than `bytes` justifies.
pub fn decode(bytes: &[u8]) -> Result<LovEa, LovEaError> {
    if bytes.is_empty() {
        return Ok(LovEa { layout: Layout::default() });
    }
    if bytes.len() > limits::XATTR_VALUE_BYTES_MAX {
        return Err(LovEaError::Long(bytes.len()));
    }
    if is_composite(get32(bytes, 0)?) {
        return composite(bytes);
    }
    let Blob { component, generation } = blob(bytes)?;
    let layout =
        Layout { generation: generation.into(), components: vec![component], ..Layout::default() };
    Ok(LovEa { layout })
}

fn composite(bytes: &[u8]) -> Result<LovEa, LovEaError> {
    let size = get32(bytes, 4)? as usize;
    if size > bytes.len() {
        return Err(LovEaError::Short(bytes.len()));
    }
    if size < bytes.len() {
        return Err(LovEaError::Long(bytes.len()));
    }
    let generation = get32(bytes, 8)?;
    let entries = usize::from(get16(bytes, 14)?);
    if entries > limits::COMPONENTS_MAX {
        return Err(LovEaError::Field { field: "lcm_entry_count", value: entries as u64 });
    }
    let mirrors = u32::from(get16(bytes, 16)?) + 1;
    if mirrors > 1 {
        return Err(LovEaError::Mirrors(mirrors));
    }
    let mut components = Vec::with_capacity(entries);
    for i in 0..entries {
        let at = COMP_BYTES + ENTRY_BYTES * i;
        let (id, start, end) = (get32(bytes, at)?, get64(bytes, at + 8)?, get64(bytes, at + 16)?);
        let (offset, len) = (get32(bytes, at + 24)? as usize, get32(bytes, at + 28)? as usize);
        let part =
            bytes.get(offset..offset.saturating_add(len)).ok_or(LovEaError::Short(bytes.len()))?;
        let blob = blob(part)?;
        // A specification has no numbers yet: they follow the order.
        let id = if id == 0 { i as u32 + 1 } else { id };
        let extends = get32(bytes, at + 4)? & LCME_FL_EXTENSION != 0;
        let component = Component { id, start, end, ..blob.component };
        components.push(if extends { extension(component)? } else { component });
    }
    Ok(LovEa { layout: Layout { generation, components, ..Layout::default() } })
}

/// The component, as what its flag says it is.
fn extension(c: Component) -> Result<Component, LovEaError> {
    if c.pattern != Pattern::Raid0 || !c.stripes.is_empty() {
        return Err(LovEaError::Field { field: "lcme_flags", value: LCME_FL_EXTENSION.into() });
    }
    // Count, pool and OST in the form belong to the component that grows.
    let (pattern, stripe_count, overstriped) = (Pattern::Extension, 0, false);
    Ok(Component { pattern, stripe_count, overstriped, pool: None, wanted: Vec::new(), ..c })
}

struct Blob {
    component: Component,
    generation: u16,
}

fn header_bytes(magic: u32) -> Result<usize, LovEaError> {
    match magic {
        LOV_MAGIC_V1 => Ok(V1_BYTES),
        LOV_MAGIC_V3 | LOV_MAGIC_SPECIFIC => Ok(V3_BYTES),
        other => Err(LovEaError::Magic(other)),
    }
}

fn blob(bytes: &[u8]) -> Result<Blob, LovEaError> {
    let magic = get32(bytes, 0)?;
    let header = header_bytes(magic)?;
    if bytes.len() < header {
        return Err(LovEaError::Short(bytes.len()));
    }
    let word = get32(bytes, 4)?;
    let pattern = match word & !LOV_PATTERN_OVERSTRIPING {
        // A user without a preference sends 0.
        0 | LOV_PATTERN_RAID0 => Pattern::Raid0,
        LOV_PATTERN_MDT => Pattern::Mdt,
        _ => return Err(LovEaError::Pattern(word)),
    };
    let stripe_size = get32(bytes, 24)?;
    let stripe_count = get16(bytes, 28)?;
    let tail = get16(bytes, 30)?;
    let pool = match bytes[V1_BYTES..header].split(|b| *b == 0).next() {
        None | Some([]) => None,
        Some(name) => {
            Some(std::str::from_utf8(name).ok().and_then(PoolName::new).ok_or(LovEaError::Pool)?)
        }
    };
    let objects = &bytes[header..];
    let stripes = match objects.len() {
        0 => Vec::new(),
        n if n == OBJECT_BYTES * usize::from(stripe_count) => {
            let index = |o: &[u8]| -> Result<TargetIndex, LovEaError> {
                let index = get32(o, 20)?;
                let field = |_| LovEaError::Field { field: "l_ost_idx", value: index.into() };
                u16::try_from(index).map(TargetIndex).map_err(field)
            };
            objects.chunks_exact(OBJECT_BYTES).map(index).collect::<Result<_, _>>()?
        }
        n if n < OBJECT_BYTES * usize::from(stripe_count) => {
            return Err(LovEaError::Short(bytes.len()));
        }
        _ => return Err(LovEaError::Long(bytes.len())),
    };
    let overstriped = word & LOV_PATTERN_OVERSTRIPING != 0;
    let (stripes, wanted) = match magic {
        // It names objects that are still to be created.
        LOV_MAGIC_SPECIFIC if !stripes.is_empty() => (Vec::new(), stripes),
        _ if stripes.is_empty() && tail != OFFSET_ANY && pattern == Pattern::Raid0 => {
            (stripes, vec![TargetIndex(tail)])
        }
        _ => (stripes, Vec::new()),
    };
    let generation = if stripes.is_empty() { 0 } else { tail };
    let (id, start, end) = (1, 0, EOF);
    let component = Component {
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
    };
    Ok(Blob { component, generation })
}

fn put16(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn put64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], LovEaError> {
    let slice = bytes.get(at..at + N).ok_or(LovEaError::Short(bytes.len()))?;
    Ok(slice.try_into().expect("as long as asked for"))
}

fn get16(bytes: &[u8], at: usize) -> Result<u16, LovEaError> {
    get(bytes, at).map(u16::from_le_bytes)
}

fn get32(bytes: &[u8], at: usize) -> Result<u32, LovEaError> {
    get(bytes, at).map(u32::from_le_bytes)
}

fn get64(bytes: &[u8], at: usize) -> Result<u64, LovEaError> {
    get(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
#[path = "lov_ea_tests.rs"]
mod tests;
