//! Why bytes are no message.

/// The bytes are no message that this build understands.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// Ends too early.
    #[error("message ends {missing} bytes too early")]
    Short { missing: usize },
    /// Goes on where it should end.
    #[error("{bytes} bytes too many behind the {what}")]
    Trailing { what: &'static str, bytes: usize },
    /// An operation of a later version, or none at all.
    #[error("unknown operation {number:#06x}")]
    UnknownOp { number: u16 },
    /// An answer of a later version, or none at all.
    #[error("unknown form of answer {number:#06x}")]
    UnknownReply { number: u16 },
    /// More than the limit.
    #[error("{found} {what}, at most {max} are allowed")]
    TooMany { what: &'static str, found: u64, max: usize },
    /// A field holds what it cannot.
    #[error("{field} cannot be {value}")]
    Field { field: &'static str, value: u64 },
    /// No name that a directory could hold.
    #[error("bad file name: {0}")]
    Name(types::errno::Errno),
    /// A text is not UTF-8, or not what it should be.
    #[error("bad text in {field}")]
    Text { field: &'static str },
    /// No layout.
    #[error("bad layout: {0}")]
    Layout(#[from] layout::codec::DecodeError),
    /// No body of the MGS.
    #[error("bad MGS message: {0}")]
    Mgs(postcard::Error),
}
