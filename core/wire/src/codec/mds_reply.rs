//! Answers of a metadata target.

use super::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use super::error::DecodeError;
use super::raw::{
    RawDirEntry, RawEntry, RawFid, RawFlock, RawRemote, RawStatfs, RawTicket, lease_mode,
};
use super::records::{put_records, records};
use crate::mds::peers::{bundles, facts, ids, put_bundles, put_facts, put_ids};
use crate::mds::realm::{children, put_children};
use crate::mds::reply::MdsReply;
use crate::mds::shared::{DirEntry, Entry, Removed};
use crate::opcode::answer;
use layout::layout::Layout;
use std::sync::Arc;
use types::attr::FileType;
use types::errno::Errno;
use types::limits::{
    BUNDLE_BYTES_MAX, EXTENTS_PER_REPLY_MAX, INODES_PER_REPLY_MAX, LAYOUT_BYTES_MAX,
    READDIR_ENTRIES_MAX, RECORDS_PER_SCAN_MAX, TICKETS_PER_OP_MAX, XATTR_VALUE_BYTES_MAX,
};
use types::name::Name;
use types::ranges::ByteRange;
use types::session::{OpenHandle, Transno};
use zerocopy::little_endian::{I32, U32, U64};

fn put_layout(layout: &Layout, w: &mut Writer) {
    w.sized(|out| layout::codec::encode(layout, out));
}

fn layout(r: &mut Reader<'_>) -> Result<Arc<Layout>, DecodeError> {
    Ok(Arc::new(layout::codec::decode(r.bytes("bytes of layout", LAYOUT_BYTES_MAX)?)?))
}

pub(super) fn encode(reply: &MdsReply, w: &mut Writer) {
    match reply {
        MdsReply::Done => w.op(answer::MDS_DONE, 0, |_| ()),
        MdsReply::Entry(entry) => w.op(answer::MDS_ENTRY, 0, |w| w.put(&RawEntry::from(&**entry))),
        MdsReply::Opened { entry, created, handle, layout } => {
            w.op(answer::MDS_OPENED, bits([*created, layout.is_some()]), |w| {
                w.put(&RawEntry::from(&**entry));
                w.put(&U64::new(handle.0));
                layout.iter().for_each(|layout| put_layout(layout, w));
            });
        }
        MdsReply::Attrs(entries) => w.op(answer::MDS_ATTRS, 0, |w| {
            w.put(&len32(entries.len()));
            entries.iter().for_each(|entry| put_attributes(entry.as_ref(), w));
        }),
        MdsReply::Entries { entries, more } => w.op(answer::MDS_ENTRIES, bits([*more]), |w| {
            w.put(&len32(entries.len()));
            entries.iter().for_each(|entry| put_dir_entry(entry, w));
        }),
        MdsReply::Bytes(bytes) => w.op(answer::MDS_BYTES, 0, |w| w.bytes(bytes)),
        MdsReply::Layout(layout) => w.op(answer::MDS_LAYOUT, 0, |w| put_layout(layout, w)),
        MdsReply::Data { entry, data } => w.op(answer::MDS_DATA, 0, |w| {
            w.put(&RawEntry::from(&**entry));
            w.bulk(data);
        }),
        MdsReply::Offset(offset) => w.op(answer::MDS_OFFSET, bits([offset.is_some()]), |w| {
            w.put(&U64::new(offset.unwrap_or(0)));
        }),
        MdsReply::Extents { entry, ranges, write } => {
            w.op(answer::MDS_EXTENTS, bits([*write]), |w| {
                w.put(&RawEntry::from(&**entry));
                w.put(&len32(ranges.len()));
                ranges
                    .iter()
                    .for_each(|range| w.put(&[U64::new(range.start), U64::new(range.end)]));
            })
        }
        MdsReply::Tickets { life, tickets } => w.op(answer::MDS_TICKETS, 0, |w| {
            w.put(&U32::new(*life));
            w.put(&len32(tickets.len()));
            for ticket in tickets {
                w.put(&I32::new(ticket.as_ref().map_or_else(|errno| errno.0, |_| 0)));
                ticket.iter().for_each(|ticket| w.put(&RawTicket::from(ticket)));
            }
        }),
        MdsReply::Remote { fid, file_type } => w.op(answer::MDS_REMOTE, 0, |w| {
            w.put(&RawRemote { fid: (*fid).into(), file_type: *file_type as u8, zero: [0; 3] });
        }),
        MdsReply::Root { fid, walked, fileset, is_root, read_only } => {
            w.op(answer::MDS_ROOT, bits([*is_root, *read_only]), |w| {
                w.put(&RawFid::from(*fid));
                w.put(&[U32::new(*walked), U32::new(*fileset)]);
            })
        }
        MdsReply::Granted { more, paid } => w.op(answer::MDS_GRANTED, 0, |w| {
            w.put(&[U64::new(*more), U64::new(*paid)]);
        }),
        MdsReply::PeerFids(seq) => w.op(answer::MDS_PEER_FIDS, 0, |w| w.put(&U64::new(*seq))),
        MdsReply::PeerPrepared { boot, facts } => w.op(answer::MDS_PEER_PREPARED, 0, |w| {
            w.put(&U64::new(*boot));
            put_facts(facts, w);
        }),
        MdsReply::PeerTold { boot, applied } => {
            w.op(answer::MDS_PEER_TOLD, bits([applied.is_some()]), |w| {
                w.put(&U64::new(*boot));
                applied.iter().for_each(|record| w.bytes(record));
            })
        }
        MdsReply::PeerMarked { marked, parent, children, more } => {
            w.op(answer::MDS_PEER_MARKED, bits([more.is_some()]), |w| {
                w.put(&U32::new(*marked));
                w.put(&RawFid::from(*parent));
                put_children(children, w);
                more.iter().for_each(|name| w.name(name));
            })
        }
        MdsReply::PeerApplied { boot, transno } => w.op(answer::MDS_PEER_APPLIED, 0, |w| {
            w.put(&[U64::new(*boot), U64::new(transno.0)]);
        }),
        MdsReply::PeerRefused { boot, errno } => w.op(answer::MDS_PEER_REFUSED, 0, |w| {
            w.put(&U64::new(*boot));
            w.put(&I32::new(errno.0));
        }),
        MdsReply::PeerDone { boot, committed } => w.op(answer::MDS_PEER_DONE, 0, |w| {
            w.put(&[U64::new(*boot), U64::new(committed.0)]);
        }),
        MdsReply::PeerBundles { boot, bundles, stopped, more } => {
            w.op(answer::MDS_PEER_BUNDLES, bits([*more]), |w| {
                w.put(&U64::new(*boot));
                put_bundles(bundles, w);
                put_ids(stopped, w);
            })
        }
        MdsReply::Removed(removed) => w.op(answer::MDS_REMOVED, 0, |w| {
            w.put(&RawFid::from(removed.fid));
            w.put(&U32::new(removed.nlink));
        }),
        MdsReply::Statfs(statfs) => {
            w.op(answer::MDS_STATFS, 0, |w| w.put(&RawStatfs::from(statfs)))
        }
        MdsReply::Flock(lock) => w.op(answer::MDS_FLOCK, bits([lock.is_some()]), |w| {
            lock.iter().for_each(|lock| w.put(&RawFlock::from(lock)));
        }),
        MdsReply::Lease(mode) => {
            w.op(answer::MDS_LEASE, 0, |w| w.put(&U32::new(mode.map_or(0, |mode| mode as u32))))
        }
        MdsReply::Records { records, more } => {
            w.op(answer::MDS_RECORDS, bits([*more]), |w| put_records(records, w))
        }
    }
}

pub(super) fn put_attributes(entry: Option<&Entry>, w: &mut Writer) {
    w.put(&U32::new(entry.is_some().into()));
    entry.iter().for_each(|entry| w.put(&RawEntry::from(*entry)));
}

pub(super) fn put_dir_entry(entry: &DirEntry, w: &mut Writer) {
    w.put(&RawDirEntry {
        fid: entry.fid.into(),
        file_type: entry.file_type as u8,
        flags: bits([entry.entry.is_some(), entry.layout.is_some()]) as u8, // two bits
        name_len: (entry.name.as_bytes().len() as u16).into(),              // at most 255
    });
    w.put(entry.name.as_bytes());
    entry.entry.iter().for_each(|entry| w.put(&RawEntry::from(entry)));
    entry.layout.iter().for_each(|layout| put_layout(layout, w));
}

pub(super) fn dir_entry(r: &mut Reader<'_>) -> Result<DirEntry, DecodeError> {
    let raw: &RawDirEntry = r.get()?;
    let [has_entry, has_layout] = unpack("directory entry flags", raw.flags.into())?;
    let file_type = file_type(raw.file_type)?;
    let name = Name::new(r.take(raw.name_len.get().into())?).map_err(DecodeError::Name)?;
    let entry = if has_entry { Some(r.get::<RawEntry>()?.decode()?) } else { None };
    let layout = if has_layout { Some(layout(r)?) } else { None };
    Ok(DirEntry { name, fid: (&raw.fid).into(), file_type, entry, layout })
}

fn file_type(raw: u8) -> Result<FileType, DecodeError> {
    FileType::from_dtype(raw).ok_or(DecodeError::Field { field: "file type", value: raw.into() })
}

fn maybe_entry(r: &mut Reader<'_>) -> Result<Option<Entry>, DecodeError> {
    match r.get::<U32>()?.get() {
        0 => Ok(None),
        1 => Ok(Some(r.get::<RawEntry>()?.decode()?)),
        other => Err(DecodeError::Field { field: "presence of attributes", value: other.into() }),
    }
}

pub(super) fn decode(
    number: u16,
    flags: u16,
    r: &mut Reader<'_>,
    bulk: &mut Bulk,
) -> Result<MdsReply, DecodeError> {
    const FLAGS: &str = "MDS answer flags";
    let have_flags = [
        answer::MDS_OPENED,
        answer::MDS_ENTRIES,
        answer::MDS_FLOCK,
        answer::MDS_RECORDS,
        answer::MDS_OFFSET,
        answer::MDS_EXTENTS,
        answer::MDS_PEER_BUNDLES,
        answer::MDS_PEER_TOLD,
        answer::MDS_PEER_MARKED,
        answer::MDS_ROOT,
    ];
    if !have_flags.contains(&number) {
        let [] = unpack(FLAGS, flags)?;
    }
    Ok(match number {
        answer::MDS_DONE => MdsReply::Done,
        answer::MDS_ENTRY => MdsReply::Entry(Box::new(r.get::<RawEntry>()?.decode()?)),
        answer::MDS_OPENED => {
            let [created, has_layout] = unpack(FLAGS, flags)?;
            let entry = Box::new(r.get::<RawEntry>()?.decode()?);
            let handle = OpenHandle(r.get::<U64>()?.get());
            let layout = if has_layout { Some(layout(r)?) } else { None };
            MdsReply::Opened { entry, created, handle, layout }
        }
        answer::MDS_ATTRS => {
            let n = count(*r.get()?, "attributes", INODES_PER_REPLY_MAX)?;
            r.expect(n, size_of::<U32>())?;
            let mut entries = Vec::with_capacity(n);
            for _ in 0..n {
                entries.push(maybe_entry(r)?);
            }
            MdsReply::Attrs(entries)
        }
        answer::MDS_ENTRIES => {
            let [more] = unpack(FLAGS, flags)?;
            let n = count(*r.get()?, "directory entries", READDIR_ENTRIES_MAX)?;
            r.expect(n, size_of::<RawDirEntry>())?;
            let mut entries = Vec::with_capacity(n);
            for _ in 0..n {
                entries.push(dir_entry(r)?);
            }
            MdsReply::Entries { entries, more }
        }
        answer::MDS_BYTES => MdsReply::Bytes(r.copied("bytes of value", XATTR_VALUE_BYTES_MAX)?),
        answer::MDS_LAYOUT => MdsReply::Layout(layout(r)?),
        answer::MDS_DATA => {
            let entry = Box::new(r.get::<RawEntry>()?.decode()?);
            MdsReply::Data { entry, data: r.bulk(bulk)? }
        }
        answer::MDS_OFFSET => {
            let [found] = unpack(FLAGS, flags)?;
            let offset = r.get::<U64>()?.get();
            MdsReply::Offset(found.then_some(offset))
        }
        answer::MDS_EXTENTS => {
            let [write] = unpack(FLAGS, flags)?;
            let entry = Box::new(r.get::<RawEntry>()?.decode()?);
            let n = count(*r.get()?, "extents", EXTENTS_PER_REPLY_MAX)?;
            let ranges = r
                .slice_of::<[U64; 2]>(n)?
                .iter()
                .map(|[start, end]| ByteRange::new(start.get(), end.get()));
            MdsReply::Extents { entry, ranges: ranges.collect(), write }
        }
        answer::MDS_REMOTE => {
            let raw: &RawRemote = r.get()?;
            MdsReply::Remote { fid: (&raw.fid).into(), file_type: file_type(raw.file_type)? }
        }
        answer::MDS_ROOT => {
            let [is_root, read_only] = unpack(FLAGS, flags)?;
            let fid = r.get::<RawFid>()?.into();
            let [walked, fileset] = r.get::<[U32; 2]>()?.map(U32::get);
            MdsReply::Root { fid, walked, fileset, is_root, read_only }
        }
        answer::MDS_TICKETS => {
            let life = r.get::<U32>()?.get();
            let n = count(*r.get()?, "tickets", TICKETS_PER_OP_MAX)?;
            r.expect(n, size_of::<I32>())?;
            let mut tickets = Vec::with_capacity(n);
            for _ in 0..n {
                tickets.push(match r.get::<I32>()?.get() {
                    0 => Ok(r.get::<RawTicket>()?.decode()?),
                    errno => Err(Errno(errno)),
                });
            }
            MdsReply::Tickets { life, tickets }
        }
        answer::MDS_REMOVED => MdsReply::Removed(Removed {
            fid: r.get::<RawFid>()?.into(),
            nlink: r.get::<U32>()?.get(),
        }),
        answer::MDS_STATFS => MdsReply::Statfs(r.get::<RawStatfs>()?.into()),
        answer::MDS_FLOCK => {
            let [held] = unpack(FLAGS, flags)?;
            MdsReply::Flock(if held { Some(r.get::<RawFlock>()?.decode()?) } else { None })
        }
        answer::MDS_LEASE => MdsReply::Lease(match r.get::<U32>()?.get() {
            0 => None,
            mode => Some(lease_mode(mode)?),
        }),
        answer::MDS_RECORDS => {
            let [more] = unpack(FLAGS, flags)?;
            MdsReply::Records { records: records(r, RECORDS_PER_SCAN_MAX)?, more }
        }
        answer::MDS_GRANTED => {
            let [more, paid] = r.get::<[U64; 2]>()?.map(U64::get);
            MdsReply::Granted { more, paid }
        }
        answer::MDS_PEER_FIDS => MdsReply::PeerFids(r.get::<U64>()?.get()),
        answer::MDS_PEER_PREPARED => {
            let boot = r.get::<U64>()?.get();
            MdsReply::PeerPrepared { boot, facts: facts(r)? }
        }
        answer::MDS_PEER_TOLD => {
            let [has] = unpack(FLAGS, flags)?;
            let boot = r.get::<U64>()?.get();
            let applied = match has {
                true => Some(r.copied("bytes of bundle", BUNDLE_BYTES_MAX)?),
                false => None,
            };
            MdsReply::PeerTold { boot, applied }
        }
        answer::MDS_PEER_MARKED => {
            let [goes_on] = unpack(FLAGS, flags)?;
            let (marked, parent) = (r.get::<U32>()?.get(), r.get::<RawFid>()?.into());
            let children = children(r)?;
            let more = if goes_on { Some(r.name()?) } else { None };
            MdsReply::PeerMarked { marked, parent, children, more }
        }
        answer::MDS_PEER_APPLIED => {
            let [boot, transno] = r.get::<[U64; 2]>()?.map(U64::get);
            MdsReply::PeerApplied { boot, transno: Transno(transno) }
        }
        answer::MDS_PEER_REFUSED => {
            let boot = r.get::<U64>()?.get();
            MdsReply::PeerRefused { boot, errno: Errno(r.get::<I32>()?.get()) }
        }
        answer::MDS_PEER_DONE => {
            let [boot, committed] = r.get::<[U64; 2]>()?.map(U64::get);
            MdsReply::PeerDone { boot, committed: Transno(committed) }
        }
        answer::MDS_PEER_BUNDLES => {
            let [more] = unpack(FLAGS, flags)?;
            let boot = r.get::<U64>()?.get();
            let bundles = bundles(r)?;
            MdsReply::PeerBundles { boot, bundles, stopped: ids(r)?, more }
        }
        number => return Err(DecodeError::UnknownReply { number }),
    })
}
