//! What commands say, and how: data, talk, progress, sentences at the end.

pub(crate) mod interactive;
pub(crate) mod outcome;
pub(crate) mod output;
pub(crate) mod progress;
