use super::*;

fn stripes(hash: DirHash, count: u16) -> DirStripes {
    let fid =
        |mdt: u16| Fid { seq: Fid::SEQ_NORMAL + u64::from(mdt) * Fid::SEQ_WIDTH, oid: 7, ver: 0 };
    DirStripes::new(hash, (0..count).map(fid).collect()).unwrap()
}

/// The fullest stripe to the mean.
fn fullest(hash: DirHash, count: u16, names: u32) -> f64 {
    let stripes = stripes(hash, count);
    let mut taken = vec![0u32; count.into()];
    for n in 0..names {
        let at = stripes.place(format!("file.mdtest.{}.{}", n % 168, n / 168).as_bytes());
        taken[usize::from(at.mdt())] += 1;
    }
    f64::from(*taken.iter().max().unwrap()) * f64::from(count) / f64::from(names)
}

#[test]
fn names_are_spread_evenly() {
    for (count, most) in [(2, 1.01), (4, 1.02), (16, 1.03), (38, 1.05), (128, 1.15)] {
        for hash in [DirHash::Crush, DirHash::Fnv1a64] {
            let fullest = fullest(hash, count, 200_000);
            println!("{hash} {count}: {fullest:.3}");
            assert!(fullest < most, "{hash} over {count}: {fullest}");
        }
    }
}

#[test]
fn groups_are_dealt_out_evenly_and_stay_where_they_are() {
    for count in [2, 4, 16, 37] {
        let (few, more) = (deal(count), deal(count + 1));
        let mut taken = vec![0usize; count];
        few.iter().for_each(|stripe| taken[usize::from(*stripe)] += 1);
        assert!(taken.iter().all(|n| *n <= GROUPS.div_ceil(count)));
        let moved = few.iter().zip(more.iter()).filter(|(a, b)| a != b).count();
        assert!(moved < 2 * GROUPS / (count + 1), "{moved} groups move from {count}");
    }
}

/// Names that exist are found where they are only if this never changes.
#[test]
fn the_place_of_a_name_never_changes() {
    let at = |hash, count, name: &[u8]| place(hash, count, name);
    let names: [&[u8]; 4] = [b"a", b"file.1", b".profile", "caf\u{e9}".as_bytes()];
    let all = |hash, count| names.map(|name| at(hash, count, name));
    assert_eq!(all(DirHash::AllChar, 4), [1, 3, 3, 2]);
    assert_eq!(fnv_1a_64(b"a"), 0xaf63_dc4c_8601_ec8c, "as published");
    assert_eq!(all(DirHash::Fnv1a64, 4), FNV);
    assert_eq!(all(DirHash::Crush, 4), CRUSH_4);
    assert_eq!(all(DirHash::Crush, 38), CRUSH_38);
    let sum = |count| table(count).iter().zip(1u64..).map(|(s, n)| u64::from(*s) * n).sum::<u64>();
    assert_eq!([2, 4, 16, 38, 128].map(sum), SUMS);
}
const FNV: [usize; 4] = [0, 2, 2, 1];
const CRUSH_4: [usize; 4] = [0, 2, 2, 3];
const CRUSH_38: [usize; 4] = [4, 18, 9, 29];
const SUMS: [u64; 5] = [4_180_182, 12_576_981, 62_575_021, 155_188_090, 532_223_777];

#[test]
fn a_temporary_name_is_with_its_lasting_one() {
    for (name, stem) in [(".a.Xy3z45", "a"), (".core.c.aB3dEf", "core.c")] {
        assert_eq!(lasting(name.as_bytes()), stem.as_bytes());
    }
    for name in [
        "a.Xy3z45",
        ".Xy3z45",
        "..Xy3z45",
        ".a.123456",
        ".a.backup",
        ".a.BACKUP",
        ".a.Xy3z4",
        ".a.Xy3z4_",
    ] {
        assert_eq!(lasting(name.as_bytes()), name.as_bytes(), "{name}");
    }
}

#[test]
fn stripes_are_read_again() {
    let four = stripes(DirHash::Crush, 4);
    let bytes = four.encode();
    assert_eq!(DirStripes::decode(&bytes), Ok(four.clone()));
    (0..bytes.len()).for_each(|len| assert!(DirStripes::decode(&bytes[..len]).is_err()));
    let flip = |at: usize, byte: u8| {
        let mut bad = bytes.clone();
        bad[at] = byte;
        DirStripes::decode(&bad).unwrap_err().0
    };
    assert_eq!([flip(0, 4), flip(1, 4), flip(2, 3)], ["version", "hash", "length"]);
    assert_eq!([flip(8, 5), flip(8, 0)], ["stripes in use"; 2]);
    assert_eq!([flip(4, 0), flip(7, 64)], ["generation"; 2]);
    assert_eq!([flip(10, 3), flip(12, 1), flip(14, 1)], ["what moves", "what moves", "length"]);
    let grown = four.clone().by_itself();
    assert_eq!(DirStripes::decode(&grown.encode()), Ok(grown.clone()));
    let merges = grown.restriped(DirHash::Crush, 1, Vec::new()).unwrap();
    assert_eq!([grown.is_by_itself(), merges.is_by_itself()], [true, false]);
    assert!(merges.by_itself().passed(None).is_by_itself());
    let mut first = vec![1, DirHash::Crush as u8, 4, 0];
    four.all().iter().for_each(|fid| first.extend_from_slice(&fid.to_be_bytes()));
    assert_eq!(DirStripes::decode(&first), Ok(four.clone()), "of the first version");
    let twice = vec![four.master(), four.master()];
    assert_eq!(DirStripes::new(DirHash::Crush, twice), Err(BadDirStripes("an MDT twice")));
    assert!(DirStripes::new(DirHash::Crush, Vec::new()).is_err());
    let one = DirStripes::new(DirHash::Crush, vec![four.master()]).unwrap();
    assert_eq!(DirStripes::decode(&one.encode()), Ok(one));
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

#[test]
fn each_name_has_one_place_while_names_move() {
    let four = stripes(DirHash::Crush, 4);
    let all: Vec<Name> = (0..500).map(|n| name(&format!("file.{n:03}"))).collect();
    let one = DirStripes::split(four.master(), DirHash::Crush, four.shards().to_vec()).unwrap();
    let two = four.restriped(DirHash::Fnv1a64, 2, Vec::new()).unwrap();
    assert_eq!((one.generation(), two.generation()), (1, 2));
    assert_eq!([one.in_use().len(), two.in_use().len()], [4; 2]);
    for (begun, before) in [(one, None), (two, Some(&four))] {
        let old = |name: &Name| match before {
            None => four.master(),
            Some(before) => before.place(name.as_bytes()),
        };
        assert!(all.iter().all(|name| begun.place(name.as_bytes()) == old(name)));
        let half = begun.passed(Some(all[249].clone()));
        assert_eq!(DirStripes::decode(&half.encode()), Ok(half.clone()));
        assert_eq!(DirStripes::generation_in(&half.encode()), begun.generation() + 1);
        let end = half.passed(None);
        assert_eq!(DirStripes::decode(&end.encode()), Ok(end.clone()));
        assert!(end.moving().is_none() && end.generation() == begun.generation() + 2);
        for (n, name) in all.iter().enumerate() {
            let then = begun.place_then(name.as_bytes());
            let at = if n < 250 { then } else { old(name) };
            assert_eq!((half.place(name.as_bytes()), end.place(name.as_bytes())), (at, then));
        }
        assert!(all.iter().any(|name| old(name) != end.place(name.as_bytes())));
        assert!(half.restriped(DirHash::Crush, 1, Vec::new()).is_err(), "names move");
    }
}

#[test]
fn a_directory_goes_to_other_inodes() {
    let four = stripes(DirHash::Fnv1a64, 4);
    let other = |mdt: u64| Fid { seq: Fid::SEQ_NORMAL + mdt * Fid::SEQ_WIDTH, oid: 99, ver: 0 };
    let all: Vec<Name> = (0..300).map(|n| name(&format!("file.{n:03}"))).collect();
    let (whole, hash) = (four.master(), DirHash::Crush);
    for (old, to) in [(None, 1), (None, 3), (Some(&four), 1), (Some(&four), 2)] {
        // The first new one may be on an MDT that has an old one, too.
        let to: Vec<Fid> = (0..to).map(other).collect();
        let begun = DirStripes::going(whole, old, hash, to.clone()).unwrap();
        let before = old.map_or(vec![whole], |old| old.all().to_vec());
        assert_eq!((begun.master(), begun.leaves()), (to[0], &before[..]));
        assert_eq!(begun.in_use().len(), to.len() + before.len());
        assert_eq!(DirStripes::decode(&begun.encode()), Ok(begun.clone()));
        let place_before = |name: &Name| old.map_or(whole, |old| old.place(name.as_bytes()));
        for name in &all {
            assert_eq!(begun.place(name.as_bytes()), place_before(name));
            assert_eq!(begun.home(name.as_bytes()), whole);
        }
        let half = begun.passed(Some(all[149].clone()));
        assert_eq!(DirStripes::decode(&half.encode()), Ok(half.clone()));
        for (n, name) in all.iter().enumerate() {
            let (at, home) = match n < 150 {
                true => (half.place_then(name.as_bytes()), to[0]),
                false => (place_before(name), whole),
            };
            assert_eq!((half.place(name.as_bytes()), half.home(name.as_bytes())), (at, home));
        }
        let end = half.passed(None);
        assert_eq!((end.all(), end.leaves(), end.moving()), (&to[..], &[][..], None));
        assert_eq!(end.generation(), begun.generation() + 2);
        assert_eq!(DirStripes::decode(&end.encode()), Ok(end.clone()));
        assert!(all.iter().all(|name| to.contains(&end.place(name.as_bytes()))));
        assert!(all.iter().all(|name| end.home(name.as_bytes()) == to[0]));
        // It may be split, and go on, from there.
        let more = (4..6).map(other).collect();
        assert!(end.restriped(hash, to.len() as u16 + 2, more).is_ok());
        assert!(DirStripes::going(to[0], Some(&end), hash, vec![other(9)]).is_ok());
        assert!(DirStripes::going(to[0], Some(&half), hash, vec![other(9)]).is_err(), "moves");
    }
    let to_itself = DirStripes::going(whole, Some(&four), hash, vec![whole]);
    assert_eq!(to_itself, Err(BadDirStripes("a stripe twice")));
    let no_place = DirStripes::going(whole, None, hash, Vec::new());
    assert_eq!(no_place, Err(BadDirStripes("number of stripes")));
}

#[test]
fn a_merged_directory_keeps_its_stripes() {
    let four = stripes(DirHash::Crush, 4);
    let one = four.restriped(DirHash::Crush, 1, Vec::new()).unwrap().passed(None);
    assert_eq!((one.all(), one.in_use()), (four.all(), &four.all()[..1]));
    assert!((0..100).all(|n| one.place(format!("{n}").as_bytes()) == four.master()));
    assert!(one.restriped(DirHash::Crush, 5, Vec::new()).is_err());
    let again = one.restriped(DirHash::Crush, 3, Vec::new()).unwrap().passed(None);
    assert_eq!((again.in_use(), again.generation()), (&four.all()[..3], 5));
}

#[test]
fn a_default_is_read_again() {
    let default = DirDefault {
        count: 4,
        hash: DirHash::Fnv1a64,
        mdt: Some(TargetIndex(2)),
        inherit: Levels::All,
        by_turns: Levels::Some(3),
    };
    let none = DirDefault { mdt: None, by_turns: Levels::None, ..default };
    for default in [default, none] {
        let bytes = encode_default(&default);
        assert_eq!(decode_default(&bytes), Ok(default));
        (0..bytes.len()).for_each(|len| assert!(decode_default(&bytes[..len]).is_err()));
        for (at, byte) in [(0, 2), (1, 0), (3, 9), (5, 0x20), (6, 251)] {
            let mut bad = bytes;
            bad[at] = byte;
            assert!(decode_default(&bad).is_err(), "byte {at}");
        }
    }
}
