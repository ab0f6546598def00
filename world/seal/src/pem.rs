//! Keys and certificates as text.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Letters of one line.
const LINE: usize = 64;

/// The text of a DER value.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let mut letters = String::with_capacity(der.len().div_ceil(3) * 4);
    for part in der.chunks(3) {
        let word = part.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - part.len()));
        for at in 0..4 {
            letters.push(if at > part.len() {
                '='
            } else {
                LETTERS[(word >> (18 - 6 * at) & 63) as usize] as char
            });
        }
    }
    let mut text = format!("-----BEGIN {label}-----\n");
    for at in (0..letters.len()).step_by(LINE) {
        text += &letters[at..letters.len().min(at + LINE)];
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn others_can_read_it() {
        for bytes in 0..200_u8 {
            let der: Vec<u8> = (0..bytes).map(|byte| byte.wrapping_mul(37)).collect();
            let text = encode("CERTIFICATE", &der);
            assert_eq!(CertificateDer::from_pem_slice(text.as_bytes()).unwrap().as_ref(), der);
            assert!(text.lines().all(|line| line.len() <= LINE));
        }
    }
}
