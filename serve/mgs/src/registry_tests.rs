use super::*;

fn nids() -> Vec<String> {
    vec!["10.0.0.1:7988@tcp".to_owned()]
}

pub(super) fn register(r: &mut Registry, name: &str, store: u128) -> Result<String, Refused> {
    r.register(name, store, Serving::at(&nids(), 1)).map(|(name, _)| name.to_string())
}

#[test]
fn indices_are_given_in_order_and_kept() {
    let mut r = Registry::default();
    assert_eq!(register(&mut r, "sheen-OST", 1), Ok("sheen-OST0000".into()));
    assert_eq!(register(&mut r, "sheen-OST0001", 2), Ok("sheen-OST0001".into()));
    assert_eq!(register(&mut r, "sheen-OST", 3), Ok("sheen-OST0002".into()));
    assert_eq!(register(&mut r, "sheen-MDT", 4), Ok("sheen-MDT0000".into()));
    assert_eq!(register(&mut r, "other-OST", 5), Ok("other-OST0000".into()));
    // The same store again: same name, whichever way it asks.
    assert_eq!(register(&mut r, "sheen-OST", 3), Ok("sheen-OST0002".into()));
    assert_eq!(register(&mut r, "sheen-OST0002", 3), Ok("sheen-OST0002".into()));
    let (_, config) = &r.configs()[1];
    let names: Vec<_> = config.targets.iter().map(|t| &t.name[..]).collect();
    assert_eq!(names, ["sheen-MDT0000", "sheen-OST0000", "sheen-OST0001", "sheen-OST0002"]);
    assert_eq!(config.version, 6);
}

#[test]
fn strangers_and_impostors_change_nothing() {
    let mut r = Registry::default();
    register(&mut r, "sheen-OST0000", 1).unwrap();
    let before = r.configs();
    let refused = [
        register(&mut r, "sheen-OST0000", 2).unwrap_err(),
        register(&mut r, "sheen-OST0001", 1).unwrap_err(),
        register(&mut r, "sheen-MDT", 1).unwrap_err(),
        r.unregister("sheen-OST0000", 2).unwrap_err(),
    ];
    assert!(refused.iter().all(|e| e.errno() == Errno::EEXIST), "{refused:?}");
    assert!(matches!(refused[0], Refused::Stranger { theirs: 1, ours: 2, .. }));
    for name in ["", "sheen", "MGS", "sheen-ABC", "much-too-long-OST", "sheen-OST00001"] {
        assert_eq!(register(&mut r, name, 9).unwrap_err().errno(), Errno::EINVAL, "{name}");
    }
    for nids in [vec![], vec!["x".into()]] {
        let refused = r.register("sheen-OST", 9, Serving::at(&nids, 1)).unwrap_err();
        assert_eq!(refused.errno(), Errno::EINVAL);
    }
    assert_eq!(r.unregister("sheen-OST0007", 9).unwrap_err().errno(), Errno::ENOENT);
    assert_eq!(register(&mut r, "sheen-OST1fff", 9).unwrap_err().errno(), Errno::ENOSPC);
    assert_eq!(r.configs(), before);
}

#[test]
fn an_orderly_stop_is_told_once() {
    let mut r = Registry::default();
    register(&mut r, "sheen-OST0000", 1).unwrap();
    let (_, config) = r.unregister("sheen-OST0000", 1).unwrap().published.remove(0);
    assert!(!config.targets[0].up);
    assert_eq!(r.unregister("sheen-OST0000", 1), Ok(Change::default()));
}

#[test]
fn nodemaps_are_records_of_their_own() {
    let mut r = Registry::default();
    let name = || "physics".parse().unwrap();
    let added = r.change_nodemaps(&NodemapChange::Add(name())).unwrap();
    assert_eq!(added.nodemaps.as_deref(), Some(r.nodemaps()));
    let again = r.change_nodemaps(&NodemapChange::Activate(false)).unwrap();
    assert_eq!(again, Change::default());
    let range = NodemapChange::AddMembers(name(), "10.0.0.*@tcp".parse().unwrap());
    let active = NodemapChange::Activate(true);
    let mut restarted = Registry::default();
    let changes = [&range, &active].map(|change| r.change_nodemaps(change).unwrap());
    assert!(changes.iter().all(|change| change.published.is_empty()));
    for (key, value) in [added].iter().chain(&changes).flat_map(|change| &change.records) {
        restarted.take(key, value.as_ref().unwrap()).unwrap();
    }
    assert_eq!(restarted, r);
    let gone = r.change_nodemaps(&NodemapChange::Del(name())).unwrap();
    assert_eq!(gone.records[1].1, None, "its record goes");
    assert_eq!(r.change_nodemaps(&range).unwrap_err().errno(), Errno::ENOENT);
}

#[test]
fn file_systems_are_bounded() {
    let mut r = Registry::default();
    for n in 0..FILE_SYSTEMS_MAX as u128 {
        register(&mut r, &format!("fs{n}-MDT0000"), n).unwrap();
    }
    assert_eq!(register(&mut r, "more-MDT0000", 999), Err(Refused::Full("file systems")));
}
