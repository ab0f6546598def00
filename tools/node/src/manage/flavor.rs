//! Security flavours in Lustre's words (`srpc.flavor`).
//!
//! Here the keys of a cluster decide: a process with a key takes and makes sealed connections only,
//! which is `skpi`, one without a key plain ones only, `null`. So a flavour changes nothing. It is
//! kept and listed if it asks for no more and no less than what is so anyway.

use types::errno::Errno;
use types::net::Net;

/// Names of the parameter.
pub const PREFIX: &str = "srpc.flavor.";
/// Lustre's directions.
const DIRECTIONS: [&str; 4] = ["cli2mdt", "cli2ost", "mdt2mdt", "mdt2ost"];

/// The flavour of all connections.
pub fn holds(secured: bool) -> &'static str {
    if secured { "skpi" } else { "null" }
}

/// Whether a flavour can be kept under this name of the parameter.
///
/// # Errors
/// It cannot: an errno, and a sentence.
pub fn check(name: &str, value: &str, secured: bool) -> Result<(), (Errno, String)> {
    let refused = |errno, why: String| Err((errno, why));
    let mut levels = name.strip_prefix(PREFIX).unwrap_or_default().split('.');
    let net = levels.next().unwrap_or_default();
    let direction = levels.next();
    let known = (net == "default" || net.parse::<Net>().is_ok())
        && direction.is_none_or(|word| DIRECTIONS.contains(&word))
        && levels.next().is_none();
    if !known {
        let why = "a flavour is of `default` or a network, and of cli2mdt, cli2ost, mdt2mdt or mdt2ost behind that";
        return refused(Errno::EINVAL, format!("{name}: {why}"));
    }
    match (value, secured) {
        // What asks for less than encryption gets it.
        ("skpi" | "ski" | "ska" | "skn", true) | ("null", false) => Ok(()),
        ("skpi" | "ski" | "ska" | "skn", false) => refused(
            Errno::EOPNOTSUPP,
            format!(
                "{value}: this cluster has no keys: `sheen auth init` where the MGS is makes them"
            ),
        ),
        ("null" | "plain", true) => refused(
            Errno::EOPNOTSUPP,
            format!(
                "{value}: this cluster has keys, and every connection must show one: start all its daemons with security = \"off\""
            ),
        ),
        ("plain", false) => refused(
            Errno::EOPNOTSUPP,
            "plain: checksums are set with osc.*.checksums; without keys the flavour is null"
                .to_owned(),
        ),
        ("krb5n" | "krb5a" | "krb5i" | "krb5p" | "gssnull", _) => refused(
            Errno::EOPNOTSUPP,
            format!(
                "{value}: there is no Kerberos here: hosts have keys of the cluster (`sheen auth`), which is skpi"
            ),
        ),
        _ => refused(
            Errno::EINVAL,
            format!("{value:?} is no flavour; flavours are null, skn, ska, ski, skpi"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_to_the_keys_is_taken_and_nothing_else() {
        let errno = |name: &str, value: &str, secured| {
            check(&format!("{PREFIX}{name}"), value, secured).map_err(|(errno, _)| errno)
        };
        for name in ["default", "tcp1", "o2ib.cli2mdt", "default.mdt2ost"] {
            assert_eq!(errno(name, "skpi", true), Ok(()), "{name}");
            assert_eq!(errno(name, "null", false), Ok(()), "{name}");
        }
        for value in ["skn", "ska", "ski"] {
            assert_eq!(errno("default", value, true), Ok(()), "{value}: at least");
            assert_eq!(errno("default", value, false), Err(Errno::EOPNOTSUPP), "{value}");
        }
        for (value, secured) in
            [("null", true), ("krb5p", true), ("gssnull", false), ("plain", false)]
        {
            assert_eq!(errno("default", value, secured), Err(Errno::EOPNOTSUPP), "{value}");
        }
        for (name, value) in [
            ("default", "tls"),
            ("lnet", "skpi"),
            ("tcp.mdt2cli", "skpi"),
            ("tcp.mdt2mdt.x", "skpi"),
        ] {
            assert_eq!(errno(name, value, true), Err(Errno::EINVAL), "{name} {value}");
        }
        assert_eq!((holds(true), holds(false)), ("skpi", "null"));
    }
}
