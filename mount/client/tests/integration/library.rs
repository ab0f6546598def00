//! The runnable example of the client as a library does what it says.

#[path = "../../examples/one_file.rs"]
#[allow(dead_code, reason = "its main needs servers")]
mod one_file;

use crate::cluster::Cluster;
use client::caller::Caller;
use client::node::NodeId;
use one_file::{get, put};
use types::name::Name;

#[tokio::test]
async fn what_is_put_is_got_and_durable() {
    let cluster = Cluster::mounted().await;
    let client = &cluster.client;
    let dir = Name::new(b"d").unwrap();
    client.clone().mkdir(Caller::root(), NodeId::ROOT, dir, 0o755).await.unwrap();
    // More than two pieces; the second time fewer.
    for len in [2_500_000_u32, 10, 0] {
        let bytes: Vec<u8> = (0..len).map(|n| (n / 7) as u8).collect();
        cluster.asked();
        put(client, "/d/f", &bytes[..]).await.unwrap();
        assert!(cluster.asked().contains(&"Sync".to_owned()), "durable");
        let mut got = Vec::new();
        get(client, "d/f", &mut got).await.unwrap();
        assert!(got == bytes, "{} bytes of {len}", got.len());
    }
    assert_eq!(client.open_count(), 0, "all is closed");
}

#[tokio::test]
async fn a_name_that_is_not_there_is_an_error() {
    let cluster = Cluster::mounted().await;
    let said = |error: Box<dyn std::error::Error>| error.to_string();
    for path in ["none", "none/f"] {
        let error = get(&cluster.client, path, Vec::new()).await.map_err(said).unwrap_err();
        assert!(error.contains("No such file"), "{path}: {error}");
    }
    assert!(put(&cluster.client, "/", &b"x"[..]).await.is_err(), "the root is no file");
}
