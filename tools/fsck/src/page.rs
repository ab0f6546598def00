//! Records and objects are read in pages.

/// Objects asked for at once.
pub(crate) const OBJECTS_PER_PAGE: u32 = 4096;
/// Bytes of records asked for at once.
pub(crate) const PAGE_BYTES: u32 = 1 << 20;

/// Some records in order of their keys, and where to go on.
#[derive(Debug, Default)]
pub struct Page {
    /// Key and value.
    pub records: Vec<(Vec<u8>, Vec<u8>)>,
    /// First key that was not read; `None`: that was all.
    pub next: Option<Vec<u8>>,
}

/// The smallest key behind this one.
pub(crate) fn behind(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}
