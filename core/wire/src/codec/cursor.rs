//! Writing and reading bytes in order. The reader is the one place that decides whether bytes are
//! there.

use super::error::DecodeError;
use super::raw::OpHeader;
use bytes::Bytes;
use types::limits::BULK_BYTES_MAX;
use types::name::Name;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A message ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Encoded {
    /// Head and operations.
    pub body: Bytes,
    /// Data of writes or reads, in the order of the operations; none of them empty.
    pub bulk: Vec<Bytes>,
}

impl Encoded {
    /// Bytes of the bulk data together.
    pub fn bulk_bytes(&self) -> usize {
        self.bulk.iter().map(Bytes::len).sum()
    }
}

/// A length for the wire.
///
/// # Panics
/// Beyond 4 GiB: our own bug, every limit is far below.
pub(crate) fn len32(len: usize) -> U32 {
    U32::new(u32::try_from(len).expect("limits keep lengths far below 4 GiB"))
}

/// A count from the wire, checked.
pub(crate) fn count(n: U32, what: &'static str, max: usize) -> Result<usize, DecodeError> {
    match usize::try_from(n.get()) {
        Ok(n) if n <= max => Ok(n),
        _ => Err(DecodeError::TooMany { what, found: n.get().into(), max }),
    }
}

/// Flags to a number, the first one lowest.
pub(crate) fn bits<const N: usize>(flags: [bool; N]) -> u16 {
    const { assert!(N <= 16) };
    flags.iter().enumerate().fold(0, |all, (n, flag)| all | (u16::from(*flag) << n))
}

/// Reverse of [`bits`]; refuses flags it does not know.
pub(crate) fn unpack<const N: usize>(
    field: &'static str,
    flags: u16,
) -> Result<[bool; N], DecodeError> {
    const { assert!(N <= 15) };
    if flags >> N != 0 {
        return Err(DecodeError::Field { field, value: flags.into() });
    }
    Ok(std::array::from_fn(|n| flags >> n & 1 != 0))
}

/// An operation or result that is being written.
pub(crate) struct BegunOp {
    at: usize,
    header: OpHeader,
}

/// Collects a message.
pub(crate) struct Writer {
    body: Vec<u8>,
    bulk: Vec<Bytes>,
}

impl Writer {
    pub fn new(capacity: usize) -> Writer {
        Writer { body: Vec::with_capacity(capacity), bulk: Vec::new() }
    }

    pub fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, raw: &T) {
        self.body.extend_from_slice(raw.as_bytes());
    }

    /// Length in 2 bytes, then the name.
    pub fn name(&mut self, name: &Name) {
        self.put(&U16::new(name.as_bytes().len() as u16)); // at most 255
        self.body.extend_from_slice(name);
    }

    /// Length in 4 bytes, then the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.put(&len32(bytes.len()));
        self.body.extend_from_slice(bytes);
    }

    /// The bytes, without their length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    /// Length in 4 bytes, then what `write` appends.
    pub fn sized(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.body.len();
        self.put(&U32::ZERO);
        write(&mut self.body);
        let len = len32(self.body.len() - at - size_of::<U32>());
        self.body[at..at + size_of::<U32>()].copy_from_slice(len.as_bytes());
    }

    /// Length in 4 bytes here, the data itself behind the body.
    pub fn bulk(&mut self, data: &Bytes) {
        self.put(&len32(data.len()));
        if !data.is_empty() {
            self.bulk.push(data.clone());
        }
    }

    /// Zeros up to a multiple of 8.
    pub fn pad(&mut self) {
        self.body.resize(self.body.len().next_multiple_of(8), 0);
    }

    /// One operation or result: header, what `write` writes, padding.
    pub fn op(&mut self, number: u16, flags: u16, write: impl FnOnce(&mut Writer)) {
        let begun = self.begin_op(number, flags);
        write(self);
        self.end_op(begun);
    }

    /// Header of an operation or result; [`Writer::end_op`] is to follow.
    pub fn begin_op(&mut self, number: u16, flags: u16) -> BegunOp {
        let at = self.body.len();
        let header = OpHeader { number: number.into(), flags: flags.into(), bytes: U32::ZERO };
        self.put(&header);
        BegunOp { at, header }
    }

    /// All of it is written.
    pub fn end_op(&mut self, BegunOp { at, mut header }: BegunOp) {
        header.bytes = len32(self.body.len() - at - size_of::<OpHeader>());
        self.body[at..at + size_of::<OpHeader>()].copy_from_slice(header.as_bytes());
        self.pad();
    }

    /// Makes room for so many more bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.body.reserve(bytes);
    }

    pub fn finish(self) -> Encoded {
        Encoded { body: self.body.into(), bulk: self.bulk }
    }
}

/// Reads a body from front to back.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Reader<'a> {
    pub fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { rest: body, len: body.len() }
    }

    /// Are at least `count` elements of `each` bytes left? Asked before memory is taken for them.
    pub fn expect(&self, count: usize, each: usize) -> Result<(), DecodeError> {
        match count.saturating_mul(each).checked_sub(self.rest.len()) {
            None | Some(0) => Ok(()),
            Some(missing) => Err(DecodeError::Short { missing }),
        }
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        self.expect(len, 1)?;
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(taken)
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub fn get<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &mut self,
    ) -> Result<&'a T, DecodeError> {
        let bytes = self.take(size_of::<T>())?;
        T::ref_from_bytes(bytes).map_err(|_| DecodeError::Short { missing: 0 })
    }

    pub fn slice_of<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &mut self,
        count: usize,
    ) -> Result<&'a [T], DecodeError> {
        self.expect(count, size_of::<T>())?;
        let bytes = self.take(count * size_of::<T>())?;
        <[T]>::ref_from_bytes(bytes).map_err(|_| DecodeError::Short { missing: 0 })
    }

    pub fn name(&mut self) -> Result<Name, DecodeError> {
        let len = self.get::<U16>()?.get();
        Name::new(self.take(len.into())?).map_err(DecodeError::Name)
    }

    /// Length in 4 bytes, then the bytes; at most `max`.
    pub fn bytes(&mut self, what: &'static str, max: usize) -> Result<&'a [u8], DecodeError> {
        let len = count(*self.get::<U32>()?, what, max)?;
        self.take(len)
    }

    /// As [`Reader::bytes`], copied: small values must not keep a whole message in memory.
    pub fn copied(&mut self, what: &'static str, max: usize) -> Result<Bytes, DecodeError> {
        self.bytes(what, max).map(Bytes::copy_from_slice)
    }

    /// Length in 4 bytes here, the data from the bulk.
    pub fn bulk(&mut self, bulk: &mut Bulk) -> Result<Bytes, DecodeError> {
        bulk.take(count(*self.get::<U32>()?, "bytes of data", BULK_BYTES_MAX)?)
    }

    /// The rest of the current 8 bytes.
    pub fn skip_pad(&mut self) -> Result<(), DecodeError> {
        let done = self.len - self.rest.len();
        self.take(done.next_multiple_of(8) - done).map(|_| ())
    }

    /// Header and body of the next operation or result.
    pub fn op(&mut self) -> Result<(OpHeader, Reader<'a>), DecodeError> {
        let header: OpHeader = *self.get()?;
        let len = usize::try_from(header.bytes.get()).unwrap_or(usize::MAX);
        let body = self.take(len)?;
        self.skip_pad()?;
        Ok((header, Reader::new(body)))
    }

    /// Is nothing left?
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Nothing may be left.
    pub fn finish(&self, what: &'static str) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { what, bytes }),
        }
    }
}

/// The data behind a body, handed out in order without copying.
pub(crate) struct Bulk(Bytes);

impl Bulk {
    pub fn new(bulk: Bytes) -> Bulk {
        Bulk(bulk)
    }

    fn take(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        match len.checked_sub(self.0.len()) {
            None | Some(0) => Ok(self.0.split_to(len)),
            Some(missing) => Err(DecodeError::Short { missing }),
        }
    }

    /// Nothing may be left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.0.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { what: "data", bytes }),
        }
    }
}
