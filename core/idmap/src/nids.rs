//! Ranges of NIDs in Lustre's words: `10.0.[2-10].[1-255]@tcp`, `*@tcp1`, `10.1.0.0/16@o2ib`,
//! `fd00::/8@tcp`, `0@lo`; several with spaces between them.
//!
//! Each of the four numbers of an address is a number, `*`, or a list in brackets: numbers, ranges
//! `2-10`, and ranges with a step `0-255/2`. Ports do not count, because those of clients are
//! arbitrary. Bounds: [`RANGES_MAX`] ranges, [`TEXT_BYTES_MAX`] bytes, which bounds the lists, too.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use types::net::Net;
use types::nid::Nid;

/// Ranges of one list.
pub const RANGES_MAX: usize = 256;
/// Longest text, bytes.
pub const TEXT_BYTES_MAX: usize = 4096;

/// A list of ranges; the empty one covers no NID.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NidRanges(Vec<NidRange>);

/// One range, and the words it was made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NidRange {
    words: String,
    /// Of `0@lo`: any.
    net: Net,
    covers: Covers,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Covers {
    /// `0@lo`.
    Loopback,
    /// `*@tcp`: all of the network.
    All,
    /// Each number of an IPv4 address on its own.
    Numbers([Numbers; 4]),
    /// Addresses of which so many first bits are these.
    Prefix { of: IpAddr, bits: u32 },
}

/// A set of numbers from 0 to 255.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Numbers([u128; 2]);

/// A text is no list of ranges.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{range:?}: {wrong}")]
pub struct BadRanges {
    /// The range.
    pub range: String,
    /// What is wrong with it.
    pub wrong: Wrong,
}

/// What is wrong with a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wrong {
    /// The text is too long.
    #[error("a list has at most {TEXT_BYTES_MAX} bytes")]
    Long,
    /// There are too many ranges.
    #[error("a list has at most {RANGES_MAX} ranges")]
    Many,
    /// There is no `@`.
    #[error("write ADDRESS@tcp; spaces stand between ranges, and not within one")]
    NoNet,
    /// There is no such network here.
    #[error("networks are lo, tcp, tcp1 to tcp255, o2ib, o2ib1 to o2ib255")]
    Net,
    /// On `lo` there is one address only.
    #[error("the only address of lo is 0")]
    Loopback,
    /// The address has not four numbers, and is no IPv6 address.
    #[error("an address is *, four numbers, ADDRESS/BITS or an IPv6 address; it has no port")]
    Address,
    /// A number is none from 0 to 255.
    #[error("the {0} number is none from 0 to 255, no * and no list such as [1-9,20-30/2]")]
    Number(Place),
    /// A range ends before it begins.
    #[error("the {0} number has a range that ends before it begins")]
    Order(Place),
    /// A step of 0.
    #[error("the {0} number has a step of 0")]
    Step(Place),
    /// More bits than an address has.
    #[error("behind the / stands the number of bits: up to 32, of an IPv6 address up to 128")]
    Bits,
}

/// One of the four numbers of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Leftmost.
    First,
    /// After the first dot.
    Second,
    /// After the second dot.
    Third,
    /// Rightmost.
    Fourth,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::First => "first",
            Place::Second => "second",
            Place::Third => "third",
            Place::Fourth => "fourth",
        })
    }
}

const PLACES: [Place; 4] = [Place::First, Place::Second, Place::Third, Place::Fourth];

impl NidRanges {
    /// True if it covers no NID.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if one of the ranges covers this NID.
    pub fn covers(&self, nid: Nid) -> bool {
        self.0.iter().any(|range| range.covers(nid))
    }
}

/// As it is read again.
impl fmt::Display for NidRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(" ")?;
            }
            f.write_str(&range.words)?;
        }
        Ok(())
    }
}

impl FromStr for NidRanges {
    type Err = BadRanges;

    fn from_str(text: &str) -> Result<NidRanges, BadRanges> {
        let bad = |range: &str, wrong| BadRanges { range: range.to_owned(), wrong };
        if text.len() > TEXT_BYTES_MAX {
            let start: String = text.chars().take(32).collect();
            return Err(bad(&start, Wrong::Long));
        }
        let mut ranges = Vec::new();
        for words in text.split_ascii_whitespace() {
            if ranges.len() == RANGES_MAX {
                return Err(bad(words, Wrong::Many));
            }
            ranges.push(words.parse()?);
        }
        Ok(NidRanges(ranges))
    }
}

impl FromStr for NidRange {
    type Err = BadRanges;

    fn from_str(text: &str) -> Result<NidRange, BadRanges> {
        let bad = |wrong| {
            let range = text.chars().take(80).collect();
            BadRanges { range, wrong }
        };
        if text.len() > TEXT_BYTES_MAX {
            return Err(bad(Wrong::Long));
        }
        let (net, covers) = Covers::parse(text).map_err(bad)?;
        Ok(NidRange { words: text.to_owned(), net, covers })
    }
}

/// As it is read again.
impl fmt::Display for NidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl NidRange {
    /// True if it covers this NID.
    pub fn covers(&self, nid: Nid) -> bool {
        nid.net().is_none_or(|net| net == self.net) && self.covers.has(nid)
    }

    /// How many addresses it covers, as far as that can be counted.
    pub fn addresses(&self) -> u128 {
        match &self.covers {
            Covers::Loopback => 1,
            Covers::All => u128::MAX,
            Covers::Numbers(sets) => sets.iter().map(Numbers::count).product(),
            Covers::Prefix { of, bits } => {
                let all = if of.is_ipv4() { Ipv4Addr::BITS } else { 128 };
                1_u128.checked_shl(all - bits).unwrap_or(u128::MAX)
            }
        }
    }

    /// True if it is `0@lo`.
    pub fn is_loopback(&self) -> bool {
        self.covers == Covers::Loopback
    }

    /// True if there is a NID that both cover.
    pub fn overlaps(&self, other: &NidRange) -> bool {
        let same_net = self.net == other.net || (self.is_loopback() && other.is_loopback());
        same_net && self.covers.overlaps(&other.covers)
    }
}

impl Covers {
    fn overlaps(&self, other: &Covers) -> bool {
        match (self, other) {
            (Covers::Loopback, other) | (other, Covers::Loopback) => *other == Covers::Loopback,
            (Covers::All, _) | (_, Covers::All) => true,
            (Covers::Numbers(a), Covers::Numbers(b)) => a.iter().zip(b).all(|(a, b)| a.meets(b)),
            (Covers::Prefix { of: a, bits: a_bits }, Covers::Prefix { of: b, bits: b_bits }) => {
                let bits = *a_bits.min(b_bits);
                first_bits(*a, bits) == first_bits(*b, bits)
            }
            (Covers::Numbers(sets), Covers::Prefix { of, bits })
            | (Covers::Prefix { of, bits }, Covers::Numbers(sets)) => match of {
                IpAddr::V4(of) => of.octets().into_iter().zip(sets).zip([0, 8, 16, 24]).all(
                    |((octet, set), before)| {
                        let free = 8 - bits.saturating_sub(before).min(8);
                        let first = if free == 8 { 0 } else { octet >> free << free };
                        let last = first | (0xff_u16 >> (8 - free)) as u8;
                        (first..=last).any(|n| set.has(n))
                    },
                ),
                IpAddr::V6(_) => false,
            },
        }
    }

    fn parse(words: &str) -> Result<(Net, Covers), Wrong> {
        let (address, net) = words.rsplit_once('@').ok_or(Wrong::NoNet)?;
        if net == "lo" {
            let loopback = (Net::TCP, Covers::Loopback);
            return if address == "0" { Ok(loopback) } else { Err(Wrong::Loopback) };
        }
        let net = net.parse().map_err(|_| Wrong::Net)?;
        let covers = match address {
            "*" => Covers::All,
            address if is_prefix(address) => prefix(address)?,
            address => Covers::Numbers(numbers(address)?),
        };
        Ok((net, covers))
    }

    fn has(&self, nid: Nid) -> bool {
        let Some(address) = nid.address() else { return *self == Covers::Loopback };
        match (self, address.ip().to_canonical()) {
            (Covers::Loopback, _) => false,
            (Covers::All, _) => true,
            (Covers::Numbers(sets), IpAddr::V4(ip)) => {
                sets.iter().zip(ip.octets()).all(|(set, n)| set.has(n))
            }
            (Covers::Numbers(_), IpAddr::V6(_)) => false,
            (Covers::Prefix { of, bits }, ip) => first_bits(*of, *bits) == first_bits(ip, *bits),
        }
    }
}

/// True if the address is not four numbers: a step in a list has a `/`, too.
fn is_prefix(address: &str) -> bool {
    !address.contains('[') && address.contains([':', '/'])
}

fn prefix(address: &str) -> Result<Covers, Wrong> {
    let (ip, bits) = address.split_once('/').map_or((address, None), |(ip, bits)| (ip, Some(bits)));
    let ip: IpAddr = ip.parse().map_err(|_| Wrong::Address)?;
    let of = ip.to_canonical();
    let all = if of.is_ipv4() { Ipv4Addr::BITS } else { 128 };
    let bits = match bits {
        None => all,
        Some(bits) => decimal(bits).filter(|bits| *bits <= all).ok_or(Wrong::Bits)?,
    };
    Ok(Covers::Prefix { of, bits })
}

/// The first bits of an address, beside whether it is IPv4.
fn first_bits(ip: IpAddr, bits: u32) -> (bool, u128) {
    let (value, all) = match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    };
    (ip.is_ipv4(), value.checked_shr(all - bits).unwrap_or(0))
}

fn numbers(address: &str) -> Result<[Numbers; 4], Wrong> {
    let mut sets = [Numbers([0; 2]); 4];
    let mut parts = address.split('.');
    for (set, place) in sets.iter_mut().zip(PLACES) {
        *set = Numbers::parse(parts.next().ok_or(Wrong::Address)?, place)?;
    }
    if parts.next().is_some() { Err(Wrong::Address) } else { Ok(sets) }
}

impl Numbers {
    fn parse(text: &str, place: Place) -> Result<Numbers, Wrong> {
        let mut set = Numbers([0; 2]);
        match text.strip_prefix('[').map(|rest| rest.strip_suffix(']').ok_or(Wrong::Number(place)))
        {
            None if text == "*" => set.add(0, 255, 1),
            None => {
                let n = number(text, place)?;
                set.add(n, n, 1);
            }
            Some(list) => {
                for item in list?.split(',') {
                    let (ends, step) =
                        item.split_once('/').map_or((item, "1"), |(ends, step)| (ends, step));
                    let (from, to) = ends.split_once('-').unwrap_or((ends, ends));
                    let (from, to, step) =
                        (number(from, place)?, number(to, place)?, number(step, place)?);
                    if from > to {
                        return Err(Wrong::Order(place));
                    }
                    if step == 0 {
                        return Err(Wrong::Step(place));
                    }
                    set.add(from, to, step);
                }
            }
        }
        Ok(set)
    }

    fn add(&mut self, from: u8, to: u8, step: u8) {
        for n in (from..=to).step_by(step.into()) {
            self.0[usize::from(n >> 7)] |= 1 << (n & 127);
        }
    }

    fn has(&self, n: u8) -> bool {
        self.0[usize::from(n >> 7)] & 1 << (n & 127) != 0
    }

    fn count(&self) -> u128 {
        self.0.iter().map(|half| u128::from(half.count_ones())).sum()
    }

    /// True if there is a number in both.
    fn meets(&self, other: &Numbers) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }
}

fn number(text: &str, place: Place) -> Result<u8, Wrong> {
    decimal(text).and_then(|n| u8::try_from(n).ok()).ok_or(Wrong::Number(place))
}

/// Digits only: no sign, no space, no more than three.
fn decimal(text: &str) -> Option<u32> {
    let digits = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn covers(ranges: &str, nid: &str) -> bool {
        ranges.parse::<NidRanges>().unwrap().covers(nid.parse().unwrap())
    }

    #[test]
    fn lustre_s_words_are_understood() {
        assert!(covers("10.0.[2-10].[1-255]@tcp", "10.0.2.1@tcp"));
        assert!(covers("10.0.[2-10].[1-255]@tcp", "10.0.10.255:51234@tcp"));
        assert!(!covers("10.0.[2-10].[1-255]@tcp", "10.0.1.1@tcp"));
        assert!(!covers("10.0.[2-10].[1-255]@tcp", "10.0.2.0@tcp"));
        assert!(covers("192.168.1.[1,7,9-11]@tcp 172.16.245.[0-255/2]@tcp0", "172.16.245.152@tcp"));
        assert!(!covers("192.168.1.[1,7,9-11]@tcp 172.16.245.[0-255/2]@tcp", "172.16.245.153@tcp"));
        assert!(
            covers("10.*.*.3@tcp", "10.200.0.3@tcp") && !covers("10.*.*.3@tcp", "10.200.0.4@tcp")
        );
        assert!(covers("*@tcp", "[fd00::1]:988@tcp") && !covers("*@tcp", "0@lo"));
        assert!(covers("0@lo", "0@lo") && !covers("0@lo", "127.0.0.1@tcp"));
        assert!(
            covers("10.1.0.0/16@tcp", "10.1.255.255@tcp")
                && !covers("10.1.0.0/16@tcp", "10.2.0.0@tcp")
        );
        assert!(
            covers("0.0.0.0/0@tcp", "10.1.2.3@tcp")
                && !covers("0.0.0.0/0@tcp", "[fd00::1]:988@tcp")
        );
        assert!(
            covers("fd00::/8@tcp", "[fdab::1]:1@tcp") && !covers("fd00::/8@tcp", "[fe80::1]:1@tcp")
        );
        assert!(
            covers("fd00::1@tcp", "[fd00::1]:1@tcp") && !covers("fd00::1@tcp", "[fd00::2]:1@tcp")
        );
        // An IPv4 client of a listener that takes both.
        assert!(covers("10.0.0.1@tcp", "[::ffff:10.0.0.1]:5@tcp"));
        assert!(!covers("", "10.0.0.1@tcp") && !covers(" \n", "0@lo"));
    }

    #[test]
    fn errors_say_what_is_wrong_and_where() {
        use Place::{First, Fourth, Second, Third};
        let wrong = |text: &str| text.parse::<NidRanges>().unwrap_err();
        for (text, expected) in [
            ("10.0.0.1", Wrong::NoNet),
            ("10.0.0.1@elan", Wrong::Net),
            ("10.0.0.1@tcp256", Wrong::Net),
            ("1@lo", Wrong::Loopback),
            ("10.0.0@tcp", Wrong::Address),
            ("10.0.0.1.2@tcp", Wrong::Address),
            ("10.0.0.1:988@tcp", Wrong::Address),
            ("10.0.0.1x/8@tcp", Wrong::Address),
            ("256.0.0.1@tcp", Wrong::Number(First)),
            ("10.-1.0.1@tcp", Wrong::Number(Second)),
            ("10.0.[1-@tcp", Wrong::Number(Third)),
            ("10.0.[].1@tcp", Wrong::Number(Third)),
            ("10.0.0.[1-2-3]@tcp", Wrong::Number(Fourth)),
            ("10.0.0.[1,]@tcp", Wrong::Number(Fourth)),
            ("10.0.0.[9-1]@tcp", Wrong::Order(Fourth)),
            ("10.0.0.[1-9/0]@tcp", Wrong::Step(Fourth)),
            ("10.0.0.0/33@tcp", Wrong::Bits),
            ("fd00::/129@tcp", Wrong::Bits),
            ("10.0.0.0/@tcp", Wrong::Bits),
        ] {
            assert_eq!(wrong(text), BadRanges { range: text.to_owned(), wrong: expected });
        }
        let error = wrong("*@tcp 10.0.0.[9-1]@tcp");
        assert_eq!(
            error.to_string(),
            "\"10.0.0.[9-1]@tcp\": the fourth number has a range that ends before it begins"
        );
        assert_eq!(wrong(&"*@tcp ".repeat(RANGES_MAX + 1)).wrong, Wrong::Many);
        assert_eq!(wrong(&"x".repeat(TEXT_BYTES_MAX + 1)).wrong, Wrong::Long);
        assert!("*@tcp ".repeat(RANGES_MAX).parse::<NidRanges>().is_ok());
    }

    /// One number of an address in words, and the same as a function.
    fn words_of_numbers() -> impl Strategy<Value = (String, Vec<u8>)> {
        let item = (any::<u8>(), any::<u8>(), 1..=255_u8, any::<bool>()).prop_map(
            |(a, b, step, stepped)| {
                let (from, to) = (a.min(b), a.max(b));
                let step = if stepped { step } else { 1 };
                let text = match (from == to, step) {
                    (true, 1) => format!("{from}"),
                    (_, 1) => format!("{from}-{to}"),
                    _ => format!("{from}-{to}/{step}"),
                };
                (text, (from..=to).step_by(step.into()).collect::<Vec<u8>>())
            },
        );
        let list = vec(item, 1..4).prop_map(|items| {
            let text: Vec<String> = items.iter().map(|(text, _)| text.clone()).collect();
            (
                format!("[{}]", text.join(",")),
                items.into_iter().flat_map(|(_, numbers)| numbers).collect(),
            )
        });
        prop_oneof![
            any::<u8>().prop_map(|n| (n.to_string(), vec![n])),
            Just(("*".to_owned(), (0..=255).collect())),
            list,
        ]
    }

    #[test]
    fn a_range_is_of_one_network() {
        let ranges = |text: &str| text.parse::<NidRanges>().unwrap();
        let nid = |text: &str| text.parse::<Nid>().unwrap();
        assert!(ranges("10.0.0.*@tcp1").covers(nid("10.0.0.1@tcp1")));
        for other in ["10.0.0.*@tcp", "*@o2ib", "10.0.0.0/24@tcp2"] {
            assert!(!ranges(other).covers(nid("10.0.0.1@tcp1")), "{other}");
        }
        assert!(ranges("*@tcp0").covers(nid("10.0.0.1@tcp")));
        assert!(ranges("0@lo").covers(Nid::Loopback) && !ranges("*@tcp").covers(Nid::Loopback));
        let range = |text: &str| text.parse::<NidRange>().unwrap();
        assert!(!range("*@tcp").overlaps(&range("*@tcp1")));
        assert!(range("*@tcp1").overlaps(&range("10.0.0.1@tcp1")));
    }

    proptest! {
        #[test]
        fn a_range_covers_what_its_words_list(
            parts in vec(words_of_numbers(), 4),
            asked in any::<[u8; 4]>(),
            picked in any::<[prop::sample::Index; 4]>(),
            port in any::<u16>(),
        ) {
            let words: Vec<&str> = parts.iter().map(|(text, _)| text.as_str()).collect();
            let text = format!("{}@tcp", words.join("."));
            let ranges: NidRanges = text.parse().unwrap();
            prop_assert_eq!(ranges.to_string(), text);
            let inside: Vec<u8> = parts.iter().zip(picked).map(|((_, list), at)| *at.get(list)).collect();
            let inside: [u8; 4] = inside.try_into().unwrap();
            for octets in [asked, inside] {
                let listed = parts.iter().zip(octets).all(|((_, list), n)| list.contains(&n));
                prop_assert_eq!(ranges.covers(Nid::Tcp((octets, port).into())), listed);
            }
            prop_assert!(ranges.covers(Nid::Tcp((inside, port).into())));
        }

        #[test]
        fn a_prefix_covers_what_differs_behind_it_only(of in any::<u32>(), bits in 0..=32_u32, flip in 0..32_u32) {
            let ranges: NidRanges = format!("{}/{bits}@tcp", Ipv4Addr::from_bits(of)).parse().unwrap();
            let other = Ipv4Addr::from_bits(of ^ 1 << (31 - flip));
            prop_assert_eq!(ranges.covers(Nid::Tcp((other, 988).into())), flip >= bits);
        }

        #[test]
        fn ranges_overlap_if_a_nid_is_in_both(
            parts in vec(words_of_numbers(), 4),
            of in any::<[u8; 4]>(),
            picked in any::<[prop::sample::Index; 4]>(),
            inside in any::<bool>(),
            bits in 0..=32_u32,
        ) {
            let words: Vec<&str> = parts.iter().map(|(text, _)| text.as_str()).collect();
            let numbers: NidRange = format!("{}@tcp", words.join(".")).parse().unwrap();
            let at: Vec<u8> = parts.iter().zip(picked).map(|((_, list), at)| *at.get(list)).collect();
            let at: [u8; 4] = at.try_into().unwrap();
            let of = Ipv4Addr::from(if inside { at } else { of });
            let prefix: NidRange = format!("{of}/{bits}@tcp").parse().unwrap();
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            // The number of each place that comes nearest to the prefix says whether one fits.
            let fits = parts.iter().zip(of.octets()).zip(mask.to_be_bytes()).all(
                |(((_, list), octet), mask)| list.iter().any(|n| n & mask == octet & mask),
            );
            prop_assert_eq!(numbers.overlaps(&prefix), fits);
            prop_assert_eq!(prefix.overlaps(&numbers), fits);
            let one: NidRange = format!("{}@tcp", Ipv4Addr::from(at)).parse().unwrap();
            prop_assert!(numbers.overlaps(&one) && one.overlaps(&numbers));
            let other: NidRange = format!("{of}@tcp").parse().unwrap();
            prop_assert_eq!(other.overlaps(&numbers), numbers.covers(Nid::Tcp((of, 1).into())));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.*\\[\\]/,@tcplo :a-f-]{0,40}") {
            if let Ok(ranges) = text.parse::<NidRanges>() {
                prop_assert_eq!(ranges.to_string().parse::<NidRanges>(), Ok(ranges));
            }
        }
    }
}
