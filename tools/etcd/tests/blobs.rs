//! Blobs in a real store with Amazon's S3 interface. Skips, and says so, where there is none
//! (`./run deps test` installs it).

mod members;
mod weed;

use etcd::s3::S3;
use etcd::url::Members;
use std::fs;
use store::blobs::{BlobError, Blobs};
use weed::{Weed, or_skip};

fn connect(url: &str) -> S3 {
    let members: Members = format!("etcd://nowhere,{url}").parse().unwrap();
    S3::new(&members.blobs.unwrap()).unwrap()
}

#[test]
fn blobs_are_kept_listed_and_removed() {
    let Some(mut weed) = or_skip(Weed::start()) else { return };
    let (s3, other) = (connect(&weed.url("a/b")), connect(&weed.url("c")));
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    assert_eq!(s3.get("folder/none", 10), Ok(None));
    assert_eq!(s3.list("folder", ""), Ok(Vec::new()));
    s3.put("folder/large", bytes.clone()).unwrap();
    assert_eq!(s3.get("folder/large", bytes.len()), Ok(Some(bytes)));
    let refused = s3.get("folder/large", 1000);
    assert!(matches!(refused, Err(BlobError::Refused(_))), "{refused:?}");
    // More than any answer may have that is no blob: it is not even read.
    s3.put("larger", vec![1; 5 << 20]).unwrap();
    let text = s3.get("larger", 1000).unwrap_err().to_string();
    assert!(text.contains("larger has 5242880 bytes, more than 1000"), "{text}");
    s3.remove("larger").unwrap();
    for number in 0..5 {
        s3.put(&format!("folder/{number:016x}-sheen-MDT0000"), vec![number]).unwrap();
    }
    s3.put("folder/0000000000000002-sheen-MDT0000", b"another".to_vec()).unwrap();
    s3.put("folder/below/it", b"x".to_vec()).unwrap();
    s3.put("folder-of-another-name", b"x".to_vec()).unwrap();
    let names = s3.list("folder", "").unwrap();
    assert_eq!(names.len(), 7, "{names:?}");
    assert!(names.is_sorted() && names.contains(&"folder/below/it".to_owned()), "{names:?}");
    let behind = s3.list("folder", &names[4]).unwrap();
    assert_eq!(behind, names[5..]);
    assert_eq!(other.list("folder", ""), Ok(Vec::new()), "that of another prefix");
    s3.remove(&names[0]).unwrap();
    s3.remove(&names[0]).unwrap();
    assert_eq!(s3.get(&names[0], 100), Ok(None));
    assert_eq!(s3.list("folder", "").unwrap(), names[1..]);
    // A connection that is gone is made again.
    weed.kill();
    let gone = s3.put("folder/later", b"x".to_vec());
    assert!(matches!(gone, Err(BlobError::NoAnswer(_))), "{gone:?}");
    weed.start_again();
    s3.put("folder/later", b"x".to_vec()).unwrap();
    assert_eq!(s3.get("folder/later", 1), Ok(Some(b"x".to_vec())));
}

#[test]
fn what_is_wrong_with_a_store_of_blobs_is_said() {
    let Some(weed) = or_skip(Weed::start()) else { return };
    let error = |url: &str| connect(url).put("x", b"x".to_vec()).unwrap_err().to_string();
    let text = error(&weed.url_of("nothing", "p"));
    assert!(text.contains("s3://nothing/p at 127.0.0.1:"), "{text}");
    fs::write(weed.key_file(), "sheen\nanother secret\n").unwrap();
    let text = error(&weed.url("p"));
    assert!(text.contains("SignatureDoesNotMatch") && !text.contains('\n'), "{text}");
    fs::write(weed.key_file(), "sheen\n").unwrap();
    let members: Members = format!("etcd://nowhere,{}", weed.url("p")).parse().unwrap();
    let text = S3::new(&members.blobs.unwrap()).map(drop).unwrap_err().to_string();
    assert!(text.contains("two lines"), "{text}");
}
