//! What a node is to do: settings, options and words that people write.

pub mod client_file;
pub mod format;
pub mod http_settings;
pub mod mount_options;
pub mod mount_source;
pub mod networks;
pub mod plan;
pub mod security;
pub mod settings;
pub mod units;
