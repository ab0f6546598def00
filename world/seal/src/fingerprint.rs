//! What names an authority.

use crate::certificate::sha256;
use crate::error::SealError;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::str::FromStr;

/// SHA-256 of the certificate of an authority; as text, hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        Fingerprint(sha256(certificate))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = SealError;

    fn from_str(text: &str) -> Result<Fingerprint, SealError> {
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        let bytes: Option<[u8; 32]> = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Fingerprint).ok_or(SealError::Fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_survives_its_text_and_other_texts_are_none() {
        let one = Fingerprint([0xa7; 32]);
        let text = one.to_string();
        assert_eq!((text.len(), text.parse()), (64, Ok(one)));
        assert_eq!(text.to_uppercase().parse(), Ok(one));
        for other in ["", "a7", &text[1..], &format!("{text}a7"), &text.replace('a', "g")] {
            assert_eq!(other.parse::<Fingerprint>(), Err(SealError::Fingerprint), "{other}");
        }
    }
}
