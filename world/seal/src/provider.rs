//! What rustls works with: ciphers, randomness, and the time.

use env::clock::Clock;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Wall time of the environment.
pub(crate) struct Wall(pub(crate) Arc<dyn Clock>);

impl fmt::Debug for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wall")
    }
}

impl TimeProvider for Wall {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.wall().sec).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// Two ciphers, one way to agree on a key. Randomness is the kernel's.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    }
}
