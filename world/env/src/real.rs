//! The machine itself.
