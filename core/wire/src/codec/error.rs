//! Why bytes are no message.

/// The bytes are no message that this build understands.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// Ends too early.
    #[error("message ends {missing} bytes too early")]
    Short {
        /// Bytes that are missing.
        missing: usize,
    },
    /// Goes on where it should end.
    #[error("{bytes} bytes too many behind the {what}")]
    Trailing {
        /// What stands there.
        what: &'static str,
        /// Bytes that are left.
        bytes: usize,
    },
    /// An operation of a later version, or none at all.
    #[error("unknown operation {number:#06x}")]
    UnknownOp {
        /// The number.
        number: u16,
    },
    /// An answer of a later version, or none at all.
    #[error("unknown form of answer {number:#06x}")]
    UnknownReply {
        /// The number.
        number: u16,
    },
    /// More than the limit.
    #[error("{found} {what}, at most {max} are allowed")]
    TooMany {
        /// What stands there.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there may be.
        max: usize,
    },
    /// A field holds what it cannot.
    #[error("{field} cannot be {value}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// No name that a directory could hold.
    #[error("bad file name: {0}")]
    Name(types::errno::Errno),
    /// A text is not UTF-8, or not what it should be.
    #[error("bad text in {field}")]
    Text {
        /// Name of the field.
        field: &'static str,
    },
    /// No layout.
    #[error("bad layout: {0}")]
    Layout(#[from] layout::codec::DecodeError),
    /// No body of the MGS.
    #[error("bad MGS message: {0}")]
    Mgs(postcard::Error),
}
